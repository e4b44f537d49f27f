"""True if two confirmations agree, by a criterion that is fixed beforehand."""

from __future__ import annotations

import math

import pytest

from tuner.stats.replication import Interval, replication

FIRST = Interval(0.80, 0.75, 0.86)


@pytest.mark.parametrize(
    ("again", "agrees", "why"),
    [
        (Interval(0.82, 0.78, 0.87), True, "overlap"),
        (Interval(0.98, 0.80, 1.10), True, "overlap"),
        (Interval(0.95, 0.91, 0.99), False, "do not overlap"),
        (Interval(1.02, 0.84, 1.20), False, "opposite ways"),
        (Interval(0.70, 0.0, math.inf), True, "no limit"),
    ],
)
def test_the_same_way_and_overlapping(again: Interval, agrees: bool, why: str) -> None:
    """Both are needed, and the sentence says which one is missing."""
    found = replication(FIRST, again)
    assert found.agrees is agrees
    assert why in found.sentence
    assert found.sentence.startswith("Replicated" if agrees else "Not replicated")


def test_agreement_goes_both_ways() -> None:
    """It does not matter which study came first."""
    again = Interval(0.95, 0.91, 0.99)
    assert replication(FIRST, again).agrees == replication(again, FIRST).agrees
