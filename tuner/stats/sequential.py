"""An always-valid test and interval, for a look after every block.

If nothing differs by more than a shift of theta, x = d - theta is symmetric about 0 by design,
given everything before it, and so for every stake lambda

    E[exp(lambda x) / cosh(lambda x) | past] = 1:

given |x|, the two signs are equally likely, and e^y + e^-y = 2 cosh y. Products of such factors
are martingales that start at 1. A mixture over stakes is one too, and by Ville's inequality it
reaches 1 / alpha at *any* time with a probability of at most alpha, so a study may look after every
block. No variance is assumed or estimated, and a burst counts for no more than its sign.

The usual supermartingale exp(lambda x - lambda^2 x^2 / 2) of symmetric increments (de la Pena,
Annals of Probability 27, 1999) has the larger e^(y^2 / 2) in place of cosh y, so it is the weaker
test (Ramdas, Ruf, Larsson and Koolen, Admissible anytime-valid sequential inference must rely on
nonnegative martingales, 2020). With a normal mixture of stakes (Robbins 1970) it has the closed
form of `normal_mixture_log_e`. The martingale used here is also the simpler one to invert: each
factor, 2 / (1 + exp(-2 lambda x)), falls as theta rises, so what is not rejected is an interval by
itself; the closed form lets go of values of theta that lie far enough out.

Each direction has a mixture of its own, at alpha / 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from tuner.stats.paired import FloatArray, PairedEstimate, checked, estimate, minimum_blocks
from tuner.stats.words import counted

SEQUENTIAL_COST = 1.6
"""Upper bound for blocks of the always-valid test per block of the fixed design, equal power."""

_STAKES = 64


@dataclass(frozen=True, slots=True)
class Look:
    """The estimate after a number of blocks."""

    blocks: int
    e_value: float
    """Evidence against "no difference": 20 and more is a rejection at 5 %, two-sided."""
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


def normal_mixture_log_e(differences: npt.ArrayLike, rho: float, theta: float = 0.0) -> float:
    """Ln of the two-sided e-value in closed form: S^2 / (2 (V + rho)) - ln(1 + V / rho) / 2.

    S is the sum and V the sum of squares of x = d - theta. The yardstick of `e_value`.
    """
    x = checked(differences) - theta
    total, squares = float(x.sum()), float((x**2).sum())
    return total**2 / (2 * (squares + rho)) - math.log1p(squares / rho) / 2


def e_value(differences: npt.ArrayLike, rho: float, theta: float = 0.0) -> float:
    """Return evidence against a shift of `theta`: half the larger of both directions' mixtures.

    Reaching 1 / alpha at any time has a probability of at most alpha if the shift is `theta`.

    Raises:
        ValueError: there are no differences, one is not finite, or `rho` is not positive.
    """
    x = checked(differences) - theta
    both = max(_log_mixture(x, rho), _log_mixture(-x, rho))
    return math.exp(both - math.log(2))


def sequential_estimate(
    differences: npt.ArrayLike, rho: float, confidence: float = 0.95
) -> PairedEstimate:
    """Return pseudomedian ratio, always-valid interval and p from the blocks so far.

    The intervals after each block hold the true ratio *all at once* with the stated confidence, so
    the last one may be reported for any stopping reason. p is 1 / e, at most 1. With fewer
    blocks than `minimum_blocks(confidence)` the interval is infinite, as in the fixed design.

    Raises:
        ValueError: there are no differences, one is not finite, `rho` is not positive, or
            `confidence` is not in (0, 1).
    """
    d = checked(differences)
    centre = estimate(d, confidence)
    low, high = _interval(d, rho, confidence)
    method = (
        "always-valid: mixture martingale of symmetric increments, valid after every block; "
        "Hodges-Lehmann estimate"
    )
    if not math.isfinite(high):
        method += (
            f"; {counted(d.size, 'block')} cannot give a {100 * confidence:g} % interval "
            f"(it needs {minimum_blocks(confidence)}), so it is infinite"
        )
    return PairedEstimate(
        n=d.size,
        ratio=centre.ratio,
        low=math.exp(low),
        high=math.exp(high),
        confidence=confidence,
        p_value=min(1.0, 1 / e_value(d, rho)),
        method=method,
        always_valid=True,
    )


def looks(differences: npt.ArrayLike, rho: float, confidence: float = 0.95) -> tuple[Look, ...]:
    """Return the estimate after each block: the path of e-value and interval."""
    d = checked(differences)
    evidence = np.exp(np.maximum(log_mixtures(d, rho), log_mixtures(-d, rho))) / 2
    path = []
    for n in range(1, d.size + 1):
        low, high = _interval(d[:n], rho, confidence)
        path.append(Look(n, float(evidence[n - 1]), math.exp(low), math.exp(high)))
    return tuple(path)


def log_mixtures(x: FloatArray, rho: float) -> FloatArray:
    """Return one direction's ln martingale after each block, for any number of studies at once.

    `x` has shape (*studies, blocks) and holds d - theta; so has the result. Where it reaches
    ln(2 / alpha), theta lies below the interval of confidence 1 - alpha (with -x: above it).
    """
    stakes = _stakes(rho).reshape(-1, *[1] * x.ndim)
    logs = (math.log(2) - np.logaddexp(0.0, -2 * stakes * x)).cumsum(axis=-1)
    return np.asarray(special.logsumexp(logs, axis=0) - math.log(_STAKES))


def _interval(d: FloatArray, rho: float, confidence: float) -> tuple[float, float]:
    """Return the interval of theta that neither mixture rejects at alpha / 2."""
    if d.size < minimum_blocks(confidence):
        return -math.inf, math.inf
    limit = math.log(2 / (1 - confidence))
    low = _crossing(lambda theta: _log_mixture(d - theta, rho) - limit, float(d.min()))
    high = -_crossing(lambda theta: _log_mixture(-d - theta, rho) - limit, float(-d.max()))
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
    return float(optimize.brentq(excess, above, below, xtol=1e-12))


def _log_mixture(x: FloatArray, rho: float) -> float:
    """Ln of the mean over stakes of the product of 2 / (1 + exp(-2 lambda x))."""
    exponents = np.multiply.outer(-2 * _stakes(rho), x)
    logs = x.size * math.log(2) - np.logaddexp(0.0, exponents).sum(axis=1)
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).mean()))


def _stakes(rho: float) -> FloatArray:
    """Equally likely stakes, spread as |N(0, 1 / rho)|: any fixed set keeps the test valid.

    Raises:
        ValueError: `rho` is not positive.
    """
    if not rho > 0:
        raise ValueError(f"rho must be positive but got {rho}")
    return np.asarray(_NODES / math.sqrt(rho))


_NODES = special.ndtri((1 + (np.arange(_STAKES) + 0.5) / _STAKES) / 2)
