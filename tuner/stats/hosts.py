"""The same comparison on several hosts: the hosts as a random effect.

A host's own blocks measure the effect of a configuration on that host. Its effect on similar hosts
is another question, and its unit of replication is the host: the spread of the true ratios between
hosts (tau) counts, and more blocks on the same hosts do not reduce it. The model is that of a
random-effects meta-analysis (Higgins, Thompson and Spiegelhalter, Journal of the Royal Statistical
Society A 172, 2009): y_i = mu + u_i + e_i, u_i of variance tau², e_i of the known variance v_i.

tau² is estimated by restricted maximum likelihood. The interval of mu is that of Hartung and Knapp
(Statistics in Medicine 20, 2001) and of Sidik and Jonkman (2002), by Student's t with k - 1 degrees
of freedom, never narrower than the plain one (Röver, Knapp and Friede, BMC Medical Research
Methodology 15, 2015). With two or three hosts it is wide, because so small a sample says little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from tuner.stats.holm import holm
from tuner.stats.paired import FloatArray, checked, estimate

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
    """Share of this host in the common figure."""
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
    """Standard deviation of the true ln ratio from host to host."""
    q: float
    """Cochran's Q; with equal hosts about k - 1."""
    q_p: float
    """p of "all hosts have the same true ratio"."""
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
    y = np.array([math.log(estimate(d).ratio) for _, d in rows])
    # This holds for a pseudomedian of n normal differences; heavier tails give less.
    v = np.array(
        [max(float(np.var(d, ddof=1)) / d.size / _EFFICIENCY, _LEAST_VARIANCE) for _, d in rows]
    )
    k = y.size
    tau2 = _tau2(y, v)
    weights = 1 / (v + tau2)
    mean, error = _mean(y, weights)
    spread = _t_quantile(k - 1, confidence) * error
    fixed = 1 / v
    q = float(np.sum(fixed * (y - np.average(y, weights=fixed)) ** 2))
    prediction = None
    if k >= LEAST_FOR_PREDICTION:
        reach = _t_quantile(k - 2, confidence) * math.sqrt(tau2 + error**2)
        prediction = (math.exp(mean - reach), math.exp(mean + reach))
    hosts = zip(rows, y, v, weights / weights.sum(), _outlier_p(y, v), strict=True)
    return AcrossHosts(
        hosts=tuple(
            HostEstimate(name, d.size, float(own), float(variance), float(share), p)
            for (name, d), own, variance, share, p in hosts
        ),
        ratio=math.exp(mean),
        low=math.exp(mean - spread),
        high=math.exp(mean + spread),
        confidence=confidence,
        p_value=_t_p(mean / error, k - 1),
        tau=math.sqrt(tau2),
        q=q,
        q_p=float(special.gammaincc((k - 1) / 2, q / 2)),
        i_squared=max(0.0, 1 - (k - 1) / q) if q > 0 else 0.0,
        prediction=prediction,
    )


def _tau2(y: FloatArray, v: FloatArray) -> float:
    """Return tau² by REML (Viechtbauer, J. Educational and Behavioral Statistics 30)."""

    def deviance(tau2: float) -> float:
        w = 1 / (v + tau2)
        mean = np.average(y, weights=w)
        return float(np.sum(np.log(v + tau2)) + np.log(w.sum()) + np.sum(w * (y - mean) ** 2))

    # Beyond the plain spread of the figures the likelihood only falls.
    most = 2 * float(np.var(y, ddof=1))
    if most <= 0:
        return 0.0
    found = optimize.minimize_scalar(
        deviance, bounds=(0.0, most), method="bounded", options={"xatol": 1e-6 * most}
    )
    return float(found.x) if deviance(float(found.x)) < deviance(0.0) else 0.0


def _mean(y: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Return the common figure and its standard error after Hartung, Knapp, Sidik and Jonkman."""
    mean = float(np.average(y, weights=weights))
    scale = float(np.sum(weights * (y - mean) ** 2)) / (y.size - 1)
    return mean, math.sqrt(max(1.0, scale) / float(weights.sum()))


def _outlier_p(y: FloatArray, v: FloatArray) -> tuple[float, ...]:
    """Return p of each host against a prediction from the others, adjusted by Holm.

    Studentised deleted residuals (Viechtbauer and Cheung, Research Synthesis Methods 1, 2010), by
    Student's t with as many degrees of freedom as the others' mean has.
    """
    if y.size < 3:
        return (1.0,) * y.size
    raw = []
    for place in range(y.size):
        others, noise = np.delete(y, place), np.delete(v, place)
        tau2 = _tau2(others, noise)
        mean, error = _mean(others, 1 / (noise + tau2))
        residual = (y[place] - mean) / math.sqrt(v[place] + tau2 + error**2)
        raw.append(_t_p(float(residual), others.size - 1))
    return holm(raw)


def _t_quantile(degrees: int, confidence: float) -> float:
    return float(special.stdtrit(degrees, 0.5 + confidence / 2))


def _t_p(statistic: float, degrees: int) -> float:
    return min(1.0, 2 * float(special.stdtr(degrees, -abs(statistic))))
