"""What is minimised or maximised."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tuner.errors import DefinitionError
from tuner.measurement import Measurement

Mode = Literal["open", "closed"]

NAMES = ("p50", "p90", "p99", "p99.9", "throughput")


@dataclass(frozen=True, slots=True)
class Objective:
    """A percentile of the corrected, stall-free latency (µs), or requests per second."""

    name: str

    @classmethod
    def parse(cls, text: str) -> Objective:
        """Read a name; raises DefinitionError for an unknown one."""
        if text not in NAMES:
            raise DefinitionError(
                f"unknown objective {text!r}; allowed: {', '.join(NAMES)}", path="--objective"
            )
        return cls(text)

    @property
    def quantile(self) -> float | None:
        """0.99 for ``p99``; None for throughput."""
        return None if self.name == "throughput" else float(self.name[1:]) / 100

    @property
    def larger_is_better(self) -> bool:
        """True for throughput."""
        return self.name == "throughput"

    @property
    def mode(self) -> Mode:
        """Percentiles need an open loop; throughput is saturation, a closed one."""
        return "closed" if self.name == "throughput" else "open"

    @property
    def unit(self) -> str:
        """Unit of ``value``."""
        return "requests/s" if self.name == "throughput" else "µs"

    @property
    def samples_needed(self) -> int:
        """Requests that a window must hold: 100 beyond the quantile, and 10,000 for p99.

        With 10,000 samples the order-statistic interval of p99 spans p98.8 to p99.2.
        """
        if self.quantile is None:
            return 1_000
        return max(2_000, round(100 / (1 - self.quantile)))

    def value(self, measurement: Measurement) -> float:
        """The figure of one window, stall-free where the stall rule applies."""
        if self.quantile is None:
            return measurement.completed_per_s
        return measurement.stall_free.value_us(self.name)

    def ln(self, measurement: Measurement) -> float:
        """Natural logarithm of ``value``: differences of it are log ratios."""
        return math.log(self.value(measurement))

    def loss(self, ln_ratio: float) -> float:
        """Sign a log ratio so that smaller is better, whatever the objective."""
        return -ln_ratio if self.larger_is_better else ln_ratio
