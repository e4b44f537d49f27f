"""Simulated studies on hosts of unequal noise, and the table of their error rates in the docs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from scipy import special

from tests import seeds
from tuner.goals.objective import Objective
from tuner.judge.across_hosts import population_verdict
from tuner.stats.hosts import AcrossHosts, across_hosts
from tuner.stats.margin import DEFAULT_BAND
from tuner.stats.paired import FloatArray
from tuner.stats.verdict import VerdictKind

BLOCKS = 12
MARGIN = 0.03
HOSTS = range(2, 11)

NOISES: Mapping[str, Callable[[int], FloatArray]] = MappingProxyType(
    {
        "equal": lambda k: np.full(k, 0.05),
        "graded": lambda k: np.geomspace(0.02, 0.2, k),
        "one quiet": lambda k: np.r_[0.005, np.full(k - 1, 0.1)],
        "one noisy": lambda k: np.r_[np.full(k - 1, 0.02), 0.3],
    }
)
"""sigma_d of each of k hosts."""
TAUS = (0.0, 0.05)
"""Standard deviations of the true ln ratio from host to host."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Counts among simulated studies."""

    missed: int
    """Intervals without the true mean ratio."""
    better: int
    """Intervals below 1 - ``MARGIN``."""
    seen: int
    """Intervals below 1."""
    named: int
    """Studies with an outlier among the hosts."""
    differ: int
    """Studies whose hosts have different ratios by Welch's test, at 5 %."""
    surprised: int
    """Studies that do not predict the true ratio of a further host."""
    weighted: int
    """Intervals without the true mean ratio, of hosts weighted by their variance."""


def simulated(
    seed: int,
    studies: int,
    hosts: int,
    noise: str,
    *,
    tau: float = 0.0,
    ratio: float = 1.0,
    skewed: bool = False,
    bursts: bool = False,
) -> Rates:
    """Return what studies on such hosts conclude.

    Args:
        seed: of the simulation, before the shift.
        studies: number of studies.
        hosts: number of hosts in each.
        noise: key of ``NOISES``.
        tau: standard deviation of the true ln ratio from host to host.
        ratio: exp of the mean of the true ln ratios.
        skewed: draw the true ln ratios from an exponential distribution.
        bursts: draw the blocks from Student's t with 3 degrees of freedom.
    """
    rng = seeds.rng(seed)
    sigma = NOISES[noise](hosts)[:, np.newaxis]
    mean = math.log(ratio)
    counts = [0] * 7
    for _ in range(studies):
        true = mean + tau * (
            1 - rng.exponential(size=hosts + 1) if skewed else rng.normal(size=hosts + 1)
        )
        shape = (hosts, BLOCKS)
        blocks = rng.standard_t(3, shape) if bursts else rng.normal(size=shape)
        d = true[:-1, np.newaxis] + sigma * blocks
        found = across_hosts([(f"h{place}", row) for place, row in enumerate(d)])
        prediction = found.prediction or (0.0, math.inf)
        for place, event in enumerate(
            (
                not found.low <= ratio <= found.high,
                found.high < 1 - MARGIN,
                found.high < 1,
                bool(found.outliers),
                found.q_p <= 0.05,
                not prediction[0] <= math.exp(true[-1]) <= prediction[1],
                weighted_p(found, mean) <= 0.05,
            )
        ):
            counts[place] += event
    return Rates(*counts)


def claims_on_the_margin(seed: int, studies: int, hosts: int, noise: str) -> tuple[int, int]:
    """Return how many studies of such hosts are falsely *better*, and falsely *worse*.

    The mean ratio is on either end of the margin, and the true ones spread by 5 % about it.
    """
    rng, sigma = seeds.rng(seed), NOISES[noise](hosts)[:, np.newaxis]
    counts = []
    for end, false in (
        (DEFAULT_BAND.low, VerdictKind.BETTER),
        (DEFAULT_BAND.high, VerdictKind.WORSE),
    ):
        count = 0
        for _ in range(studies):
            true = math.log(end) + 0.05 * rng.normal(size=(hosts, 1))
            d = true + sigma * rng.normal(size=(hosts, BLOCKS))
            rows = [(f"h{place}", row) for place, row in enumerate(d)]
            across = across_hosts(rows)
            verdict = population_verdict(
                across,
                across,  # The 90 % interval is for *equivalent*.
                DEFAULT_BAND,
                Objective("p99"),
                minimum_detectable_effect=0.05,
            )
            count += verdict.kind is false
        counts.append(count)
    return counts[0], counts[1]


def weighted_p(found: AcrossHosts, mean: float) -> float:
    """Return p of "the mean ln ratio is this", with each host weighted by its variance.

    The usual random-effects meta-analysis: tau² of DerSimonian and Laird (1986), the standard error
    of Hartung and Knapp (2001), Student's t.
    """
    y = np.array([host.ln_ratio for host in found.hosts])
    v = np.array([host.variance for host in found.hosts])
    k, w = y.size, 1 / v
    tau2 = max(0.0, (found.q - (k - 1)) / float(w.sum() - (w**2).sum() / w.sum()))
    w = 1 / (v + tau2)
    centre = float(np.average(y, weights=w))
    scale = max(1.0, float(np.sum(w * (y - centre) ** 2)) / (k - 1))
    return 2 * float(special.stdtr(k - 1, -abs(centre - mean) / math.sqrt(scale / w.sum())))


COLUMNS = ("false", "weighted", "skewed", "outlier", "seen 10 %", "better 10 %", "better 20 %")


def row(hosts: int, studies: int) -> tuple[float, ...]:
    """Return the percentages of ``COLUMNS`` for this number of hosts.

    The first, second and fourth are the largest of all hosts' noises, spreads, and tails.
    """
    kinds = [(noise, tau, bursts) for noise in NOISES for tau in TAUS for bursts in (False, True)]
    unequal = [
        simulated(1_000 * hosts + place, studies, hosts, noise, tau=tau, bursts=bursts)
        for place, (noise, tau, bursts) in enumerate(kinds)
    ]
    skewed = simulated(1_000 * hosts + 90, studies, hosts, "graded", tau=0.05, skewed=True)
    some, much = (
        simulated(1_000 * hosts + 91 + place, studies, hosts, "graded", tau=0.02, ratio=ratio)
        for place, ratio in enumerate((0.9, 0.8))
    )
    counts = (
        max(rates.missed for rates in unequal),
        max(rates.weighted for rates in unequal),
        skewed.missed,
        max(rates.named for rates in unequal),
        some.seen,
        some.better,
        much.better,
    )
    return tuple(100 * count / studies for count in counts)
