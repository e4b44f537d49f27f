"""``tuner measure``: measure one configuration, without a claim."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from tuner.app import dry_run
from tuner.app.caller import Caller
from tuner.app.document_file import write_document
from tuner.app.generator_size import preflight_sized
from tuner.app.metrics_server import check_listen, study_metrics
from tuner.app.option_words import overrides
from tuner.app.preflight import preflight
from tuner.app.printing import print_json
from tuner.app.session import create_store, free_name, open_bench
from tuner.app.turn import take_turn
from tuner.cli import complete, options
from tuner.cli.callers import as_caller
from tuner.cli.groups import GroupedCommand
from tuner.definition.study import BASE_STUDY, load_study
from tuner.errors import DefinitionError, HostError, NameTakenError, named
from tuner.judge.kinds import first_reason
from tuner.measurement.latency import Latency
from tuner.measurement.window import Measurement
from tuner.outputs.formats import DocumentFormat, document_choice
from tuner.paths import STUDIES
from tuner.phases.measure import Measured, measure_one
from tuner.report.tidy_columns import TableName

_FIGURES = ("p50", "p90", "p99", "p99.9", "max")
_FIRST_BYTE_FIGURES = ("p50", "p99")
_EPILOG = """
\b
Examples:
  tuner measure stock
  tuner measure studies/quickstart/best/configuration.yaml --rate 20000 --json
  tuner measure own --config /etc/nginx/nginx.conf
  tuner measure stock --load wrk2 --rate 5000
  tuner measure stock --load h2load --objective throughput
  tuner measure stock --objective capacity --slo 'p99<5ms'
  tuner measure stock --format hgrm --out stock.hgrm
