"""A sequential test and interval: a look after every block, and an exact test after the last.

The looks have a fifth of the level, and the test after the last block has the rest, so the chance
that any of them is wrong is at most the level (Bonferroni). A clear effect ends a confirmation
early, and the test after the last block has nearly the power of one that is made alone. Looks at a
small level before a nearly full test go back to Haybittle (British Journal of Radiology 44, 1971)
and Peto et al. (British Journal of Cancer 34, 1976). The last test is that of `tuner.stats.paired`.

The looks are always-valid. If nothing differs by more than a shift of theta, x = d - theta is
symmetric about 0 by design, given everything before it. A bet of a share b of the capital on its
sign, with the bounded and odd score tanh(1.3 x / s), multiplies the capital by

    1 + b tanh(1.3 x / s),    0 <= b < 1,

which is 1 in expectation for any scale s that depends on earlier blocks only. Products of
such factors are martingales that start at 1. A mixture over bets is one too, and by Ville's
inequality it reaches 1 / alpha at *any* time with a probability of at most alpha, so a study may
look after every block. No variance is assumed, and a burst counts for little more than its sign.
Each factor falls as theta rises, so what is not rejected is an interval by itself. Each direction
has a mixture of its own, at alpha / 2.

If a candidate differs, its differences may be skewed. The martingale then needs theta with
E tanh(1.3 x / s) = 0. tanh is the score of the logistic distribution, for which the pseudomedian is
the efficient estimate (Hodges and Lehmann 1963), and with 1.3 over the standard deviation its zero
lies close to the pseudomedian of skewed differences too. Other scores have their zero elsewhere: a
small one of x itself at the mean, the sign at the median; a test about either calls a pseudomedian
different with a probability that grows with the number of blocks.

Earlier versions bet on tanh(lambda x) with the whole capital and the stakes lambda spread as
|N(0, 1 / rho)| (a sharper form of the supermartingale of de la Pena, Annals of Probability 27,
1999; Ramdas, Ruf, Larsson and Koolen, Admissible anytime-valid sequential inference must rely on
nonnegative martingales, 2020). Small stakes are about the mean, so skewed differences on the margin
were called *better* in up to 11 % of studies. Later ones had looks at the whole level without an
exact test, which took up to 1.8 times the blocks. Records of these versions are still judged so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import special

from tuner.stats.paired import FloatArray, PairedEstimate, checked, estimate, minimum_blocks
from tuner.stats.words import counted

LOOKS_SHARE = 0.2
"""Share of the level that the looks have: 1 % of 5 %."""
LEAST_WATCHED = 12
"""Fewest blocks with looks. Even the clearest effect is not safe at a fifth of 5 % before the ninth
block, so in a shorter confirmation looks save almost nothing and cost level."""
PRECISION = 0.05
"""A safe claim ends a confirmation once its interval reaches no further than this share to either
side of its middle: the last blocks of a short study are worth more than their time."""

_STAKES = 64
_BEND = 1.3
"""Slope of the score, per standard deviation of a block's difference: see the module."""
_BET = 1.25
"""Factor from stakes of the unbounded test, times the standard deviation, to bets on the score.

Near the best for normal noise, E score'(x) / E score(x)^2."""
_MOST_BET = 0.99
_PRIOR_BLOCKS = 4
"""Weight of the calibration's noise in the scale, as a number of blocks."""


@dataclass(frozen=True, slots=True)
class Stakes:
    """The parameters of the sequential test, fixed before the first block."""

    rho: float
    """Variance-like: stakes are spread as |N(0, 1 / rho)|."""
    sigma_d: float | None = None
    """Noise of a block's difference from calibration, ln units; a wrong one costs blocks, and
    little validity. None for the unbounded test of earlier versions."""
    share: float = 1.0
    """Share of the level that the looks have; 1 in records of earlier versions."""
    last: int | None = None
    """Number of blocks after which the exact test has the rest; None where looks are all."""

    def __post_init__(self) -> None:
        """Raise ValueError if a parameter is out of its range."""
        if not self.rho > 0:
            raise ValueError(f"rho must be positive but got {self.rho}")
        if self.sigma_d is not None and not self.sigma_d > 0:
            raise ValueError(f"sigma_d must be positive but got {self.sigma_d}")
        if not 0 < self.share <= 1:
            raise ValueError(f"share must be above 0 and at most 1 but got {self.share}")
        if (self.last is None) != (self.share == 1):
            raise ValueError("an exact test after the last block needs a part of the level")


