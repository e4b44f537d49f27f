"""The time of a study: forecast from its definition, and kept by cutting its plan."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.goals.goals import Goals
from tuner.judge.economy import ECONOMIES
from tuner.judge.forecast import Question, claim_words, forecast
from tuner.judge.plan import Budget, Design, Overhead, plan_blocks
from tuner.stats.power import minimum_detectable_effect

P99 = Goals.of("p99")
NAMES = st.sampled_from(("p50", "p99", "p99.9", "throughput"))
RATES = st.floats(10, 1e6)
TIMES = st.floats(10, 86_400)
OVERHEADS = st.builds(Overhead, st.floats(0.5, 4.5), st.floats(0.01, 0.05))


def test_a_study_that_fits_takes_its_time() -> None:
    """Nothing is cut, and nothing more is said."""
    assert forecast(600.0, P99).words == "about 10 min"


def test_what_is_left_out_to_keep_to_the_time_is_said() -> None:
    """With the time of a study that lacks nothing."""
    assert forecast(180.0, P99).words == (
        "about 3 min; likely no other load points and shorter windows"
        " (a full study takes about 5 min)"
    )


def test_what_cannot_be_had_in_the_time_is_said_with_the_least_time() -> None:
    """No verdict rests on fewer than six blocks, however short the time."""
    found = forecast(20.0, P99)
    assert found.words == (
        "about 2 min 35 s instead of 20 s, the least for calibration, one block of the search,"
        " 6 blocks of confirmation and further starts; likely no other load points (a full study"
        " takes about 5 min)"
    )
    assert forecast(found.least_s, P99).fits, "the time that is named is enough"


def test_a_study_without_a_search_needs_less() -> None:
    """As one that confirms a given configuration."""
    found = forecast(20.0, P99, search=False)
    assert found.least_s < forecast(20.0, P99).least_s - 15
    assert "the least for calibration, 6 blocks of confirmation and further starts" in found.words


def test_more_arms_and_starts_need_more() -> None:
    """Finalists share the blocks; in place every window costs a start."""
    least_s = forecast(20.0, P99).least_s
    three = forecast(20.0, P99, Design(finalists=3))
    assert three.least_s > 1.4 * least_s
    assert "7 blocks of confirmation" in three.words
    assert forecast(20.0, P99, exclusive=True).least_s > 2 * least_s


@given(NAMES, RATES, TIMES, OVERHEADS, st.booleans())
def test_a_study_that_fits_gets_the_full_plan(
    name: str, rate_per_s: float, time_s: float, overhead: Overhead, search: bool
) -> None:
    """No window of it is shorter than the samples ask for, and no load point is left out."""
    question = Question(Goals.of(name), rate_per_s, overhead=overhead, search=search)
    full = plan_blocks(Goals.of(name), rate_per_s, time_s, overhead=overhead)
    if question.fits(full, time_s):
        assert question.plan_in_time(time_s) == full
        assert question.cuts(full, time_s) == ()


@given(NAMES, RATES, TIMES, OVERHEADS)
def test_a_plan_is_cut_no_further_than_its_time_asks(
    name: str, rate_per_s: float, time_s: float, overhead: Overhead
) -> None:
    """The plan is the first step of economy that fits the time, else the last step."""
    question = Question(Goals.of(name), rate_per_s, overhead=overhead)
    plan = question.plan_in_time(time_s)
    steps = [question.plan(time_s, economy) for economy in ECONOMIES]
    taken = steps.index(plan)
    assert question.fits(plan, time_s) or plan == steps[-1]
    assert not any(question.fits(step, time_s) for step in steps[:taken])


@given(NAMES, RATES, TIMES)
def test_what_no_claim_rests_on_is_cut_first(name: str, rate_per_s: float, time_s: float) -> None:
    """The other load points, then the looks of the search, then the windows of the claim."""
    question = Question(Goals.of(name), rate_per_s)
    full, plan = question.plan(time_s), question.plan_in_time(time_s)
    if plan.search.window_s < full.search.window_s:
        assert plan.points == 0
    if plan.confirm.window_s < full.confirm.window_s:
        assert plan.points == 0
        assert math.isclose(full.search.window_s, 0.5) or (
            plan.search.window_s < full.search.window_s
        )


@pytest.mark.parametrize("rate_per_s", [300.0, 3_000.0, 30_000.0])
def test_the_time_of_a_full_study_holds_one(rate_per_s: float) -> None:
    """A study of the time that is forecast as full has no cuts."""
    found = forecast(20.0, P99, rate_per_s=rate_per_s)
    assert forecast(found.full_s, P99, rate_per_s=rate_per_s).cuts == ()


def test_the_time_for_a_claim_holds_its_blocks() -> None:
    """The given time is returned if it suffices; otherwise the needed time grows with the noise."""
    question = Question(P99, 5_000.0)
    times = [question.claiming_s(sigma, 0.05, 600.0) for sigma in (0.001, 0.03, 0.1, 1e3)]
    assert times[0] == 600
    assert times == sorted(times)
    assert times[-1] == math.inf
    for sigma, time_s in zip((0.03, 0.1), times[1:3], strict=True):
        blocks = Budget(time_s).confirm_blocks(question.plan_in_time(time_s))
        assert minimum_detectable_effect(sigma, blocks, P99.margin) <= 0.05


@pytest.mark.parametrize(
    ("needed_s", "words"),
    [
        (1_990.0, "to claim 5% the study needs about 34 min: --time 34m"),
        (40_000.0, "to claim 5% the study needs about 12 h: --time 12h"),
        (math.inf, "to claim 5% no length of the study suffices; use a quieter host"),
    ],
)
def test_the_words_for_a_claim(needed_s: float, words: str) -> None:
    """The length is rounded up, and the option can be copied."""
    assert claim_words(0.05, needed_s) == words
