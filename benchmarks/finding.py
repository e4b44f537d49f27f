"""What a benchmark found: ratios of figures of one run, with their scatter."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import click


@dataclass(frozen=True, slots=True)
class Aim:
    """A limit that a figure is held against."""

    sign: Literal["≤", "≥"]
    limit: float

    def reached_by(self, value: float) -> bool:
        """Return whether the value keeps the limit; NaN does not."""
        return value <= self.limit if self.sign == "≤" else value >= self.limit


def at_most(limit: float) -> Aim:
    """Return the smaller, the better."""
    return Aim("≤", limit)


def at_least(limit: float) -> Aim:
    """Return the larger, the better."""
    return Aim("≥", limit)


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer, with the aim it is held against (none: it is told for information)."""

    question: str
    value: float
    unit: str = ""
    """Empty for a ratio."""
    aim: Aim | None = None
    runs: tuple[float, ...] = ()
    """The single runs, where ``value`` is their median."""

    def line(self) -> str:
        """Question, value, range of the runs, aim, and whether it is reached."""
        text = f"{self.question:62} {self.value:8.3g}{self.unit:3}"
        if len(self.runs) > 1:
            text += f"  [{min(self.runs):.3g} … {max(self.runs):.3g}]"
        if self.aim is not None:
            reached = "reached" if self.aim.reached_by(self.value) else "MISSED"
            text = f"{text:96} aim {self.aim.sign} {self.aim.limit:g}{self.unit}  {reached}"
        return text


def median_of(
    question: str, runs: Sequence[float], *, unit: str = "", aim: Aim | None = None
) -> Finding:
    """Return the finding whose value is the median of the runs; NaN of none."""
    value = statistics.median(runs) if runs else float("nan")
    return Finding(question, value, unit, aim, tuple(runs))


def show(findings: Iterable[Finding]) -> None:
    """Print findings, a line each."""
    for finding in findings:
        click.echo(finding.line())
