"""Power: the number of blocks that a claim needs, and the effect that n blocks detect.

The noise comes from A/A blocks: identical instances, measured exactly as the arms will be. The
sample size is that of the paired t-test with Guenther's correction for the estimated variance
(The American Statistician 35, 1981), divided by 3/pi = 0.955, the efficiency of the signed-rank
test relative to the t-test for normal data (Pitman; Lehmann, Nonparametrics, 1975):

    n = ((z_level + z_power)^2 (sigma_d / delta)^2 + z_level^2 / 2) / 0.955

which at 80 % power and two-sided 5 % is (7.85 (sigma_d / delta)^2 + 1.92) / 0.955. An exact test of
few blocks cannot reach 5 % exactly: z_level is taken at the level that it does reach (3.1 % for
n = 6, 4.2 % for n = 12), without which the power would fall short by up to three points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from tuner.stats.margin import NO_MARGIN, Margin
from tuner.stats.paired import attained_level, minimum_blocks

LEVEL = 0.05
"""Two-sided level of the confirmation's test."""
POWER = 0.80
"""Probability with which the minimum detectable effect is detected."""

_EFFICIENCY = 3 / math.pi
# Beyond this many blocks the attained level is 5 % to three digits.
_DISCRETE_UP_TO = 100
_MOST_BLOCKS = 1_000_000
_MOST_LN = 10.0
"""Limit for half-widths in ln units, far above any that decides something."""


@dataclass(frozen=True, slots=True)
class PooledSigma:
    """The noise of one block's difference, estimated from identical instances."""

    sigma_d: float
    """Standard deviation of d = ln(arm) - ln(other arm) for two identical arms in one block."""
    degrees_of_freedom: int
    """Degrees of freedom: the instances of every block, less one per block."""

    def upper_limit(self, confidence: float = 0.80) -> float:
        """Return the one-sided upper confidence limit of sigma_d, by chi-square of normal noise.

        Planned with the plain estimate, about half of all studies come out too small. Planned with
        the upper limit of a pilot, the wanted power is reached with at least this confidence
        (Browne, Statistics in Medicine 14, 1995); 80 % is the recommendation of Kieser and Wassmer
        (Biometrical Journal 38, 1996).

        Raises:
            ValueError: `confidence` is not in (0, 1).
        """
        if not 0 < confidence < 1:
            raise ValueError(f"confidence must be between 0 and 1 but got {confidence}")
        df = self.degrees_of_freedom
        # chdtri takes the upper tail: the lower quantile of chi-square leaves `confidence` above.
        return self.sigma_d * math.sqrt(df / float(special.chdtri(df, confidence)))

    def half_width(self, blocks: int) -> float:
        """Return the A/A half-width of a 95 % interval of `blocks` blocks, as a fraction.

        For identical arms, as the t-interval of this noise; infinite where the exact interval
        would be, or where the noise has no bounds. 0.03 means about 3 % to either side.
        """
        if blocks < minimum_blocks(1 - LEVEL):
            return math.inf
        t = float(special.stdtrit(self.degrees_of_freedom, 1 - LEVEL / 2))
        return math.expm1(min(t * self.sigma_d / math.sqrt(blocks), _MOST_LN))


def pooled_sigma(groups: Sequence[npt.ArrayLike]) -> PooledSigma:
    """Return the standard deviation of d from A/A blocks.

    Each group is one block, shape (k, k): d of each two of its k >= 2 identical instances, so
    ``d[i, j] == -d[j, i]``. Identical instances differ by 0, so the mean square of d is its
    variance; blocks count with their k - 1 degrees of freedom. Where d is a difference of two
    levels, this is the pooled variance of the levels within blocks, twice.

    Raises:
        ValueError: no groups, a group with fewer than two instances, or a value not finite.
    """
    squares, df = 0.0, 0
    for group in groups:
        d = np.asarray(group, dtype=np.float64)
        if d.ndim != 2 or d.shape[0] != d.shape[1] or len(d) < 2:
            raise ValueError(
                "every A/A block needs at least two identical instances "
                f"but one has shape {d.shape}"
            )
        if not np.isfinite(d).all():
            raise ValueError(f"differences must be finite but got {d[~np.isfinite(d)][0]}")
        instances = len(d)
        # The mean over the pairs of different instances, times the block's degrees of freedom.
        squares += float(np.sum(d**2)) / instances
        df += instances - 1
    if df == 0:
        raise ValueError("noise cannot be estimated without A/A blocks")
    return PooledSigma(sigma_d=math.sqrt(squares / df), degrees_of_freedom=df)


def minimum_detectable_effect(
    sigma_d: float, n: int, margin: Margin = NO_MARGIN, level: float = LEVEL
) -> float:
    """Return the smallest reduction that n blocks show with 80 % probability, in (0, 1].

    A reduction of 0.10 is a ratio of 0.90, or of 1/0.90 in the other direction. "Shown" means that
    the exact two-sided interval at `level` lies beyond the margin. Without a margin the difference
    is *seen*: the interval excludes 1. With the margin of the verdict it is *claimed*: the verdict
    is *better*. With fewer blocks than an interval needs (6 at 5 %) nothing is ever shown, and the
    answer is 1.

    Raises:
        ValueError: `sigma_d` is negative or not finite, or `n` is below 1.
    """
    _check_plan(sigma_d, n)
    shift = sigma_d * _detectable_sigmas(n, level)
    return margin.claimable(-math.expm1(-shift))


