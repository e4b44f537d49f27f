"""``tuner ladder``: measure servers or configurations at rising rates."""

from __future__ import annotations

from typing import Any

import click

from tuner.app import dry_run, provenance, turn
from tuner.cli import complete, options
from tuner.cli.groups import GroupedCommand
from tuner.cli.meet import DEFAULT_LIMIT, Match, meet, names_servers, rehearse_match
from tuner.errors import DefinitionError

_EPILOG = """
\b
Examples:
  tuner ladder nginx:stock nginx:hand
  tuner ladder nginx:stock caddy:stock --workload https --limit 'p99<5ms' --time 5m
  tuner ladder nginx:stock nginx caddy --workload proxy --time 20m
"""


@click.command(cls=GroupedCommand, epilog=_EPILOG)
@click.argument("arms", nargs=-1, required=True, metavar="ARM...", shell_complete=complete.arms)
@click.option(
    "--limit", metavar="LIMIT", help=f"Report the highest rate within this limit [{DEFAULT_LIMIT}]."
)
@options.workload
@options.margin
@options.study_file
@options.study
@click.option("--resume", is_flag=True, help="Resume an interrupted ladder of these arms.")
@options.output
@dry_run.option
@provenance.option
@turn.option
def command(
    arms: tuple[str, ...],
    *,
    limit: str | None,
    study_file: str | None,
    resume: bool,
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Measure every ARM at rising rates.

    Reports latency, the knee, and the highest rate within a limit. An ARM is a server with a
    configuration: nginx:stock, nginx:hand, caddy:FILE.yaml. A server without a configuration is
    tuned first. Measures all arms side by side and the rates in random order.
    """
    if not names_servers(arms):
        raise DefinitionError(f"{arms[0]!r} names no server; write nginx:{arms[0]}", path="ARM")
    match = Match.of(arms, options.overrides(given), study_file, limit=limit, ladder=True)
    dry_run.refuse_resume(resume=resume)
    if dry_run.is_dry():
        rehearse_match("ladder", match, as_json=as_json, quiet=quiet)
        return
    meet(match, resume=resume, as_json=as_json, quiet=quiet)
