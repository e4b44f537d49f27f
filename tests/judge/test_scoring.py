"""From windows to figures: log ratios within rounds, means over blocks, never the luckiest look."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.measurement.windows import block, window
from tuner.goals.metric import difference_ln, typical_ln
from tuner.goals.objective import Objective
from tuner.judge.scoring import (
    block_losses,
    by_round,
    counted_windows,
    mean_loss,
    pooled,
    round_differences,
    trial_losses,
    windows_of,
)
from tuner.record.model import Block

P99 = Objective("p99")


def pair(round_: int, candidate_us: float, baseline_us: float = 100.0, label: str = "c1") -> list:  # type: ignore[type-arg]
    """Return one round of two windows, the candidate's first."""
    return [window(label, round_, candidate_us), window("baseline", round_, baseline_us)]


def test_a_loss_is_the_median_log_ratio_within_rounds() -> None:
    """Each round compares neighbours, so a drift of both arms cancels."""
    drifting = block([*pair(0, 80, 100), *pair(1, 160, 200), *pair(2, 320, 400)])
    assert block_losses(drifting, P99) == {"c1": pytest.approx(math.log(0.8))}


def test_rounds_in_which_an_arm_is_invalid_or_missing_do_not_count() -> None:
    """The finished rounds of a block that was cut short do."""
    windows = [
        *pair(0, 80),
        window("c1", 1, 9_999, valid=False),
        window("baseline", 1, 100),
        window("c1", 2, 9_999),
    ]
    assert round_differences(block(windows), P99)["c1"] == [pytest.approx(math.log(0.8))]


def test_differences_come_in_the_order_of_the_rounds() -> None:
    """However the windows of a round were ordered."""
    found = round_differences(block([*pair(1, 200), *pair(0, 50)]), P99)
    assert found["c1"] == [pytest.approx(math.log(0.5)), pytest.approx(math.log(2))]


def test_an_instance_without_a_single_round_has_no_loss() -> None:
    """No figure is better than a made-up one."""
    spoilt = [window("c1", 0, 50, valid=False), window("baseline", 0, 100)]
    assert block_losses(block(spoilt), P99) == {}


def test_throughput_is_better_when_it_is_larger() -> None:
    """The loss is signed so that negative is better, for every objective."""
    windows = [
        window("c1", 0, 100, completed=200, offered=200),
        window("baseline", 0, 100, completed=100, offered=100),
    ]
    assert block_losses(block(windows), Objective("throughput")) == {
        "c1": pytest.approx(-math.log(2))
    }


def test_trials_collect_their_losses_over_search_blocks_alone() -> None:
    """Blocks of the confirmation and of A/A never count as search figures."""
    blocks = [
        block([*pair(0, 80), *pair(0, 50, label="c2")[:1]], number=3, trials={"c1": 7, "c2": 8}),
        block(pair(0, 90), number=5, trials={"c1": 7}),
        block(pair(0, 1), number=6, trials={"c1": 7}, phase="confirm"),
        block(pair(0, 1), number=7, phase="aa"),
    ]
    losses = trial_losses(blocks, P99)
    assert losses[7] == {3: pytest.approx(math.log(0.8)), 5: pytest.approx(math.log(0.9))}
    assert set(losses) == {7, 8}


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=9))
def test_trials_are_compared_by_their_mean(losses: list[float]) -> None:
    """Trials are compared by their mean; the minimum would favour the most measured one."""
    assert mean_loss(dict(enumerate(losses))) == pytest.approx(sum(losses) / len(losses))


def test_a_trial_without_a_look_is_behind_all_others() -> None:
    """Infinite, so that it wins nothing."""
    assert mean_loss({}) == math.inf


def test_an_arms_figure_is_its_typical_window() -> None:
    """The median over rounds: one disturbed window does not move it."""
    both = block([*pair(0, 100), *pair(1, 110), *pair(2, 40_000)])
    assert typical_ln(counted_windows(both, "c1"), P99.value) == pytest.approx(math.log(110))


def test_an_arm_without_a_window_has_no_figure() -> None:
    """NaN, never a made-up figure."""
    assert math.isnan(typical_ln([], P99.value))


