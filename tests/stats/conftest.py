"""Number of studies in a simulation, and tolerances for their counts."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from scipy import stats

from tests.seeds import RARE


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Bounds for a count among independent studies; chance crosses one with at most ``RARE``."""

    studies: int

    def most(self, probability: float) -> int:
        """Return the largest count that an event of at most this probability may reach."""
        return int(stats.binom.isf(RARE, self.studies, probability))

    def least(self, probability: float) -> int:
        """Return the smallest count that an event of at least this probability must reach."""
        return int(stats.binom.ppf(RARE, self.studies, probability))


@pytest.fixture(
    params=[
        pytest.param(200, id="200-studies"),
        pytest.param(2_000, id="2000-studies", marks=pytest.mark.proof),
    ]
)
def studies(request: pytest.FixtureRequest) -> int:
    """Number of simulated studies: the short form always, the long one with `-m proof`."""
    return int(request.param)


@pytest.fixture
def tolerance(studies: int) -> Tolerance:
    """Binomial bounds for counts among `studies`."""
    return Tolerance(studies)
