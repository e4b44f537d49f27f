"""The division of a load between several generators.

A superposition of independent Poisson processes is Poisson (Kingman, Poisson Processes, 1993,
section 2.2), so each generator offers an equal part of the rate with a seed of its own. Equal gaps
and recorded instants are dealt in turn, so the instants of all generators are those of one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Share:
    """One generator's part of a load."""

    place: int = 0
    """Place of the generator, from 0."""
    count: int = 1
    """Number of generators."""

    @property
    def is_whole(self) -> bool:
        """True if a single generator offers the load."""
        return self.count == 1

    @property
    def phase(self) -> float:
        """First instant of equal gaps, as a share of this generator's gap.

        Instant j of generator i is that of number ``count·j + i`` of a single generator.
        """
        return (self.place + 0.5) / self.count

    def rate(self, rate_per_s: float) -> float:
        """Return its part of a rate."""
        return rate_per_s / self.count

    def connections(self, number: int) -> int:
        """Return its part of the connections; the parts differ by at most one."""
        return number // self.count + (self.place < number % self.count)

    def seed(self, seed: int) -> int:
        """Return the seed of its schedule, independent of those of the others.

        A single generator has the seed itself, because records contain seeds.
        """
        if self.is_whole:
            return seed
        # A sequence of entropy words gives independent streams (numpy.random.SeedSequence).
        return int(np.random.SeedSequence([seed, self.place]).generate_state(1, np.uint64)[0])

    def instants(self, instants: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return its part of recorded instants: every ``count``-th one."""
        return instants[self.place :: self.count]


WHOLE = Share()
"""The load of a single generator."""