def test_a_difference_is_of_rounds_so_that_what_the_host_is_in_one_cancels() -> None:
    """A host of two speeds, which changes between rounds: the ratio is seen as if it had one."""
    speeds = (1.0, 1.5, 1.5, 1.0, 1.0)
    first = [window("baseline", turn, 100.0 * speed) for turn, speed in enumerate(speeds)]
    # In the last round the speed changes between the two windows.
    second = [
        window("c1", turn, 90.0 * speed) for turn, speed in enumerate((1.0, 1.5, 1.5, 1, 1.5))
    ]
    assert difference_ln(second, first, P99.value) == pytest.approx(math.log(0.9))
    assert difference_ln(first, second, P99.value) == pytest.approx(-math.log(0.9))
    medians = typical_ln(second, P99.value) - typical_ln(first, P99.value)
    assert medians == pytest.approx(math.log(1.35))


def test_rounds_that_one_arm_lacks_say_nothing_of_the_difference() -> None:
    """Without a common round, or with a figure that is not a positive number, there is none."""
    first = [window("baseline", turn, 100.0) for turn in (0, 1)]
    assert difference_ln(first, [window("c1", 1, 50.0)], P99.value) == pytest.approx(math.log(2))
    assert math.isnan(difference_ln(first, [window("c1", 2, 50.0)], P99.value))
    assert math.isnan(difference_ln(first, [window("c1", 1, 0.0)], P99.value))


def test_a_round_in_which_one_arm_is_invalid_counts_for_none() -> None:
    """Else the arms would be compared on different seconds."""
    windows = [*pair(0, 80), window("c1", 1, 90), window("baseline", 1, 9_999, valid=False)]
    both = block([*windows, *pair(2, 100)])
    assert [w.round for w in counted_windows(both, "c1")] == [0, 2]
    assert [w.round for w in counted_windows(both, "baseline")] == [0, 2]


def test_the_windows_of_an_instance_come_in_the_order_of_measurement() -> None:
    """As they stand in the block."""
    both = block([*pair(1, 10), *pair(0, 20)])
    assert [w.round for w in windows_of(both, "c1")] == [1, 0]
    assert by_round(both, P99)[0].keys() == {"c1", "baseline"}


def searched(baselines_us: list[float], candidates_us: list[list[float]]) -> list[Block]:
    """Return a search block for each baseline, with new candidates."""
    blocks, trial = [], 0
    for number, (baseline, others) in enumerate(zip(baselines_us, candidates_us, strict=True)):
        arms = {f"c{place}": trial + place for place in range(1, len(others) + 1)}
        trial += len(others)
        windows = [window("baseline", 0, baseline)]
        windows += [window(label, 0, us) for label, us in zip(arms, others, strict=True)]
        blocks.append(block(windows, number=number, trials=arms))
    return blocks


DISTURBED = searched(
    [100, 101, 150, 99, 100],
    [
        [101, 97, 104, 99],
        [95, 103, 100, 102],
        [96, 103, 101, 98],
        [99, 97, 104, 102],
        [85, 99, 103],
    ],
)
"""The baseline of the third block was disturbed; the only real gain is in the last block."""


def test_a_disturbed_baseline_does_not_choose_the_winner() -> None:
    """By the ratio in its block one that changes nothing wins; by the fit the real gain does."""
    losses = {t: mean_loss(found) for t, found in trial_losses(DISTURBED, P99).items()}
    assert min(losses, key=losses.__getitem__) == 9
    found = pooled(DISTURBED, P99, sigma_d=0.03, correlation=0.9)
    assert min(found.effects, key=found.effects.__getitem__) == 17
    assert found.disturbed == (2,)
    assert found.effects[9] == pytest.approx(math.log(0.96), abs=0.06)


def test_larger_is_better_turns_the_effects_round() -> None:
    """Throughput is signed like a loss: negative is better."""
    objective = Objective("throughput")
    fast = block(
        [window("c1", 0, 100, completed=300), window("baseline", 0, 100, completed=100)],
        trials={"c1": 1},
    )
    found = pooled([fast], objective, sigma_d=0.01, correlation=0.9)
    assert found.effects[1] == pytest.approx(-math.log(3), rel=0.1)
    assert found.baseline[0] == pytest.approx(-math.log(100))


def test_without_calibrated_noise_the_mean_stands() -> None:
    """A host that showed no noise at all has nothing to weigh by."""
    found = pooled(DISTURBED, P99, sigma_d=0.0, correlation=0.0)
    assert found.effects[17] == pytest.approx(math.log(103 / 100), abs=0.2)
    assert pooled([], P99, sigma_d=0.1, correlation=0.0).effects == {}
