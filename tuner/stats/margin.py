"""The smallest difference worth having, as a band of ratios around 1.

The band is symmetric in logarithms: a candidate has to be as far below the baseline to be *better*
as above it to be *worse*, and exchanging the arms exchanges the two. The noise of the host does not
widen it: the interval that has to clear the band contains the noise already.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

DEFAULT_MARGIN = 0.03
"""Share that counts as worth having unless the user says otherwise."""
LEAST_MARGIN = 0.001
MOST_MARGIN = 0.3
"""Smallest and largest margin that a user can give, as shares."""
DEFAULT_EFFECT = 0.05
"""Reduction that a study plans to claim unless the user says otherwise, a share."""
_WANTED = 5 / 3
"""Least such reduction as a multiple of the margin."""


@dataclass(frozen=True, slots=True)
class Margin:
    """A band of ratios that no claim of a difference may touch."""

    share: float = DEFAULT_MARGIN
    """Size as a share in [0, 1): 0.03 is 3 %."""
    symmetric: bool = True
    """True for 1 / (1 + share) to 1 + share; False for 1 - share to 1 + share, the rule of records
    of earlier versions."""

    def __post_init__(self) -> None:
        """Raise ValueError if the share is out of range."""
        if not 0 <= self.share < 1:
            raise ValueError(f"margin must be at least 0 and below 1 but got {self.share}")

    @property
    def low(self) -> float:
        """Lower end of the band, a ratio."""
        return 1 / (1 + self.share) if self.symmetric else 1 - self.share

    @property
    def high(self) -> float:
        """Upper end of the band, a ratio."""
        return 1 + self.share

    def wanted(self, effect: float = DEFAULT_EFFECT) -> float:
        """Return the reduction that a study plans to claim, given the one that the user wants.

        It is at least five thirds of the margin (5 % at 3 %): a reduction barely beyond the margin
        would need blocks without end.
        """
        return max(effect, _WANTED * self.share)

    def side(self, low: float, high: float) -> int:
        """Return -1 if an interval of ratios lies below the band, 1 if above it, otherwise 0."""
        return int(low > self.high) - int(high < self.low)

    def holds(self, low: float, high: float) -> bool:
        """Return whether an interval of ratios lies inside the band."""
        return self.low < low and high < self.high

    def edge_ln(self, ratio: float) -> float:
        """Return the end of the band on the side of a ratio, ln units."""
        return math.log(self.low if ratio < 1 else self.high)

    def claimable(self, seen: float) -> float:
        """Return the smallest reduction that is claimed as often as a reduction of `seen` is seen.

        Both are shares. A claim needs the interval beyond the band instead of beyond 1, so the
        distances add up in logarithms.
        """
        return 1 - self.low * (1 - seen) if seen < 1 else 1.0


DEFAULT_BAND = Margin()
"""The band of the default margin."""
NO_MARGIN = Margin(0.0)
"""A band of no width: every difference counts."""
