"""Tests of decisions during the search: dropping and pairing."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests import seeds
from tests.seeds import simulate
from tests.stats.conftest import Tolerance
from tuner.stats.power import pooled_sigma
from tuner.stats.race import (
    drop_allowance,
    is_hopeless,
    neighbour_correlation,
    sign_test_p,
)
from tuner.testing.simulate import Noise


@given(st.integers(1, 30), st.data())
def test_sign_test_equals_scipy(rounds: int, data: st.DataObject) -> None:
    """The exact sign test is the binomial test."""
    wins = data.draw(st.integers(0, rounds))
    oracle = stats.binomtest(wins, rounds, alternative="greater").pvalue
    assert sign_test_p(wins, rounds) == pytest.approx(oracle, rel=1e-9)


@pytest.mark.parametrize(
    ("losses", "hopeless"),
    [
        ([0.5, 0.5, 0.5], False),  # the look is not due yet
        ([0.5, 0.5, 0.5, 0.5], True),
        ([0.5, 0.5, 0.5, 0.05], False),  # one round within the allowance
        ([0.5, 0.5, 0.5, -0.5], False),
        ([-0.5, 0.5, 0.5, 0.5, 0.5, 0.5], False),  # later rounds are no second look
        ([0.5, 0.5, 0.5, 0.5, -0.5, -0.5], True),
    ],
)
def test_one_look_after_four_rounds(losses: list[float], hopeless: bool) -> None:
    """Only the first four rounds count, and all four must be clearly worse."""
    assert is_hopeless(losses, allowance=0.1) is hopeless


def test_a_later_look_may_forgive_a_round() -> None:
    """At a look after seven rounds, six of seven are enough at 10 %."""
    assert is_hopeless([-0.1, *[0.5] * 6], allowance=0.1, rounds=7)
    assert not is_hopeless([-0.1, -0.1, *[0.5] * 5], allowance=0.1, rounds=7)


def test_a_look_too_early_is_refused() -> None:
    """Three rounds cannot reach 10 %, so asking for that look is a mistake."""
    with pytest.raises(ValueError, match="cannot reject before round 4"):
        is_hopeless([1.0, 1.0, 1.0], allowance=0.1, rounds=3)


def test_equal_candidates_survive_nine_times_in_ten(studies: int, tolerance: Tolerance) -> None:
    """With the allowance an equal configuration is dropped in at most 10 % of its blocks.

    Without it the rounds' shared start makes the sign test reject far more often.
    """
    windows = simulate(31, studies=studies, blocks=1, ratios=(1.0, 1.0), rounds=4)
    losses = windows.ln_value[:, 0, :, 1] - windows.ln_value[:, 0, :, 0]
    allowance = drop_allowance(float(windows.differences().std()))
    assert sum(is_hopeless(row, allowance=allowance) for row in losses) <= tolerance.most(0.10)
    # The true rate is 31 %.
    assert sum(is_hopeless(row, allowance=0.0) for row in losses) > 0.10 * studies


def test_the_allowance_is_honest_about_its_few_degrees_of_freedom(studies: int) -> None:
    """sigma_d from three A/A blocks of three, as in a study: still at most 10 % are dropped.

    With the normal quantile it would be more.
    """
    # The two quantiles part one study in 75: none of 1,300 but by a chance of 3e-8.
    studies = max(studies, 1_300)
    aa = simulate(33, studies=studies, blocks=3, ratios=(1.0,) * 3, rounds=4).between()
    found = [pooled_sigma(list(study)) for study in aa]
    windows = simulate(34, studies=studies, blocks=1, ratios=(1.0, 1.0), rounds=4)
    losses = windows.ln_value[:, 0, :, 1] - windows.ln_value[:, 0, :, 0]

    def dropped(*, student: bool) -> int:
        return sum(
            is_hopeless(
                row,
                allowance=drop_allowance(
                    noise.sigma_d, noise.degrees_of_freedom if student else math.inf
                ),
            )
            for row, noise in zip(losses, found, strict=True)
        )

    assert dropped(student=True) <= Tolerance(studies).most(0.10)
    assert dropped(student=True) < dropped(student=False)


def test_a_look_in_every_block_would_lose_good_candidates(
    studies: int, tolerance: Tolerance
) -> None:
    """Over the five blocks of a survivor, five looks would drop equal ones far more often.

    Where starts differ more than windows, as on most hosts, each look errs at its full 10 %.

    That is why a configuration has a single look in its life, in its first block.
    """
    noise = Noise(ar_sd=0.01, restart_sd=0.1, burst_probability=0.0)
    windows = simulate(35, studies=studies, blocks=5, ratios=(1.0, 1.0), rounds=4, noise=noise)
    losses = windows.ln_value[..., 1] - windows.ln_value[..., 0]
    allowance = drop_allowance(float(windows.differences().std()))
    first = sum(is_hopeless(study[0], allowance=allowance) for study in losses)
    ever = sum(any(is_hopeless(row, allowance=allowance) for row in study) for study in losses)
    assert first <= tolerance.most(0.10)
    # The true rate is 39 %.
    assert ever > 0.10 * studies


def test_hopeless_candidates_are_dropped(studies: int, tolerance: Tolerance) -> None:
    """A candidate 40 % worse is dropped at the first look nine times in ten."""
    windows = simulate(32, studies=studies, blocks=1, ratios=(1.0, 1.0, 1.4), rounds=4)
    losses = windows.ln_value[:, 0, :, 2] - windows.ln_value[:, 0, :, 0]
    allowance = drop_allowance(float(windows.differences().std()))
    assert sum(is_hopeless(row, allowance=allowance) for row in losses) >= tolerance.least(0.90)


def test_neighbours_correlate_where_the_host_drifts() -> None:
    """Shared level, own noise: the correlation is the share of the shared variance."""
    rng = seeds.rng(8)
    shared = rng.normal(0, 0.2, (12_000, 1))
    groups = list(shared + rng.normal(0, 0.1, (12_000, 3)))
    assert neighbour_correlation(groups) == pytest.approx(0.04 / 0.05, abs=0.02)
    alone = list(rng.normal(0, 0.1, (12_000, 3)))
    assert neighbour_correlation(alone) == pytest.approx(0, abs=0.03)


def test_neighbours_need_even_groups() -> None:
    """Blocks of unequal sizes, or a single block, raise ValueError."""
    with pytest.raises(ValueError, match=r"got sizes \[2, 3\]"):
        neighbour_correlation([[1.0, 2.0], [1.0, 2.0, 3.0]])
    with pytest.raises(ValueError, match="two or more A/A blocks"):
        neighbour_correlation([[1.0, 2.0]])
