"""Objectives: figures that a study minimises or maximises."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.errors import DefinitionError, quoted
from tuner.goals.capacity import crossing, points
from tuner.goals.constraint import Constraint
from tuner.goals.metric import Metric, difference_ln, quantile_of, typical_ln
from tuner.measurement.instrument import Mode
from tuner.measurement.window import Measurement

CAPACITY = "capacity"
PLAIN = ("throughput", "cpu", "memory")
ALLOWED = f"a percentile such as p50, p99 or p99.9, or {', '.join(PLAIN)}, {CAPACITY}"


@dataclass(frozen=True, slots=True)
class Objective:
    """One figure: a percentile, throughput, CPU by request, memory, or the capacity at a limit.

    Percentiles are of the corrected, stall-free latency. CPU and memory are the server's, at the
    load point. ``capacity`` is the highest rate at which ``slo`` is met.
    """

    name: str
    slo: Constraint | None = None
    """Absolute limit on a percentile; only for ``capacity``."""

    @classmethod
    def parse(cls, text: str) -> Objective:
        """Parse a name, or ``capacity at p99 <= 5ms``; raise DefinitionError for others."""
        name, at, limit = text.partition(" at ")
        if at and name == CAPACITY:
            return cls.capacity(limit)
        if text == CAPACITY:
            raise DefinitionError(
                "the objective capacity needs a latency limit, such as --slo 'p99<5ms'",
                path="--objective",
            )
        if text not in PLAIN and quantile_of(text) is None:
            raise DefinitionError(
                f"unknown objective {quoted(text)}; allowed: {ALLOWED}", path="--objective"
            )
        return cls(text)

    @classmethod
    def capacity(cls, slo: str) -> Objective:
        """Return the objective capacity with a limit; raise DefinitionError for a wrong limit."""
        try:
            limit = Constraint.parse(slo)
        except ValueError as error:
            raise DefinitionError(str(error), path="--slo") from error
        if limit.relative or limit.metric.quantile is None:
            raise DefinitionError(
                f"{quoted(slo)} is not a latency limit; allowed: a percentile and a time, such as"
                " p99<5ms",
                path="--slo",
            )
        return cls(CAPACITY, limit)

    @property
    def text(self) -> str:
        """Text that ``parse`` reads back."""
        return f"{self.name} at {self.slo.text}" if self.slo else self.name

    @property
    def words(self) -> str:
        """Name in sentences."""
        return {"cpu": "CPU per request", "memory": "memory"}.get(self.name, self.text)

    @property
    def quantile(self) -> float | None:
        """0.99 for ``p99``; None for what is not a percentile."""
        return quantile_of(self.name)

    @property
    def larger_is_better(self) -> bool:
        """True for throughput and capacity."""
        return self.name in {"throughput", CAPACITY}

    @property
    def mode(self) -> Mode:
        """Closed loop for throughput, which needs saturation; else an open loop."""
        return "closed" if self.name == "throughput" else "open"

    @property
    def at_one_rate(self) -> bool:
        """True if all windows have one offered rate: a closed loop has none, a capacity many."""
        return self.mode == "open" and not self.slo

    @property
    def unit(self) -> str:
        """Unit of the figure."""
        return "requests/s" if self.slo else Metric(self.name).unit

    @property
    def samples_needed(self) -> int:
        """Requests that a window must hold; see ``Metric.samples_needed``.

        A window of a capacity only decides on which side of the limit its rate lies, and many
        windows contribute: 20 requests beyond the quantile are enough.
        """
        quantile = self.slo.metric.quantile if self.slo else None
        if quantile is not None:
            return max(1_000, round(20 / (1 - quantile)))
        return Metric(self.name).samples_needed

    def value(self, measurement: Measurement) -> float:
        """The figure of one window; NaN for capacity, which takes windows at several rates."""
        return math.nan if self.slo else Metric(self.name).value(measurement)

    def ln(self, measurement: Measurement) -> float:
        """Natural logarithm of ``value``: differences of it are log ratios."""
        value = self.value(measurement)
        return math.log(value) if value > 0 else math.nan

    def arm_ln(self, windows: Sequence[Measurement]) -> float:
        """Natural logarithm of an arm's figure in a block, from all its windows there.

        It is that of the typical window, or for capacity the rate at the limit. NaN if unknown.
        """
        if self.slo is None:
            return typical_ln(windows, self.value)
        found = crossing(points(windows, self.slo))
        return math.nan if found is None else found.ln_rate

    def difference_ln(self, own: Sequence[Measurement], other: Sequence[Measurement]) -> float:
        """Return the log ratio of two arms' figures in a block, from all their windows there.

        The ratio is computed by rounds (``tuner.goals.metric.difference_ln``), except for a
        capacity, which has windows at several rates. NaN if unknown.
        """
        if self.slo is None:
            return difference_ln(own, other, self.value)
        return self.arm_ln(own) - self.arm_ln(other)

    def loss(self, ln_ratio: float) -> float:
        """Sign a log ratio so that smaller is better, for every objective."""
        return -ln_ratio if self.larger_is_better else ln_ratio
