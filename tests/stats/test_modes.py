"""The test for two kinds of starts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests import seeds
from tests.stats.conftest import Tolerance
from tuner.stats.diagnostics import ALARM_LEVEL
from tuner.stats.modes import two_modes
from tuner.testing.simulate import Noise


@pytest.mark.parametrize("blocks", [6, 12, 32])
def test_one_kind_of_starts_is_rarely_called_two(
    blocks: int, studies: int, tolerance: Tolerance
) -> None:
    """The level is 1 %, on hosts with drift and bursts too."""
    noise = Noise(restart_sd=0.05)
    d = seeds.simulate(
        90, studies=studies, blocks=blocks, ratios=(1, 0.9), rounds=8, noise=noise
    ).differences()
    assert sum(two_modes(row).raised for row in d) <= tolerance.most(ALARM_LEVEL)


def test_a_fifth_of_bad_starts_is_found(studies: int, tolerance: Tolerance) -> None:
    """A fifth of 32 starts doubles p99 and the others cut it by 15 %: found in 90 %."""
    rng = seeds.rng(91)
    bad = rng.random((studies, 32)) < 0.2
    d = np.where(bad, math.log(2), math.log(0.85)) + rng.normal(0, 0.1, bad.shape)
    assert sum(two_modes(row).raised for row in d) >= tolerance.least(0.9)


def test_the_levels_of_both_kinds_are_in_the_message() -> None:
    """The figure is the share of the smaller group."""
    d = np.log([0.85, 0.86, 0.84, 0.85, 0.87, 0.83, 0.85, 0.84, 2.0, 2.1])
    found = two_modes(d)
    assert found.raised
    assert found.figure == 0.2
    assert "in 2 of 10 blocks the ratio is about 2.049, in the others about 0.850" in found.message


def test_one_outlier_is_no_mode() -> None:
    """A group has two blocks at least."""
    rng = np.random.default_rng(4)
    assert not two_modes([*rng.normal(0, 0.05, 15), 0.3]).raised


@pytest.mark.parametrize("d", [[0.1, 0.2, 0.3], [0.1] * 10])
def test_too_little_data_is_silent(d: list[float]) -> None:
    """Too little data gives no figure and no warning."""
    found = two_modes(d)
    assert math.isnan(found.figure)
    assert not found.raised
    assert "not enough data" in found.message
