"""Slots: every arm has every slot equally often, and what a slot does favours no arm."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests import seeds
from tests.stats.conftest import Tolerance
from tuner.stats.diagnostics import slot_effect
from tuner.stats.paired import FloatArray, signed_rank_p
from tuner.stats.slots import slots_of

BLOCKS = 12


@pytest.mark.parametrize("arms", [1, 2, 3, 5, 9])
def test_every_arm_has_every_slot_once_per_cycle(arms: int) -> None:
    """Each block fills every slot, and so does each arm in as many blocks as there are arms."""
    table = np.array([slots_of(7, "confirm", index, arms) for index in range(4 * arms)])
    assert (np.sort(table, axis=1) == np.arange(arms)).all()
    cycles = table.reshape(4, arms, arms)
    assert (np.sort(cycles, axis=1) == np.arange(arms)[:, None]).all()


def test_the_slots_follow_from_seed_phase_and_index() -> None:
    """The same three give the same slots; another seed or phase gives others."""

    def drawn(seed: int, phase: str) -> list[tuple[int, ...]]:
        return [slots_of(seed, phase, index, 3) for index in range(12)]

    assert drawn(1, "confirm") == drawn(1, "confirm")
    assert drawn(1, "confirm") != drawn(2, "confirm")
    assert drawn(1, "confirm") != drawn(1, "search")


def test_a_single_block_has_any_slots() -> None:
    """Over many seeds each arm of the first block has each slot about equally often."""
    seeds_drawn = seeds.rng(61).integers(2**32, size=600).tolist()
    counts = Counter(slots_of(seed, "confirm", 0, 3).index(0) for seed in seeds_drawn)
    spread = seeds.SIGMAS * np.sqrt(600 * 2 / 9)
    assert all(abs(counts[arm] - 200) <= spread for arm in range(3))


def _false_claims(rng: np.random.Generator, studies: int, slots: FloatArray) -> int:
    """Return how many studies of equal arms find a difference; the first slot is 2 % slower."""
    slower = (slots == 0).astype(float)
    d = rng.normal(0.0, 0.02, (studies, BLOCKS)) + 0.02 * (slower[..., 1] - slower[..., 0])
    return sum(signed_rank_p(row) <= 0.05 for row in d)


def test_a_biased_slot_makes_no_false_claims(studies: int, tolerance: Tolerance) -> None:
    """With drawn slots the level holds; with fixed slots most studies make a false claim."""
    rng = seeds.rng(62)
    drawn = np.array(
        [
            [slots_of(seed, "confirm", index, 2) for index in range(BLOCKS)]
            for seed in rng.integers(2**32, size=studies).tolist()
        ]
    )
    fixed = np.broadcast_to([0, 1], drawn.shape)
    assert _false_claims(rng, studies, drawn) <= tolerance.most(0.05)
    assert _false_claims(rng, studies, fixed) > studies / 2


def test_the_warning_keeps_its_level(studies: int, tolerance: Tolerance) -> None:
    """The warning is raised in at most 1 % of studies without a slot effect."""
    rng = seeds.rng(63)
    raised = 0
    for seed in rng.integers(2**32, size=studies).tolist():
        slots = [slots_of(seed, "confirm", index, 3)[:2] for index in range(BLOCKS)]
        raised += slot_effect(rng.normal(0.05, 0.02, BLOCKS), slots).raised
    assert raised <= tolerance.most(0.01)


def test_a_biased_slot_raises_the_warning() -> None:
    """A slot that costs 5 % is found with its size, despite a difference of the arms."""
    slots = np.array([slots_of(1, "confirm", index, 2) for index in range(BLOCKS)])
    d = np.random.default_rng(64).normal(-0.3, 0.01, BLOCKS) + 0.05 * (slots[:, 1] - slots[:, 0])
    finding = slot_effect(d, slots)
    assert finding.raised
    assert finding.figure == pytest.approx(0.05, abs=0.01)
    assert "more blocks" in finding.message


def test_fixed_slots_show_nothing() -> None:
    """Arms that keep their slots raise no warning: slots and arms cannot be separated."""
    assert not slot_effect(np.arange(12.0), [[0, 1]] * 12).raised
