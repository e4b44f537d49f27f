"""The exact signed-rank test and interval on the paired differences of blocks.

In a block the baseline and the candidate run side by side, in random order. If they do not differ,
the sign of d = ln(candidate) - ln(baseline) is random *by design*, so the distribution of the
signed-rank statistic over all 2^n sign flips is known exactly, for any drift, autocorrelation
or tail of the latencies (Fisher, The Design of Experiments, 1935; Wilcoxon 1945). Every figure
here is exact at every n: there is no normal approximation and no resampling.

The estimate is the Hodges-Lehmann pseudomedian, the median of the n(n+1)/2 Walsh averages
(d_i + d_j)/2, i <= j. The interval is the range of shifts that the test does not reject, which is
again a pair of ordered Walsh averages (Hodges and Lehmann 1963; Hollander, Wolfe and Chicken,
Nonparametric Statistical Methods, 3rd ed., 2014, ch. 3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from tuner.stats.words import counted

FloatArray = npt.NDArray[np.float64]

PKind = Literal["exact", "always-valid", "look-adjusted"]
"""Validity of an estimate: ``exact`` for a number of blocks that was fixed beforehand,
``always-valid`` for any number of looks, ``look-adjusted`` after the last of several looks."""

# Two differences of logarithms that are equal in the data (100/110 and 200/220) differ in the last
# bits as floats. Latencies carry three or four digits, so this is far below any real difference.
_TIE_DECIMALS = 12


@dataclass(frozen=True, slots=True)
class PairedEstimate:
    """An estimate of the ratio candidate / baseline from n blocks."""

    n: int
    """Number of blocks."""
    ratio: float
    """exp of the pseudomedian of d: below 1 the candidate's figure is the smaller one."""
    low: float
    """Lower end of the interval for the ratio; 0 where n is too small for a finite interval."""
    high: float
    """Upper end of the interval for the ratio; infinity where n is too small."""
    confidence: float
    """Nominal confidence of the interval, e.g. 0.95. The actual one is never lower."""
    p_value: float
    """Exact two-sided p of "no difference", in (0, 1]. It does not depend on `confidence`."""
    method: str
    """Method of the figures, in words for a report."""
    p_kind: PKind = "exact"
    """Kind of p, and of the interval."""

    @property
    def is_finite(self) -> bool:
        """True if n was large enough for an interval with two finite ends."""
        return math.isfinite(self.high)

    def is_within(self, share: float | None) -> bool:
        """Return whether the interval reaches no further than a share to either side of its middle.

        The middle is that of the logarithms. None is any share.
        """
        return share is None or self.high <= (1 + share) ** 2 * self.low

    @property
    def excludes_no_change(self) -> bool:
        """True if the interval leaves out a ratio of 1."""
        return self.low > 1.0 or self.high < 1.0


def log_ratios(candidate: npt.ArrayLike, baseline: npt.ArrayLike) -> FloatArray:
    """Return the paired differences d_i = ln(candidate_i) - ln(baseline_i), one per block.

    Both arms are positive figures in the same unit, in the same order of blocks.

    Raises:
        ValueError: the arms differ in length, or a figure is not positive and finite.
    """
    arms = [np.asarray(arm, dtype=np.float64) for arm in (candidate, baseline)]
    if arms[0].shape != arms[1].shape or arms[0].ndim != 1:
        raise ValueError(
            "candidate and baseline must be two lists of equal length, one figure per block, "
            f"but got shapes {arms[0].shape} and {arms[1].shape}"
        )
    for name, arm in zip(("candidate", "baseline"), arms, strict=True):
        bad = arm[~(np.isfinite(arm) & (arm > 0))]
        if bad.size:
            raise ValueError(f"{name} must hold positive, finite figures but got {bad[0]}")
    return np.asarray(np.log(arms[0]) - np.log(arms[1]), dtype=np.float64)


def minimum_blocks(confidence: float) -> int:
    """Return the smallest n at which a two-sided interval of this confidence is finite.

    The most extreme outcome has probability 2 * 2^-n, which must not exceed 1 - confidence:
    6 blocks for 95 %, 5 for 90 %.
    """
    _check_confidence(confidence)
    return math.ceil(1 - math.log2(1 - confidence))


def attained_level(n: int, level: float) -> float:
    """Return the actual level of the exact two-sided test of n blocks, at most `level`.

    Its p has a few possible values only, e.g. 0.03125 and then 0.0625 for n = 6. It is 0 where n
    is too small to reach `level` at all.
    """
    tail = _rank_tail(n)
    rejected = int(np.searchsorted(tail, level / 2, side="right"))
    return 2 * float(tail[rejected - 1]) if rejected else 0.0


def signed_rank_p(differences: npt.ArrayLike) -> float:
    """Return the exact two-sided p of "every difference is symmetric about 0".

    Without ties this is Wilcoxon's signed-rank test. With ties or zeros it is the sign-flip
    permutation test of the midranks, conditional on them, zeros being ranked but signless (Pratt
    1959). In both cases the statistic is the sum of sign(d_i + d_j) over all i <= j, and its
    distribution over all 2^n sign flips is computed in full by dynamic programming.

    Raises:
        ValueError: there are no differences, or one is not finite.
    """
    return _signed_rank(checked(differences))[0]


