"""Kinds of records, and what a measurement says."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Sequence
from typing import Literal

from tuner.goals.goals import goals_of
from tuner.measurement.window import Measurement
from tuner.record.model import Record
from tuner.words.figures import figure

RecordKind = Literal[
    "study", "measurement", "comparison", "replication", "search", "contest", "ladder", "run"
]
"""``search`` is the tuning of one server for a contest, a ladder or a run."""


def kind_of(record: Record) -> RecordKind:
    """Return what a record is of, by what it holds and by the command that began it."""
    asked = str(record.asked.get("command", ""))
    if record.contest is not None:
        if asked == "run":
            return "run"
        return "ladder" if record.contest.ladder is not None else "contest"
    if record.original is not None:
        return "replication"
    if asked in ("run", "meet"):
        return "search"
    kinds: dict[str, RecordKind] = {
        "measure": "measurement",
        "compare": "comparison",
        "replicate": "replication",
    }
    return kinds.get(asked or _command(record), "study")


def measurement_sentence(record: Record) -> str:
    """Return what a measurement showed, in one sentence."""
    measured = [block for block in record.blocks if block.phase == "aa"]
    if not measured:
        return "Not measured: it stopped before its first window."
    windows = measured[-1].windows
    valid = [window for window in windows if window.valid]
    if not valid:
        return f"No valid window: {first_reason(windows) or measured[-1].reason}."
    objective = goals_of(record.definition).first
    median = statistics.median(objective.value(window) for window in valid)
    load = "closed loop"
    if valid[0].mode == "open":
        load = f"at {figure(valid[0].rate_per_s, '/s')}"
    baseline = str(record.definition.get("baseline", ""))
    return (
        f"{baseline}: {objective.words} {figure(median, objective.unit)} {load}, median of"
        f" {len(valid)} of {len(windows)} windows"
    )


def first_reason(windows: Sequence[Measurement]) -> str:
    """Return why the first invalid window is invalid; empty if there is none."""
    return next(("; ".join(window.invalid) for window in windows if not window.valid), "")


def _command(record: Record) -> str:
    """Return the subcommand that began a record which does not name it otherwise."""
    try:
        words = shlex.split(record.command)
    except ValueError:
        return ""
    return words[1] if len(words) > 1 else ""
