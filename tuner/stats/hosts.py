"""The same comparison on several hosts: Student's t over the hosts' own estimates.

A host's own blocks measure the effect of a configuration on that host. Its effect on similar hosts
is another question, and its unit of replication is the host: the spread of the true ratios between
hosts (tau) counts, and more blocks on the same hosts do not reduce it.

Every host counts alike: the mean of the k estimates is tested by their own spread, with k - 1
degrees of freedom. This level holds for hosts of unequal noise: the two-sided t-test of independent
normal means of any variances keeps every level up to 8.3 % (Bakirov and Székely, Journal of
Mathematical Sciences 139, 2006; Ibragimov and Müller, Journal of Business & Economic Statistics 28,
2010), and 10 % up to 14 hosts. Weights by each host's variance lack that property: where the
estimated spread between hosts falls to 0, a quiet host gets all the weight.

The interval is never narrower than the noise of the hosts' blocks permits: two hosts that agree by
chance do not prove more than their blocks do. With two or three hosts it is wide, because so small
a sample shows little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from tuner.stats.holm import holm
from tuner.stats.paired import FloatArray, checked, pseudomedians

OUTLIER_LEVEL = 0.05
"""Probability of reporting an outlier among hosts without one."""
LEAST_FOR_PREDICTION = 3
"""Fewest hosts for a prediction for a further one."""
FEW_HOSTS = 5
"""Fewest hosts for a usable estimate of their spread; a report warns below it."""

_EFFICIENCY = 3 / math.pi
_LEAST_VARIANCE = 1e-12


@dataclass(frozen=True, slots=True)
class HostEstimate:
    """The estimate of one host, and its distance from the other hosts."""

    name: str
    blocks: int
    ln_ratio: float
    """Pseudomedian of ln(candidate / baseline) over the host's blocks."""
    variance: float
    """Variance of ``ln_ratio``, from the spread of the host's own blocks."""
    weight: float
    """Share of this host in the common figure: 1 / k."""
    outlier_p: float
    """Holm-adjusted p of "this host is of one population with the others"; 1 with two hosts."""

    @property
    def is_outlier(self) -> bool:
        """True if this host is an outlier among the hosts."""
        return self.outlier_p <= OUTLIER_LEVEL


@dataclass(frozen=True, slots=True)
class AcrossHosts:
    """The estimate over k hosts for hosts like them."""

    hosts: tuple[HostEstimate, ...]
    ratio: float
    """exp of the mean ln ratio over the population of hosts."""
    low: float
    high: float
    """Upper end of the interval of ``ratio``; the hosts are the sample."""
    confidence: float
    p_value: float
    """Two-sided, of "no difference on average over hosts", by Student's t with k - 1 degrees."""
    tau: float
    """Standard deviation of the true ln ratio from host to host; 0 if noise explains the spread."""
    q: float
    """Cochran's Q; with equal hosts about k - 1."""
    q_p: float
    """p of "all hosts have the same true ratio", by Welch's test."""
    i_squared: float
    """Share of the spread between hosts that is not noise of their blocks, 0 to 1."""
    prediction: tuple[float, float] | None
    """Interval of the true ratio of one further such host; None below three hosts."""

    @property
    def outliers(self) -> tuple[str, ...]:
        """Names of the hosts that are outliers."""
        return tuple(host.name for host in self.hosts if host.is_outlier)