def claim_power(
    sigma_d: float, n: int, effect: float, margin: Margin = NO_MARGIN, level: float = LEVEL
) -> float:
    """Return the probability that n blocks show a reduction of `effect` beyond the margin.

    It is a property of the verdict's own rule for normal noise, exact for the fewest blocks with an
    interval and within three points for more of them; `minimum_detectable_effect` is its inverse at
    80 %. An effect inside the margin is shown in at most half the level.

    Raises:
        ValueError: `sigma_d` is negative or not finite, `n` is below 1, or `effect` is not in
            [0, 1).
    """
    _check_plan(sigma_d, n)
    if not 0 <= effect < 1:
        raise ValueError(f"effect must be at least 0 and below 1 but got {effect}")
    least = minimum_blocks(1 - level)
    if n < least:
        return 0.0
    shift = math.log(margin.low) - math.log1p(-effect)
    if sigma_d == 0:
        return float(shift > 0)
    if n == least:
        return float(special.ndtr(shift / sigma_d)) ** n
    z, root = _scale(n, level)
    return float(special.ndtr(shift / sigma_d * root - z))


def blocks_needed(
    sigma_d: float, effect: float, margin: Margin = NO_MARGIN, level: float = LEVEL
) -> int:
    """Return the smallest number of blocks that shows `effect` with 80 % probability; at least 6.

    At a `level` below 5 %, as for one of several candidates, both figures are larger.

    The inverse of `minimum_detectable_effect`, with the same meaning of `effect` and `margin`. For
    an effect of 0.10 without a margin: 6 blocks at sigma_d = 0.05, 10 at 0.10, 19 at 0.15, 32 at
    0.20, 69 at 0.30.

    Raises:
        ValueError: `effect` does not exceed the margin or is not below 1, `sigma_d` is out of
            range, or more than a million blocks would be needed.
    """
    inside = 1 - margin.low
    if not inside < effect < 1:
        raise ValueError(
            f"effect must lie between the margin (a reduction of {inside:.3g}) and 1, "
            f"since what does not exceed the margin is never claimed; but got {effect}"
        )
    least = minimum_blocks(1 - level)
    if minimum_detectable_effect(sigma_d, least, margin, level) <= effect:
        return least
    delta = math.log(margin.low / (1 - effect))
    # The formula at the full level is a lower bound, from which a few steps lead to the answer.
    needed = _nominal_blocks(sigma_d / delta, level)
    if needed > _MOST_BLOCKS:
        raise ValueError(
            f"an effect of {effect:.3g} beyond a margin of {margin.share:.3g} at a noise of "
            f"{sigma_d:.3g} would need {needed:.0f} blocks: ask for a larger effect or reduce the"
            " noise"
        )
    n = max(least + 1, math.ceil(needed))
    while minimum_detectable_effect(sigma_d, n, margin, level) > effect:
        n += 1
    return n


def blocks_within(
    limit: int, sigma_d: float, effect: float, margin: Margin = NO_MARGIN, level: float = LEVEL
) -> int:
    """Return `blocks_needed`, or the limit if that is smaller.

    Raises:
        ValueError: as `blocks_needed`, but never for too many blocks.
    """
    if minimum_detectable_effect(sigma_d, limit, margin, level) > effect:
        return limit
    return min(limit, blocks_needed(sigma_d, effect, margin, level))


def _nominal_blocks(sigmas_per_effect: float, level: float) -> float:
    z, z_power = _normal_quantiles(level)
    return ((z + z_power) ** 2 * sigmas_per_effect**2 + z**2 / 2) / _EFFICIENCY


def _detectable_sigmas(n: int, level: float) -> float:
    """Return the detectable shift of the centre, in standard deviations of the differences."""
    least = minimum_blocks(1 - level)
    if n < least:
        return math.inf
    if n == least:
        # Here the test rejects only if all differences have one sign: exact, where the
        # approximation would promise 80 % and give 62 %.
        return float(special.ndtri(POWER ** (1 / n)))
    z, root = _scale(n, level)
    return (z + float(special.ndtri(POWER))) / root


def _scale(n: int, level: float) -> tuple[float, float]:
    """Return the test's quantile and the factor from standard deviations to its normal scale.

    The power for a shift of x standard deviations is that of a normal figure with mean x times the
    factor to exceed the quantile.
    """
    z, _ = _normal_quantiles(attained_level(n, level) if n <= _DISCRETE_UP_TO else level)
    return z, math.sqrt(_EFFICIENCY * n - z**2 / 2)


def _check_plan(sigma_d: float, n: int) -> None:
    if not (math.isfinite(sigma_d) and sigma_d >= 0):
        raise ValueError(f"sigma_d must be a finite number of at least 0 but got {sigma_d}")
    if n < 1:
        raise ValueError(f"n must be at least 1 but got {n}")


def _normal_quantiles(level: float) -> tuple[float, float]:
    return float(special.ndtri(1 - level / 2)), float(special.ndtri(POWER))
