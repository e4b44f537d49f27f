"""True if a limit holds: how often either is said wrongly, and that it is said at all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.measurement.windows import window
from tests.seeds import simulate
from tests.stats.conftest import Tolerance
from tuner.goals.constraint import Constraint
from tuner.judge.limits import LimitFound, limit_found
from tuner.measurement.window import Measurement
from tuner.testing.simulate import Noise

BLOCKS = 12
MIB = 2**20
LIMIT = Constraint.parse("memory <= 1.2x baseline")
WINDOW = window("c1", 0, 100.0)


def with_memory(mib: float) -> Measurement:
    """Return a window of a server with this resident memory."""
    return replace(WINDOW, server_rss_bytes=round(mib * MIB))


def with_errors(count: int) -> Measurement:
    """Return a window with this number of failed requests."""
    return replace(WINDOW, errors={"status": count} if count else {})


def states(seed: int, studies: int, truth: float) -> list[str]:
    """Return the limit's state in many studies of a drifting host with this true ratio."""
    noise = Noise(drift_per_window=0.01)
    made = simulate(seed, studies=studies, blocks=BLOCKS, ratios=(1.0, truth), noise=noise)
    found: list[str] = []
    for study in np.exp(made.arm_means()):
        pairs = [([with_memory(base)], [with_memory(own)]) for base, own in study]
        found.append(limit_found(LIMIT, pairs, 0.95).state)
    return found


def test_on_the_limit_either_is_said_wrongly_in_one_study_in_forty(
    studies: int, tolerance: Tolerance
) -> None:
    """A true ratio of exactly the limit: *held* and *violated* in at most 2.5 % each."""
    found = states(61, studies, 1.2)
    assert found.count("held") <= tolerance.most(0.025)
    assert found.count("violated") <= tolerance.most(0.025)


@pytest.mark.parametrize(("truth", "state"), [(0.9, "held"), (1.6, "violated")])
def test_far_from_the_limit_it_is_said(truth: float, state: str) -> None:
    """A third beyond it, or a quarter below, twelve blocks are enough in most studies."""
    assert states(62, 100, truth).count(state) >= 80


def limit_of(text: str, windows: list[Measurement]) -> LimitFound:
    """Return the limit found from blocks of one window per arm, with a plain baseline."""
    return limit_found(Constraint.parse(text), [([WINDOW], [own]) for own in windows], 0.95)


def test_a_limit_of_errors_is_of_their_share() -> None:
    """None at all keeps to any limit; one request in twenty does not keep to one in a hundred."""
    assert limit_of("errors <= 1%", [with_errors(0)] * 6).state == "held"
    assert limit_of("errors <= 1%", [with_errors(1)] * 6).state == "violated"
    assert limit_of("errors <= 1%", [with_errors(0), with_errors(1)] * 6).state == "undecided"


def test_five_blocks_decide_nothing() -> None:
    """Five blocks leave a limit undecided, since they give no interval; six decide it."""
    assert limit_of("memory <= 100M", [with_memory(1)] * 5).state == "undecided"
    assert limit_of("memory <= 100M", [with_memory(1)] * 6).state == "held"