@dataclass(frozen=True, slots=True)
class Look:
    """The estimate after a number of blocks."""

    blocks: int
    e_value: float
    """Evidence against "no difference": 1 / level and more is a rejection, two-sided."""
    low: float
    """Lower end of the interval for the ratio; 0 while there is none."""
    high: float
    """Upper end; infinity while there is none."""


def tuned_rho(sigma_d: float, blocks: float, level: float = 0.05) -> float:
    """Return the variance-like parameter that makes the interval tightest at about `blocks` blocks.

    rho = blocks sigma_d^2 / (2 ln(1 / level) + ln(1 + 2 ln(1 / level))) (Howard, Ramdas, McAuliffe
    and Sekhon, Annals of Statistics 49, 2021, section 3.5); the divisor is 7.94 at 5 %. A bad guess
    of sigma_d makes the test slower, never wrong.

    Raises:
        ValueError: `sigma_d` or `blocks` is not positive and finite.
    """
    if not (0 < sigma_d < math.inf and 0 < blocks < math.inf):
        raise ValueError(f"sigma_d and blocks must be positive but got {sigma_d} and {blocks}")
    twice = 2 * math.log(1 / level)
    return blocks * sigma_d**2 / (twice + math.log1p(twice))


def tuned_stakes(sigma_d: float, blocks: float, level: float = 0.05) -> Stakes:
    """Return the parameters that make the interval tightest at about `blocks` blocks.

    Raises:
        ValueError: as `tuned_rho`.
    """
    return Stakes(tuned_rho(sigma_d, blocks, level), sigma_d)


def watched(sigma_d: float, blocks: int, level: float = 0.05) -> Stakes:
    """Return the parameters of a confirmation with looks, which are best halfway to its last block.

    Args:
        sigma_d: noise of a block's difference from calibration, ln units.
        blocks: of the confirmation, at most.
        level: of looks and exact test together.

    Raises:
        ValueError: as `tuned_rho`.
    """
    looks = tuned_stakes(sigma_d, blocks / 2, LOOKS_SHARE * level)
    return replace(looks, share=LOOKS_SHARE, last=blocks)


def normal_mixture_log_e(differences: npt.ArrayLike, rho: float, theta: float = 0.0) -> float:
    """Ln of the two-sided e-value in closed form: S^2 / (2 (V + rho)) - ln(1 + V / rho) / 2.

    S is the sum and V the sum of squares of x = d - theta. The
    yardstick of `e_value` for unbounded stakes.
    """
    x = checked(differences) - theta
    total, squares = float(x.sum()), float((x**2).sum())
    return total**2 / (2 * (squares + rho)) - math.log1p(squares / rho) / 2


def e_value(differences: npt.ArrayLike, stakes: Stakes, theta: float = 0.0) -> float:
    """Return evidence against a shift of `theta`: half the larger of both directions' mixtures.

    Reaching 1 / alpha at any time has a probability of at most alpha if the shift is `theta`.

    Raises:
        ValueError: there are no differences, or one is not finite.
    """
    x = checked(differences) - theta
    both = max(_log_mixture(x, stakes), _log_mixture(-x, stakes))
    return math.exp(both - math.log(2))


def sequential_estimate(
    differences: npt.ArrayLike, stakes: Stakes, confidence: float = 0.95
) -> PairedEstimate:
    """Return pseudomedian ratio, interval and p from the blocks so far.

    The intervals after each block, the exact one after the last among them, hold the true ratio
    *all at once* with the stated confidence, so any of them may be reported for any stopping
    reason. p is 1 / e over the share of the looks, and after the last block the exact p over the
    rest; at most 1. With fewer blocks than `minimum_blocks` of a look's confidence the interval is
    infinite, as in the fixed design.

    Raises:
        ValueError: there are no differences, one is not finite, or `confidence` is not in (0, 1).
    """
    d = checked(differences)
    if stakes.last is not None and d.size >= stakes.last:
        return _after_the_last(d, stakes, confidence)
    centre = estimate(d, confidence)
    low, high = _interval(d, stakes, confidence)
    method = (
        "always-valid: mixture martingale of bounded scores, valid after every block; "
        "Hodges-Lehmann estimate"
    )
    if stakes.sigma_d is None:
        method = method.replace("bounded scores", "symmetric increments")
    if not math.isfinite(high):
        method += (
            f"; {counted(d.size, 'block')} cannot give a {100 * confidence:g} % interval, so it is"
            " infinite"
        )
    return PairedEstimate(
        n=d.size,
        ratio=centre.ratio,
        low=math.exp(low),
        high=math.exp(high),
        confidence=confidence,
        p_value=min(1.0, 1 / (stakes.share * e_value(d, stakes))),
        method=method,
        p_kind="always-valid",
    )


