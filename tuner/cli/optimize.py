"""``tuner optimize``: search for a better configuration and confirm it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tuner.app import dry_run, results
from tuner.app.caller import Caller
from tuner.app.metrics_server import check_listen
from tuner.app.optimizing import optimize, rehearsed
from tuner.app.option_words import overrides
from tuner.cli import options
from tuner.cli.callers import as_caller
from tuner.cli.groups import GroupedCommand
from tuner.paths import STUDIES

_EPILOG = """
\b
Examples:
  tuner optimize --server nginx --objective p99
  tuner optimize --objective capacity --slo 'p99<5ms'
  tuner optimize --objective cpu --constraint 'p99 <= 1.1x baseline'
  tuner optimize --objective p99 --objective memory \\
    --choose 'memory <= 1.1x baseline'
  tuner optimize --workload proxy --time 20m --name proxy
  tuner optimize --allow open_file_cache --allow access_log_buffer
  tuner optimize --config /etc/nginx/nginx.conf --server-name shop.example
  tuner optimize --study proxy --baseline studies/mine/best/configuration.yaml
  sudo tuner optimize --layer kernel --workload proxy --time 2h
  tuner optimize --sequential --finalists 3 --time 30m
  tuner optimize --baseline distro --baseline stock --baseline hand --time 30m
  tuner optimize --inventory hosts.yml --time 30m
  tuner optimize --inventory hosts.yml --in-place restarts-my-service \\
    --workload shop.yaml
  tuner optimize --config /etc/nginx/nginx.conf --dry-run
  tuner optimize --sampler tpe
  tuner optimize --resume --name proxy
"""


@click.command(cls=GroupedCommand, epilog=_EPILOG)
@options.workload
@options.own
@options.in_place
@options.search
@options.confirmation
@options.ablate
@options.study_file
@options.study
@click.option("--resume", is_flag=True, help="Resume an interrupted study.")
@options.output
@options.metrics
@options.ci
@options.dry_run
@options.foreign
@options.wait
@as_caller
def command(
    *,
    caller: Caller,
    study_file: str | None,
    resume: bool,
    as_json: bool,
    junit: Path | None,
    metrics: str | None,
    dry: bool,
    **given: Any,
) -> None:
    """Search for a better configuration, then prove whether it is one.

    Calibrates on the baseline, searches in randomised blocks, and confirms the winner on fresh
    data under a protocol that is frozen beforehand. Writes the verdict (better, worse, equivalent
    or inconclusive), a report, and the recommended configuration. If the verdict is better and
    enough of the time is left, finds the changes that matter and recommends only those.
    """
    dry_run.refuse_resume(dry=dry, resume=resume)
    asked = overrides(given)
    if dry:
        check_listen(metrics)
        dry_run.show([rehearsed(asked, caller, study_file)], as_json=as_json)
        return
    study = optimize(asked, caller, study_file=study_file, resume=resume, metrics=metrics)
    results.show([study], STUDIES / study.record.name, as_json=as_json, junit=junit)
