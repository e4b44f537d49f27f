"""Quality of a load generator's figures.

The record keeps it, so that a report made years later still names the generator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Mode = Literal["open", "closed"]
"""Load at a rate, independent of the answers, or one request after another per connection."""
Load = Literal["native", "wrk2", "h2load"]
LOADS: tuple[Load, ...] = get_args(Load)


@dataclass(frozen=True, slots=True)
class Instrument:
    """One kind of load generator: its abilities, and its resolution. The default is our own."""

    load: Load = "native"
    modes: tuple[Mode, ...] = ("open", "closed")
    tells_stalls: bool = True
    """True if it reports when each request was due and when the host stalled.

    Otherwise nothing can be excluded, and every latency is raw.
    """
    checks: str = "status, length and content of the answers"
    """Checks of the answers."""
    label: str = ""
    """Label of every latency from it; empty if none is needed."""
    resolution_us: float = 0.0
    """Smallest latency difference that the tool resolves, µs."""

    @property
    def slices(self) -> bool:
        """True if several instances can share a window in slices."""
        return self.load == "native"

    def too_fine(self, baseline_us: float, candidate_us: float) -> str:
        """Return why two latencies are too close for a verdict; empty if they are not.

        The rule uses the difference alone, so it refuses *equivalent* as well: a tool that cannot
        resolve the difference cannot show equality.
        """
        difference_us = abs(candidate_us - baseline_us)
        if not difference_us < self.resolution_us:
            return ""
        return (
            f"the arms differ by {difference_us:.0f} µs, and {self.load} resolves"
            f" {self.resolution_us:.0f} µs ({self.label}); measure again with --load native"
        )


NATIVE = Instrument()