def _after_the_last(d: FloatArray, stakes: Stakes, confidence: float) -> PairedEstimate:
    """Return the exact estimate at the part of the level that the looks leave."""
    rest = 1 - stakes.share
    exact = estimate(d, 1 - rest * (1 - confidence))
    return replace(
        exact,
        confidence=confidence,
        p_value=min(1.0, exact.p_value / rest),
        p_kind="look-adjusted",
        method=f"{exact.method}; at {rest:.0%} of the level, since looks after earlier blocks have"
        f" the other {stakes.share:.0%}",
    )


def looks(differences: npt.ArrayLike, stakes: Stakes, confidence: float = 0.95) -> tuple[Look, ...]:
    """Return the estimate after each block: the path of e-value and interval."""
    d = checked(differences)
    evidence = np.exp(np.maximum(log_mixtures(d, stakes), log_mixtures(-d, stakes))) / 2
    path = []
    for n in range(1, d.size + 1):
        found = sequential_estimate(d[:n], stakes, confidence)
        path.append(Look(n, float(evidence[n - 1]), found.low, found.high))
    return tuple(path)


def log_mixtures(x: FloatArray, stakes: Stakes) -> FloatArray:
    """Return one direction's ln martingale after each block, for any number of studies at once.

    `x` has shape (*studies, blocks) and holds d - theta; so has the result. Where it reaches
    ln(2 / alpha), theta lies below the interval of confidence 1 - alpha (with -x: above it).
    """
    logs = _log_factors(x, stakes).cumsum(axis=-1)
    return np.asarray(special.logsumexp(logs, axis=0) - math.log(_STAKES))


def _log_factors(x: FloatArray, stakes: Stakes) -> FloatArray:
    """Return ln of the factor of each stake and block, shape (stakes, *studies, blocks)."""
    nodes = (_NODES / math.sqrt(stakes.rho)).reshape(-1, *[1] * x.ndim)
    if stakes.sigma_d is None:
        return np.asarray(math.log(2) - np.logaddexp(0.0, -2 * nodes * x))
    bets = np.minimum(_MOST_BET, _BET * stakes.sigma_d * nodes)
    return np.asarray(np.log1p(bets * np.tanh(_BEND * x / _scales(x, stakes.sigma_d))))


def _scales(x: FloatArray, sigma_d: float) -> FloatArray:
    """Return the scale of each block's score: the noise of the calibration and of earlier blocks.

    Taken about the mean of the earlier blocks, it does not depend on theta.
    """
    earlier = np.arange(x.shape[-1])
    # About the first block, because sums of squares about 0 lose digits.
    y = x - x[..., :1]
    total, squares = y.cumsum(axis=-1) - y, (y**2).cumsum(axis=-1) - y**2
    about_mean = np.maximum(0.0, squares - total**2 / np.maximum(1, earlier))
    weight = _PRIOR_BLOCKS + np.maximum(0, earlier - 1)
    return np.asarray(np.sqrt((_PRIOR_BLOCKS * sigma_d**2 + about_mean) / weight))


def _interval(d: FloatArray, stakes: Stakes, confidence: float) -> tuple[float, float]:
    """Return the interval of theta that neither mixture rejects at half of the looks' level."""
    looked = 1 - stakes.share * (1 - confidence)
    if d.size < minimum_blocks(looked):
        return -math.inf, math.inf
    limit = math.log(2 / (1 - looked))
    low = _crossing(lambda theta: _log_mixture(d - theta, stakes) - limit, float(d.min()))
    high = -_crossing(lambda theta: _log_mixture(-d - theta, stakes) - limit, float(-d.max()))
    return low, high


def _crossing(excess: Callable[[float], float], start: float) -> float:
    """Return the zero of a falling function of theta; minus infinity if it is never above 0.

    Every factor is at most 2, so with barely enough blocks the crossing may lie far out.
    """
    step = 1e-3
    above = start
    while excess(above) <= 0:
        above, step = above - step, 2 * step
        if step > 1e3:
            return -math.inf
    step = 1e-3
    below = max(above, start)
    while excess(below) > 0:
        below, step = below + step, 2 * step
    if below == above:
        return above
    # Half of the time that a command needs to start would go into importing it.
    from scipy.optimize import brentq

    return float(brentq(excess, above, below, xtol=1e-12))


def _log_mixture(x: FloatArray, stakes: Stakes) -> float:
    """Return ln of the mean over stakes of the product of all factors."""
    logs = _log_factors(x, stakes).sum(axis=-1)
    return float(special.logsumexp(logs) - math.log(_STAKES))


_NODES = special.ndtri((1 + (np.arange(_STAKES) + 0.5) / _STAKES) / 2)
