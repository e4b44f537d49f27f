"""``tuner compare``: compare two configurations, or servers, under a frozen protocol."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from tuner.app import dry_run, results
from tuner.app.caller import Caller
from tuner.app.comparing import WantedComparison, compare, rehearsed
from tuner.app.matches import check_match, folder_of, verdicts_on_last
from tuner.app.option_words import overrides
from tuner.cli import complete, options
from tuner.cli.callers import as_caller
from tuner.cli.groups import GroupedCommand
from tuner.errors import EXIT_FAIL_IF, DefinitionError

_VERDICTS = ("better", "worse", "equivalent", "inconclusive", "violated")
_EPILOG = """
\b
Examples:
  tuner compare stock hand
  tuner compare before.yaml after.yaml --fail-if worse
  tuner compare stock hand --constraint 'errors <= 0.1%' --fail-if violated
  tuner compare stock hand --sequential
  tuner compare stock hand --resume
  tuner compare own hand --config /etc/nginx/nginx.conf
  tuner compare nginx caddy --workload https --time 10m
  tuner compare nginx haproxy caddy --workload proxy --time 20m
  tuner compare nginx:stock nginx:stock \\
    --server-binary ./old/nginx --server-binary ./new/nginx
  tuner compare nginx:hand caddy:stock --workload proxy --ladder
  tuner compare distro studies/proxy/best/configuration.yaml --time 5m
"""


@click.command(cls=GroupedCommand, epilog=_EPILOG)
@click.argument("baseline", metavar="A", shell_complete=complete.arms)
@click.argument("candidate", metavar="B", shell_complete=complete.arms)
@click.argument("more", nargs=-1, metavar="[SERVER]...", shell_complete=complete.arms)
@options.workload
@options.own
@click.option(
    "--fail-if",
    type=click.Choice(_VERDICTS),
    multiple=True,
    help="Exit with code 4 if this is the verdict on B, or on the last server; may be repeated.",
)
@click.option("--ladder", is_flag=True, help="Compare servers at rising rates too.")
@click.option("--resume", is_flag=True, help="Resume an interrupted comparison of A and B.")
@options.confirmation
@options.study_file
@options.study
@options.output
@options.metrics
@options.ci
@options.dry_run
@options.foreign
@options.wait
@as_caller
def command(
    baseline: str,
    candidate: str,
    more: tuple[str, ...],
    *,
    caller: Caller,
    study_file: str | None,
    fail_if: tuple[str, ...],
    ladder: bool,
    resume: bool,
    as_json: bool,
    junit: Path | None,
    metrics: str | None,
    dry: bool,
    **given: Any,
) -> None:
    """Compare B with A in randomised blocks under a frozen protocol.

    A and B are stock, distro, hand, or configuration files as `tuner export` writes them; with
    --config, `own` is your own configuration. They may also be servers: `nginx` and `caddy`, each
    tuned in its own space first, or `nginx:hand`, `caddy:FILE`; each of several is compared with
    each other one. Servers get equal settings for everything that clients and operators would
    notice; the result lists these settings. Two programs of one server, such as before and after
    an upgrade, are named by --server-binary.
    """
    dry_run.refuse_resume(dry=dry, resume=resume)
    arms = (baseline, candidate, *more)
    wanted = WantedComparison(arms, overrides(given), study_file, ladder, metrics)
    if junit is not None and wanted.of_servers:
        raise DefinitionError("applies to studies; for servers use --fail-if", path="--junit")
    if dry:
        dry_run.show(rehearsed(wanted, caller), as_json=as_json)
        return
    study = compare(wanted, caller, resume=resume)
    results.show([study], folder_of(study.record), as_json=as_json, junit=junit)
    if study.contest:
        check_match(study.record, wanted.arms)
    if {str(found.kind) for found in verdicts_on_last(study)} & set(fail_if):
        sys.exit(EXIT_FAIL_IF)
