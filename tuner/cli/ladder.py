"""``tuner ladder``: measure servers or configurations at rising rates."""

from __future__ import annotations

from typing import Any

import click

from tuner.app import dry_run, results
from tuner.app.caller import Caller
from tuner.app.matches import (
    DEFAULT_LIMIT,
    Match,
    check_match,
    folder_of,
    meet,
    names_servers,
    rehearsed_match,
)
from tuner.app.metrics_server import check_listen
from tuner.app.option_words import overrides
from tuner.cli import complete, options
from tuner.cli.callers import as_caller
from tuner.cli.groups import GroupedCommand
from tuner.errors import DefinitionError
from tuner.judge.results import evaluate

_EPILOG = """
\b
Examples:
  tuner ladder nginx:stock nginx:hand
  tuner ladder nginx:stock caddy:stock --limit 'p99<5ms' --time 5m
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
@options.metrics
@options.dry_run
@options.foreign
@options.wait
@as_caller
def command(
    arms: tuple[str, ...],
    *,
    caller: Caller,
    limit: str | None,
    study_file: str | None,
    resume: bool,
    as_json: bool,
    metrics: str | None,
    dry: bool,
    **given: Any,
) -> None:
    """Measure every ARM at rising rates.

    Reports latency, the knee, and the highest rate within a limit. An ARM is a server with a
    configuration: nginx:stock, nginx:hand, caddy:FILE.yaml. A server without a configuration is
    tuned first. Measures all arms side by side and the rates in random order.
    """
    if not names_servers(arms):
        raise DefinitionError(f"{arms[0]!r} names no server; write nginx:{arms[0]}", path="ARM")
    match = Match.of(arms, overrides(given), study_file, limit=limit, ladder=True)
    dry_run.refuse_resume(dry=dry, resume=resume)
    check_listen(metrics)
    if dry:
        dry_run.show(rehearsed_match("ladder", match, caller), as_json=as_json)
        return
    record = meet(match, caller, resume=resume, metrics=metrics)
    results.show([evaluate(record)], folder_of(record), as_json=as_json)
    check_match(record, arms)
