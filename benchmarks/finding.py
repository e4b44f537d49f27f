"""Findings of a benchmark: ratios of figures of one run, with their scatter."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import click


@dataclass(frozen=True, slots=True)
class Aim:
    """A limit for a figure."""

    sign: Literal["≤", "≥"]
    limit: float

    def reached_by(self, value: float) -> bool:
        """Return whether the value keeps the limit; NaN does not."""
        return value <= self.limit if self.sign == "≤" else value >= self.limit


def at_most(limit: float) -> Aim:
    """Return the aim of a figure that should be at most this limit."""
    return Aim("≤", limit)


def at_least(limit: float) -> Aim:
    """Return the aim of a figure that should be at least this limit."""
    return Aim("≥", limit)


@dataclass(frozen=True, slots=True)
class Finding:
    """A figure with its aim, or without one for information."""

    question: str
    value: float
    unit: str = ""
    """Empty for a ratio."""
    aim: Aim | None = None
    runs: tuple[float, ...] = ()
    """Values of the single runs if ``value`` is their median."""

    def line(self) -> str:
        """Return question, value, range of the runs, aim, and whether it is reached."""
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
    """Return the finding with the median of the runs; NaN without runs."""
    value = statistics.median(runs) if runs else float("nan")
    return Finding(question, value, unit, aim, tuple(runs))


def show(findings: Iterable[Finding]) -> None:
    """Print findings, a line each."""
    for finding in findings:
        click.echo(finding.line())