def estimate(differences: npt.ArrayLike, confidence: float = 0.95) -> PairedEstimate:
    """Return pseudomedian ratio, exact interval and exact p from the differences d of n blocks.

    `differences` has shape (n,), in natural logarithms (see `log_ratios`). With fewer blocks than
    `minimum_blocks(confidence)` no finite interval exists: it is (0, inf), and `method` says so.
    Where the data has ties, the closed interval keeps at least its nominal confidence
    (Noether, Journal of the American Statistical Association 62, 1967).

    Time and memory grow with n^3 and n^2: 1,000 blocks take about a second.

    Raises:
        ValueError: there are no differences, one is not finite, or `confidence` is not in (0, 1).
    """
    _check_confidence(confidence)
    d = checked(differences)
    n = d.size
    p_value, tied = _signed_rank(d)

    rows, columns = _pairs(n)
    walsh = np.sort((d[rows] + d[columns]) / 2)
    # The number of rejected values of the statistic in one tail is the rank of the Walsh average
    # where the interval ends: 9 of 55 for n = 10.
    rank = int(np.searchsorted(_rank_tail(n), (1 - confidence) / 2, side="right"))
    low, high = (walsh[rank - 1], walsh[-rank]) if rank else (-math.inf, math.inf)

    method = (
        "exact sign-flip permutation test of the midranks (ties or zeros among the differences)"
        if tied
        else "exact signed-rank test"
    )
    method += ", Hodges-Lehmann estimate, interval from the Walsh averages"
    if not rank:
        method += (
            f"; {counted(n, 'block')} cannot give a {100 * confidence:g} % interval "
            f"(it needs {minimum_blocks(confidence)}), so it is infinite"
        )
    return PairedEstimate(
        n=n,
        ratio=math.exp(float(np.median(walsh))),
        low=math.exp(low),
        high=math.exp(high),
        confidence=confidence,
        p_value=p_value,
        method=method,
    )


def pseudomedians(values: npt.ArrayLike) -> FloatArray:
    """Return the median of all Walsh averages (Hodges and Lehmann 1963).

    The centre that the signed-rank test is about. It takes 29 % of the values to move it at will,
    and for normal ones it has 95 % of the mean's efficiency, where the median has 64 %.

    Args:
        values: shape (…, n), n > 0.

    Returns:
        Shape (…).
    """
    d = np.asarray(values, dtype=np.float64)
    rows, columns = _pairs(d.shape[-1])
    return np.asarray(np.median((d[..., rows] + d[..., columns]) / 2, axis=-1))


def midranks(values: FloatArray) -> FloatArray:
    """Return ranks from 1; equal values share the mean of their ranks."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(count) - (count - 1) / 2)[place], dtype=np.float64)


def _signed_rank(d: FloatArray) -> tuple[float, bool]:
    """Return the exact two-sided p, and whether the differences have ties or zeros."""
    d = np.round(d, _TIE_DECIMALS)
    ranks = midranks(np.abs(d))
    nonzero = d != 0
    tied = not nonzero.all() or np.unique(ranks).size < d.size
    if tied:
        # Twice a midrank is a whole number, so sums of midranks stay exact.
        ranks *= 2
        tail = _tail(tuple(sorted(int(rank) for rank in ranks[nonzero])))
    else:
        tail = _rank_tail(d.size)
    positive = int(ranks[d > 0].sum())
    # The distribution is symmetric: the upper tail is the lower tail of what is left.
    extreme = min(positive, tail.size - 1 - positive)
    return min(1.0, 2 * float(tail[extreme])), tied


def _rank_tail(n: int) -> FloatArray:
    return _tail(tuple(range(1, n + 1)))


@lru_cache(maxsize=64)
def _tail(weights: tuple[int, ...]) -> FloatArray:
    """P(S <= s) for s = 0, 1, …: S sums the whole-numbered weights, each with probability 1/2."""
    probability = np.zeros(sum(weights) + 1)
    probability[0] = 1.0
    top = 0
    for weight in weights:
        probability[weight : top + weight + 1] += probability[: top + 1].copy()
        top += weight
        probability[: top + 1] /= 2
    tail = np.cumsum(probability)
    tail.setflags(write=False)
    return tail


@lru_cache(maxsize=8)
def _pairs(n: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    rows, columns = np.triu_indices(n)
    return rows, columns


def checked(differences: npt.ArrayLike) -> FloatArray:
    """Return the differences with shape (n,); raise ValueError if empty or not finite."""
    d = np.asarray(differences, dtype=np.float64)
    if d.ndim != 1 or d.size == 0:
        raise ValueError(
            f"differences must be a list with at least one block but got shape {d.shape}"
        )
    if not np.isfinite(d).all():
        raise ValueError(f"differences must be finite but got {d[~np.isfinite(d)][0]}")
    return d


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1 but got {confidence}")