"""


@click.command(cls=GroupedCommand, epilog=_EPILOG)
@click.argument("configuration", default="stock", shell_complete=complete.arms)
@options.workload
@options.own
@options.study_file
@options.study
@options.document
@options.output
@options.metrics
@options.dry_run
@options.wait
@as_caller
def command(
    configuration: str,
    *,
    caller: Caller,
    study_file: str | None,
    document: DocumentFormat | None,
    table: TableName | None,
    arm: str | None,
    out: Path | None,
    as_json: bool,
    metrics: str | None,
    dry: bool,
    **given: Any,
) -> None:
    """Measure CONFIGURATION (stock, distro, hand or a YAML file) at its load point.

    Measures one block of windows of one freshly started instance and makes no claim. Without
    --rate, the load point is the rate at which the server's cores are 70 % busy; with --slo, it is
    the highest rate that meets the limit.
    """
    choice = document_choice(document, table, arm, out)
    if choice is not None and as_json:
        raise DefinitionError("prints one document; leave out --json", path="--format")
    check_listen(metrics)
    progress = caller.progress
    asked = {**overrides(given), "baseline": configuration}
    with named("--baseline", "CONFIGURATION"):
        definition = load_study(study_file or BASE_STUDY, asked)
    if given["name"] is None:
        definition = replace(definition, name=free_name(f"measure-{definition.name}"))
    if dry:
        found = dry_run.prepared(definition, caller)
        plan = dry_run.rehearse(
            "measure",
            found,
            {configuration: found.baseline},
            searches=False,
            added={"time": f"one block of windows; results in {STUDIES / definition.name}/"},
        )
        dry_run.show([plan], as_json=as_json)
        return
    folder = STUDIES / definition.name
    turn = take_turn(folder, definition.inventory, caller)
    found = preflight_sized(partial(preflight, turn=turn), definition, folder, progress)
    try:
        store = create_store(found, folder, command=caller.command)
    except NameTakenError as error:
        # It has one block, so there is nothing to resume.
        words = f"a study called {definition.name!r} has been measured; choose another --name"
        raise NameTakenError(f"{words}, or leave it out") from error
    with (
        study_metrics(metrics, definition, folder, progress),
        progress.live(),
        open_bench(found, folder, progress, store) as (bench, spec),
    ):
        measured = measure_one(bench, spec)
    if choice is not None:
        write_document(choice, [(store.record(), folder)])
    elif as_json:
        print_json(_as_data(measured))
    else:
        for line in _lines(measured, stall_free=found.leaves_out_stalls):
            click.echo(line)
        for note in found.notes:
            click.echo(f"note      {note}")
    _check_valid(measured.windows)


def _check_valid(windows: Sequence[Measurement]) -> None:
    """Raise HostError unless a window is valid."""
    if any(window.valid for window in windows):
        return
    raise HostError(
        f"none of {len(windows)} windows is valid, so there are no figures; the first:"
        f" {first_reason(windows) or 'none was measured'}; `tuner doctor` shows what disturbs this"
        " host"
    )


def _lines(measured: Measured, *, stall_free: bool) -> list[str]:
    capacity = f"capacity  {measured.capacity.per_s:,.0f} requests/s (closed loop)"
    if not measured.windows:
        return [capacity]
    first = measured.windows[0]
    lines = [
        capacity,
        (
            f"load      {_load(measured)}, {first.connections} connections,"
            f" {len(measured.windows)} windows of {first.duration_s:.1f} s"
        ),
    ]
    windows = [window for window in measured.windows if window.valid]
    if windows:
        lines += _figures(windows, stall_free=stall_free)
    wrong = [window for window in measured.windows if not window.valid]
    return lines + [f"invalid   {w.window_id}: {'; '.join(w.invalid)}" for w in wrong]


def _figures(windows: Sequence[Measurement], *, stall_free: bool) -> list[str]:
    """Return the table of latencies and the line on connections, of valid windows."""
    lines = [f"{'corrected latency, µs':<24}{'median':>10}{'lowest':>10}{'highest':>10}"]
    for kind, picture in (("stall-free", "stall_free"), ("raw", "raw"))[0 if stall_free else 1 :]:
        lines += _rows(kind, [getattr(window, picture) for window in windows], _FIGURES)
    # Not every generator reports it.
    first = [window.first_byte for window in windows if window.first_byte]
    lines += _rows("first byte", first, _FIRST_BYTE_FIGURES)
    if stall_free:
        shares = [window.excluded_share for window in windows]
        words = f"{min(shares):.1%} to {max(shares):.1%} of requests"
        lines.append(f"excluded  {words}, by the stall rule")
    return lines + _connections(windows)


def _rows(kind: str, found: Sequence[Latency], names: Sequence[str]) -> list[str]:
    """Return a row for each figure of a kind of latency over the windows; none without any."""
    lines = []
    for name in names if found else ():
        values = [latency.value_us(name) for latency in found]
        figures = (statistics.median(values), min(values), max(values))
        cells = "".join(f"{value:>10,.1f}" for value in figures)
        lines.append(f"  {kind:<12}{name:<10}{cells}")
    return lines


def _connections(windows: Sequence[Measurement]) -> list[str]:
    """Return a line on the protocol, the encryption, and connections opened in the windows."""
    first = windows[0]
    agreed = " ".join(
        filter(None, (first.agreed.tls_version, first.agreed.cipher, first.agreed.group))
    )
    words = f"protocol  {first.protocol or 'none'}" + (f", {agreed}" if agreed else "")
    full, resumed = (sum(getattr(w.agreed, what) for w in windows) for what in ("full", "resumed"))
    if full + resumed:
        words += f", handshakes {full} in full, {resumed} resumed"
    again = sum(window.reconnects for window in windows)
    return [words + (f", {again} reconnects" if again else "")]


def _load(measured: Measured) -> str:
    if measured.windows[0].mode == "closed":
        return "as many requests as the server answers (closed loop)"
    return f"{measured.rate_per_s:,.0f} requests/s offered ({measured.rate_source})"


def _as_data(measured: Measured) -> dict[str, Any]:
    return {
        "capacity_per_s": measured.capacity.per_s,
        "rate_per_s": measured.rate_per_s,
        "rate_source": measured.rate_source,
        "busy_share": measured.busy_share,
        "windows": [_window(window) for window in _in_order(measured.windows)],
    }


def _in_order(windows: Sequence[Measurement]) -> list[Measurement]:
    return sorted(windows, key=lambda window: window.started_unix_s)


def _window(window: Measurement) -> dict[str, Any]:
    found = window.first_byte
    return {
        "duration_s": window.duration_s,
        "completed_per_s": window.completed_per_s,
        "errors": dict(window.errors),
        "protocol": window.protocol,
        "agreed": asdict(window.agreed),
        "excluded_share": window.excluded_share,
        "invalid": list(window.invalid),
        **{
            f"{kind}_{name.replace('.', '')}_us": getattr(window, kind).value_us(name)
            for kind in ("stall_free", "raw")
            for name in _FIGURES
        },
        **{
            f"first_byte_{name.replace('.', '')}_us": found.value_us(name) if found else None
            for name in _FIRST_BYTE_FIGURES
        },
    }
