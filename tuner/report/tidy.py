"""A record as tidy tables: one row per observation, one column per variable.

They hold what a spreadsheet or a data frame needs. A cell is None where the record has no value;
no cell is NaN or infinite. `tuner.report.tidy_columns` defines the columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from tuner.goals.goals import goals_of
from tuner.goals.metric import cpu_us_per_request, memory_mib, typical_ln
from tuner.goals.objective import Objective
from tuner.judge.history import TrialFigure, trial_figures
from tuner.judge.scoring import BASELINE, block_losses, counted_windows, windows_of
from tuner.measurement.latency import Latency
from tuner.measurement.window import Measurement
from tuner.record.model import Block, BlockInstance, Record
from tuner.report.tidy_columns import COLUMNS, Column, TableName, parameter

Cell = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class TidyTable:
    """Observations in rows, variables in columns."""

    name: TableName
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    """Cells in the order of ``columns``."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)


def windows(record: Record) -> TidyTable:
    """Return every window of a record, valid or not, in the order of measurement."""
    return _table("windows", COLUMNS["windows"], _windows(record))


def blocks(record: Record) -> TidyTable:
    """Return every arm of every block, whether the block counts or not, in order of time."""
    objective = goals_of(record.definition).first
    rows = (row for block in record.blocks for row in _arms(record, block, objective))
    return _table("blocks", COLUMNS["blocks"], rows)


def trials(record: Record) -> TidyTable:
    """Return every trial of the search, with a column for each parameter."""
    known = record.configurations
    used = [known[trial.digest].values for trial in record.trials if trial.digest in known]
    names = sorted({name for values in used for name in values})
    found = (*COLUMNS["trials"], *map(parameter, names))
    return _table("trials", found, _trials(record, names))


TABLES: Mapping[TableName, Callable[[Record], TidyTable]] = {
    "windows": windows,
    "blocks": blocks,
    "trials": trials,
}


def _table(
    name: TableName, columns: tuple[Column, ...], rows: Iterable[Mapping[str, Cell]]
) -> TidyTable:
    names = [column.name for column in columns]
    cells = (tuple(_finite(row[each]) for each in names) for row in rows)
    return TidyTable(name, columns, tuple(cells))


def _finite(value: Cell) -> Cell:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _place(record: Record, block: Block, arm: BlockInstance) -> dict[str, Cell]:
    """Return the cells that identify an observation of a block."""
    contenders = record.contest.contenders if record.contest else ()
    servers = {contender.label: contender.server for contender in contenders}
    return {
        "study": record.name,
        "host": block.host or record.host.hostname,
        "server": servers.get(arm.instance, record.server.name),
        "phase": block.phase,
        "block": block.number,
        "block_index": block.index,
        "arm": arm.instance,
        "configuration": arm.digest,
        "trial": arm.trial,
        "slot": arm.slot,
    }


def _windows(record: Record) -> Iterator[dict[str, Cell]]:
    for block in record.blocks:
        places = {arm.instance: _place(record, block, arm) for arm in block.instances}
        for position, window in enumerate(block.windows):
            yield {**places[window.instance], "position": position, **_window(window)}


def _window(window: Measurement) -> dict[str, Cell]:
    resources = window.resources
    backend = resources.backend if resources else None
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(window.errors.items()))
    return {
        **{name: getattr(window, name) for name in _AS_RECORDED},
        "invalid_reasons": "; ".join(window.invalid),
        "errors": sum(window.errors.values()),
        "errors_by_kind": kinds,
        "requests": window.stall_free.count,
        "effective_requests": window.effective,
        **_latency("", window.stall_free),
        "raw_requests": window.raw.count,
        **_latency("raw_", window.raw),
        **_latency("service_", window.service),
        **_latency("send_lag_", window.send_lag),
        "server_cpu_us_per_request": cpu_us_per_request(window),
        "backend_cpu_s": backend.cpu_s if backend else None,
        **_latency("first_byte_", window.first_byte),
    }


_AS_RECORDED = (
    *("round", "started_unix_s", "duration_s", "mode", "protocol", "connections", "valid", "bad"),
    *("rate_per_s", "offered", "completed", "completed_per_s", "timeouts", "unsent", "in_flight"),
    *("reconnects", "bytes_in", "excluded_share", "stalled_share", "steal_s", "generator_cpu_s"),
    *("generator_busy_share", "server_cpu_s", "server_rss_bytes"),
)
"""Columns that have the names and the values of a window's attributes."""
_FIGURES = tuple(field.name for field in fields(Latency) if field.name.endswith("_us"))


