"""One scale of noise: what a study of ten minutes could claim."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.seeds import rng
from tuner.goals.goals import Goals
from tuner.judge.claimable import (
    COARSE,
    FINE,
    P99,
    CoreSpeed,
    CoreStalls,
    change_of_speed,
    claimable,
    from_stalls,
    sigma_from_speed,
    sigma_from_stalls,
    touched_share,
)
from tuner.judge.plan import Budget, plan_blocks
from tuner.stats.margin import DEFAULT_BAND
from tuner.stats.power import PooledSigma, minimum_detectable_effect

SIGMAS = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 3.0, 10.0)


def both(per_s: float, share: float) -> tuple[CoreStalls, ...]:
    """Return two cores with the same stalls."""
    return tuple(CoreStalls(cpu, per_s, share, 1e6 * share) for cpu in (0, 1))


def test_more_noise_never_claims_more() -> None:
    """Over four orders of magnitude, in studies of every length."""
    for time_s in (60.0, 600.0, 3_600.0):
        effects = [claimable(sigma, time_s=time_s).effect for sigma in SIGMAS]
        assert effects == sorted(effects)
        assert effects[0] == pytest.approx(1 - DEFAULT_BAND.low), (
            "what is below the margin is not a claim"
        )
        assert effects[-1] > 0.99


def test_a_longer_study_never_claims_less() -> None:
    """At the same noise."""
    for sigma in SIGMAS:
        effects = [claimable(sigma, time_s=t).effect for t in (300.0, 600.0, 1_800.0, 7_200.0)]
        assert effects == sorted(effects, reverse=True)


def test_the_effect_is_that_of_the_verdicts_own_rule() -> None:
    """The blocks that fit, the noise's upper limit, and 80 % power beyond the margin."""
    sigma = 0.08
    blocks = Budget(600.0).confirm_blocks(plan_blocks(P99, 5_000.0, 600.0))
    upper = PooledSigma(sigma, 6).upper_limit()
    found = claimable(sigma, rate_per_s=5_000.0)
    assert found.blocks == blocks
    assert found.effect == minimum_detectable_effect(upper, blocks, DEFAULT_BAND)


def test_a_wider_margin_claims_less() -> None:
    """The user's margin counts, at the same noise."""
    goals = [Goals.of("p99", margin=share) for share in (0.01, 0.03, 0.1)]
    effects = [claimable(0.05, goals=each).effect for each in goals]
    assert effects == sorted(effects)
    assert effects[0] < effects[1] < effects[2]


@pytest.mark.parametrize(
    ("sigma", "grade", "words"),
    [
        (0.02, "fine", "about 6% in 10 min: the smallest change that a study can claim here"),
        (
            0.1,
            "coarse",
            (
                "about 16% in 10 min: the smallest change that a study can claim here; for a finer"
                " claim use --time 30m (about 9%), or a quieter host"
            ),
        ),
        (
            0.2,
            "poor",
            (
                "about 27% in 10 min: the smallest change that a study can claim here; come back"
                " when the host is quieter (often at night), use a host with cores of its own, or"
                " use --time 2h (about 9%)"
            ),
        ),
        (
            1.0,
            "poor",
            (
                "about 77% in 10 min: the smallest change that a study can claim here; come back"
                " when the host is quieter (often at night), use a host with cores of its own, or"
                " use --time 8h (about 18%)"
            ),
        ),
    ],
)
def test_the_words_name_the_effect_and_the_ways_out(sigma: float, grade: str, words: str) -> None:
    """A fine host needs no advice; a poor one is better left."""
    found = claimable(sigma)
    assert (found.grade, found.words) == (grade, words)


def test_the_grades_begin_at_their_thresholds() -> None:
    """10 % is still fine, 20 % is poor."""
    for sigma in SIGMAS:
        found = claimable(sigma)
        assert (found.grade == "fine") == (found.effect <= FINE)
        assert (found.grade == "poor") == (found.effect >= COARSE)


@pytest.mark.parametrize(
    ("per_s", "share", "grade"),
    [(0.5, 0.0001, "fine"), (5.0, 0.013, "fine"), (60.0, 0.079, "coarse"), (90.0, 0.946, "poor")],
)
def test_stalls_are_graded_by_what_they_let_claim(per_s: float, share: float, grade: str) -> None:
    """Cores taken away hardly ever, for 1.3 % of the time, for 7.9 %, and for 94.6 %."""
    assert from_stalls(both(per_s, share)).grade == grade


def test_more_stalls_never_claim_more() -> None:
    """More stalls, or longer ones, never lower the smallest effect that can be claimed."""
    rates = [from_stalls(both(per_s, 0.01)).effect for per_s in (1, 5, 20, 100, 1_000)]
    shares = [from_stalls(both(10, share)).effect for share in (0.0, 0.01, 0.1, 0.5, 1.0)]
    assert rates == sorted(rates)
    assert shares == sorted(shares)
    assert math.isfinite(sigma_from_stalls(1.0))


def test_the_share_that_stalls_touch_is_that_of_their_cycles() -> None:
    """2 and 3 stalls in 2 s: each takes its length, half a millisecond, and its backlog."""
    seen = (CoreStalls(0, 1.0, 0.0002, 395.0), CoreStalls(1, 1.5, 0.0007, 938.0))
    assert touched_share(seen) == pytest.approx(2.5 * 0.0005 + 0.0009 / 0.3, rel=0.01)


def test_a_change_of_speed_is_that_from_slice_to_slice() -> None:
    """A slow drift hardly counts: both arms have it. One time shows no change."""
    assert change_of_speed([1.0, 1.1, 1.0, 1.1]) == pytest.approx(math.log(1.1))
    drift = [1.001**place for place in range(100)]
    assert change_of_speed(drift) == pytest.approx(0.001, rel=0.01)
    with pytest.raises(ValueError, match="1 times"):
        change_of_speed([1.0])


def test_changes_of_speed_average_over_the_slices_of_a_block() -> None:
    """Simulated: the p99 of M/M/1 in slices of two arms, with service times that vary by 3 %."""
    slices, s, load = 480, 0.03, 0.7
    times = np.exp(rng(7).normal(0, s, (2_000, 2, slices)))
    # Percentiles of the time in the system, which is exponential: S/(1 - ρ) each.
    ln_p99 = np.log(times / (1 - load * times)).mean(axis=2)
    seen = float((ln_p99[:, 0] - ln_p99[:, 1]).std())
    speed = CoreSpeed(0, s * math.sqrt(2), 0.02)
    expected = sigma_from_speed([speed], slices * 0.02)
    assert expected == pytest.approx(seen, rel=0.1)
    assert sigma_from_speed([speed] * 4, slices * 0.02) == pytest.approx(expected / 2)
    assert sigma_from_speed([], 10.0) == 0.0


def test_an_estimate_is_a_lower_bound_unless_stalls_make_the_most_of_it() -> None:
    """The noise of a quiet host and changes of speed are the least; that of stalls is cautious."""
    steady, changing = from_stalls(both(0.5, 0.0)), [CoreSpeed(0, 1.0, 0.02)]
    stalled = from_stalls(both(5.0, 0.2))
    found = from_stalls(both(5.0, 0.02), speeds=changing)
    assert found.effect > from_stalls(both(5.0, 0.02)).effect
    assert [each.is_least for each in (steady, stalled, found)] == [True, False, True]
    assert found.words.startswith(f"not less than {found.effect:.0%} in 10 min: ")
    assert "about" not in found.words
    assert stalled.words.startswith(f"about {stalled.effect:.0%} in 10 min: ")
