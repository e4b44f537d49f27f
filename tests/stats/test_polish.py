"""Levels of the arms of a block: what a round shares is out, and no noise of a baseline is in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import seeds
from tuner.stats.polish import arm_levels

SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS)
def test_what_whole_rounds_share_changes_nothing(seed: int) -> None:
    """However large it is."""
    rng = seeds.rng(seed)
    arms = rng.normal(0, 1, 6)
    levels = arm_levels(arms[:, None] + rng.normal(0, 5, 4))
    assert levels - levels[0] == pytest.approx(arms - arms[0], abs=1e-6)


@given(SEEDS)
def test_one_disturbed_window_and_a_missing_one_change_nothing(seed: int) -> None:
    """Medians do not follow a single window, in whichever round and arm."""
    rng = seeds.rng(seed)
    arms = rng.normal(0, 1, 6)
    values = arms[:, None] + rng.normal(0, 1, 5)
    first, second = rng.permutation(6)[:2]
    values[first, rng.integers(5)] += 10
    values[second, rng.integers(5)] = np.nan
    levels = arm_levels(values)
    assert levels - levels[0] == pytest.approx(arms - arms[0], abs=1e-6)


def test_the_noise_of_a_bad_baseline_does_not_decide_between_candidates() -> None:
    """By differences one round decides, the one in which the baseline was in the middle."""
    rng = seeds.rng(1)
    blocks = rng.normal(0, 0.1, (3_000, 9, 4))
    blocks[:, 0] *= 3
    polished = [levels[1] - levels[2] for levels in map(arm_levels, blocks)]
    paired = np.median(blocks[:, 1:] - blocks[:, :1], axis=2)
    assert np.std(polished) < 0.93 * np.std(paired[:, 0] - paired[:, 1])