def _latency(prefix: str, found: Latency | None) -> dict[str, Cell]:
    return {f"{prefix}{name}": getattr(found, name) if found else None for name in _FIGURES}


def _arms(record: Record, block: Block, objective: Objective) -> Iterator[dict[str, Cell]]:
    counted = {arm.instance: counted_windows(block, arm.instance) for arm in block.instances}
    ratios = _ratios(block, objective, counted)
    for arm in block.instances:
        own, measured = counted[arm.instance], windows_of(block, arm.instance)
        yield {
            **_place(record, block, arm),
            "started_unix_s": block.started_unix_s,
            "ended_unix_s": block.ended_unix_s,
            "state": block.state,
            "reason": block.reason,
            "arm_state": arm.state,
            "arm_message": arm.message,
            "seed": block.seed,
            "windows": len(measured),
            "windows_invalid": sum(not window.valid for window in measured),
            "windows_counted": len(own),
            **{each.column: typical(own, each) for each in TYPICAL},
            "objective": objective.text,
            "value": math.exp(objective.arm_ln(own)),
            "ratio": ratios.get(arm.instance),
        }


@dataclass(frozen=True, slots=True)
class TypicalFigure:
    """A figure of the typical window of an arm in a block."""

    column: str
    name: str
    """Name in the report."""
    unit: str
    """Unit in the report."""
    metric: Callable[[Measurement], float]


TYPICAL = (
    TypicalFigure("p50_us", "p50", "µs", lambda window: window.stall_free.p50_us),
    TypicalFigure("p90_us", "p90", "µs", lambda window: window.stall_free.p90_us),
    TypicalFigure("p99_us", "p99", "µs", lambda window: window.stall_free.p99_us),
    TypicalFigure("p999_us", "p99.9", "µs", lambda window: window.stall_free.p999_us),
    TypicalFigure("completed_per_s", "throughput", "/s", lambda w: w.completed_per_s),
    TypicalFigure("server_cpu_us_per_request", "server CPU per request", "µs", cpu_us_per_request),
    TypicalFigure("server_memory_mib", "server memory (RSS)", "MiB", memory_mib),
)


def typical(windows: Sequence[Measurement], figure: TypicalFigure) -> float:
    """Return a figure of the typical one of an arm's windows in a block; NaN if unknown."""
    return math.exp(typical_ln(windows, figure.metric))


def _ratios(
    block: Block, objective: Objective, counted: Mapping[str, Sequence[Measurement]]
) -> dict[str, float]:
    """Return the ratios of the other arms to the baseline, as the report shows them."""
    if block.phase == "search":
        # In the search all arms of a block take part in the estimate.
        losses = block_losses(block, objective)
        return {label: math.exp(objective.loss(loss)) for label, loss in losses.items()}
    base = counted.get(BASELINE, ())
    others = (label for label in counted if label != BASELINE)
    return {label: math.exp(objective.difference_ln(counted[label], base)) for label in others}


def _trials(record: Record, parameters: Sequence[str]) -> Iterator[dict[str, Cell]]:
    goals = goals_of(record.definition)
    by_number = {trial.number: trial for trial in record.trials}
    for figure in trial_figures(record, goals):
        kept = record.configurations.get(figure.digest)
        values = kept.values if kept else {}
        yield {
            "study": record.name,
            "host": by_number[figure.number].host or record.host.hostname,
            **_trial(figure),
            "objective": goals.first.text,
            "second_objective": goals.second.text if goals.second else None,
            **{parameter(name).name: values.get(name) for name in parameters},
        }


def _trial(figure: TrialFigure) -> dict[str, Cell]:
    return {
        "trial": figure.number,
        "configuration": figure.digest,
        "origin": figure.origin,
        "state": figure.state,
        "message": figure.message,
        "blocks": figure.blocks,
        "ratio": figure.ratio,
        "ratio_low": figure.low,
        "ratio_high": figure.high,
        "ratio_best_so_far": figure.best_so_far,
        "second_ratio": figure.second,
        "front": figure.front,
        "violates": figure.violates,
    }
