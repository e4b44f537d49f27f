"""Capacities of simulated hosts: arms that are alike are called different at the level."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tests import seeds
from tests.measurement.windows import window
from tests.stats.conftest import Tolerance
from tuner.goals.capacity import crossing, next_rate, points
from tuner.goals.constraint import Constraint
from tuner.measurement.window import Measurement
from tuner.stats.paired import attained_level, signed_rank_p

SLO = Constraint.parse("p99<5ms")
BLOCKS, ROUNDS = 8, 8
STEEPNESS = 8.0
"""By how much ln p99 rises with ln rate near the limit."""
WINDOW = replace(window("c1", 0, 100.0), invalid=(), bad=False)


def at(rate_per_s: float, ln_excess: float) -> Measurement:
    """Return a window at a rate with this excess of latency over the limit, in ln units."""
    p99_us = SLO.limit * math.exp(max(-3.0, min(3.0, ln_excess)))
    return replace(
        WINDOW, rate_per_s=rate_per_s, stall_free=replace(WINDOW.stall_free, p99_us=p99_us)
    )


def differences(rng: np.random.Generator, ratio: float) -> list[float]:
    """Return the blocks of a study of two arms on a host that wanders, by the rule of the phases.

    The host's level is that of `tuner.testing.simulate`; it goes from window to window through
    rounds and blocks, and each start of an instance settles on a level of its own.
    """
    level, found = 0.0, []
    for _ in range(BLOCKS):
        arms: tuple[list[Measurement], list[Measurement]] = ([], [])
        own = rng.normal(0.0, 0.05, 2)
        for _ in range(ROUNDS):
            for arm in rng.permutation(2):
                level = 0.8 * level + rng.normal(0.0, 0.2)
                rate = next_rate(arms[arm], SLO, 1_000.0)
                over = math.log(rate / (1_200.0 * (ratio if arm else 1.0)))
                arms[arm].append(at(rate, STEEPNESS * over + own[arm] + level))
        base, candidate = (crossing(points(windows, SLO)) for windows in arms)
        assert base is not None
        assert candidate is not None
        found.append(candidate.ln_rate - base.ln_rate)
    return found


def test_equal_arms_are_called_different_at_the_level(studies: int, tolerance: Tolerance) -> None:
    """Rates that follow from an arm's own windows leave the sign of a difference to chance.

    In at most 5 % of studies, and not in far fewer.
    """
    rng = seeds.rng(63)
    rejected = sum(signed_rank_p(differences(rng, 1.0)) <= 0.05 for _ in range(studies))
    level = attained_level(BLOCKS, 0.05)
    assert tolerance.least(level) <= rejected <= tolerance.most(0.05)


def test_a_quarter_more_is_seen_as_a_quarter_more() -> None:
    """The rule begins at one rate for both, and is drawn to neither."""
    rng = seeds.rng(64)
    d = [value for _ in range(40) for value in differences(rng, 1.25)]
    error = float(np.std(d)) / math.sqrt(len(d))
    assert abs(float(np.mean(d)) - math.log(1.25)) < 0.003 + seeds.SIGMAS * error