def across_hosts(
    differences: Sequence[tuple[str, npt.ArrayLike]], confidence: float = 0.95
) -> AcrossHosts:
    """Combine the block differences of several hosts.

    Args:
        differences: each host's name and its d = ln(candidate) - ln(baseline), shape (n_i,).
        confidence: of the interval and of the prediction interval.

    Raises:
        ValueError: there are fewer than two hosts, a host has fewer than two blocks, or a
            difference is not finite.
    """
    if len(differences) < 2:
        raise ValueError(f"at least two hosts are needed, but there are {len(differences)}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1 but got {confidence}")
    rows = [(name, checked(d)) for name, d in differences]
    for name, d in rows:
        if d.size < 2:
            raise ValueError(f"host {name!r} has {d.size} block, but a spread needs two")
    y = np.array([float(pseudomedians(d)) for _, d in rows])
    # This holds for a pseudomedian of n normal differences; heavier tails give less.
    v = np.array(
        [max(float(np.var(d, ddof=1)) / d.size / _EFFICIENCY, _LEAST_VARIANCE) for _, d in rows]
    )
    k = y.size
    mean, spread2 = float(y.mean()), float(np.var(y, ddof=1))
    error, noise = math.sqrt(spread2 / k), math.sqrt(float(v.sum())) / k
    reach = max(
        _t_quantile(k - 1, confidence) * error,
        float(special.ndtri(0.5 + confidence / 2)) * noise,
    )
    p_value = 2 * float(special.ndtr(-abs(mean) / noise))
    if error > 0:
        p_value = max(p_value, _t_p(mean / error, k - 1))
    q, q_p = _alike(y, v, np.array([d.size for _, d in rows]))
    prediction = None
    if k >= LEAST_FOR_PREDICTION:
        # The spread of the estimates includes their noise, so this is on the safe side.
        further = max(reach, _t_quantile(k - 1, confidence) * math.sqrt(spread2 * (1 + 1 / k)))
        prediction = (math.exp(mean - further), math.exp(mean + further))
    hosts = zip(rows, y, v, _outlier_p(y, v), strict=True)
    return AcrossHosts(
        hosts=tuple(
            HostEstimate(name, d.size, float(own), float(variance), 1 / k, p)
            for (name, d), own, variance, p in hosts
        ),
        ratio=math.exp(mean),
        low=math.exp(mean - reach),
        high=math.exp(mean + reach),
        confidence=confidence,
        p_value=p_value,
        tau=math.sqrt(max(0.0, spread2 - float(v.mean()))),
        q=q,
        q_p=q_p,
        i_squared=max(0.0, 1 - (k - 1) / q) if q > 0 else 0.0,
        prediction=prediction,
    )


def _alike(y: FloatArray, v: FloatArray, blocks: npt.NDArray[np.intp]) -> tuple[float, float]:
    """Return Cochran's Q, and p of "all hosts have the same true ratio".

    By Welch (Biometrika 38, 1951), which allows for variances that are estimated from few blocks:
    with the chi-squared distribution in its place, ten equal hosts differ in 16 % of studies.
    """
    k = y.size
    weights = 1 / v
    q = float(np.sum(weights * (y - np.average(y, weights=weights)) ** 2))
    unsure = float(np.sum((1 - weights / weights.sum()) ** 2 / (blocks - 1)))
    f = q / (k - 1) / (1 + 2 * (k - 2) / (k**2 - 1) * unsure)
    return q, float(special.fdtrc(k - 1, (k**2 - 1) / (3 * unsure), f))


def _outlier_p(y: FloatArray, v: FloatArray) -> tuple[float, ...]:
    """Return p of each host against a prediction from the others, adjusted by Holm.

    Studentised deleted residuals (Viechtbauer and Cheung, Research Synthesis Methods 1, 2010). The
    variance is the host's own noise plus the spread of the others with their noise: an
    estimate of tau without it names a host in up to 24 % of studies without an outlier.
    """
    k = y.size
    if k < 3:
        return (1.0,) * k
    raw = []
    for place in range(k):
        others = np.delete(y, place)
        variance = v[place] + float(np.var(others, ddof=1)) * k / (k - 1)
        residual = (y[place] - others.mean()) / math.sqrt(variance)
        raw.append(_t_p(float(residual), k - 2))
    return holm(raw)


def _t_quantile(degrees: int, confidence: float) -> float:
    return float(special.stdtrit(degrees, 0.5 + confidence / 2))


def _t_p(statistic: float, degrees: int) -> float:
    return min(1.0, 2 * float(special.stdtr(degrees, -abs(statistic))))
