"""A recorded table as a world for searches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.replay import world_of
from benchmarks.short_search import TABLE


def test_less_noise_leaves_the_truth_as_it_is() -> None:
    """All kinds of noise shrink by the same factor."""
    world = world_of(TABLE)
    quieter = replace(world, noise=0.5)
    assert quieter.truth == pytest.approx(world.truth)
    assert quieter.minute_residuals == pytest.approx(0.5 * world.minute_residuals)
    assert (quieter.start_sd, quieter.window_sd) == pytest.approx(
        (0.5 * world.start_sd, 0.5 * world.window_sd)
    )
    drawn, whole = (w.window_noise(np.random.default_rng(1), 7, 0.5) for w in (quieter, world))
    assert whole
    assert drawn == pytest.approx(0.5 * whole)
