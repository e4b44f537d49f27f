"""Limits: how they are read, and how far beyond one a configuration is."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.measurement.windows import window
from tuner.goals.constraint import Constraint


@pytest.mark.parametrize(
    ("text", "limit", "relative", "shown"),
    [
        ("p50 <= 200us", 200, False, "p50 <= 200us"),
        ("p99.5<5ms", 5_000, False, "p99.5 <= 5ms"),
        ("p99 <= 1.5 s", 1.5e6, False, "p99 <= 1.5s"),
        ("cpu <= 80µs", 80, False, "cpu <= 80µs"),
        ("memory <= 64M", 64, False, "memory <= 64M"),
        ("memory <= 512KiB", 0.5, False, "memory <= 512KiB"),
        ("memory <= 1.2x baseline", 1.2, True, "memory <= 1.2x baseline"),
        ("memory<=1.2 * baseline", 1.2, True, "memory <= 1.2x baseline"),
        ("p99 <= baseline", 1, True, "p99 <= 1x baseline"),
        ("errors <= 0.1%", 0.001, False, "errors <= 0.1%"),
        ("throughput >= 5k/s", 5_000, False, "throughput >= 5k/s"),
        ("throughput > 0.9x baseline", 0.9, True, "throughput >= 0.9x baseline"),
    ],
)
def test_each_form_that_is_allowed(text: str, limit: float, relative: bool, shown: str) -> None:
    """Units become those of the figure; the spelling is one, and reads as the same limit."""
    found = Constraint.parse(text)
    assert found.limit == pytest.approx(limit)
    assert (found.relative, found.text) == (relative, shown)
    assert Constraint.parse(found.text) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("memory", "'memory' is not a limit; allowed: FIGURE <= VALUE"),
        ("speed <= 3ms", "unknown figure 'speed'; allowed: a percentile"),
        ("p99 <= 5", "found '5' where a value belongs; allowed: a number with us, ms or s"),
        ("p99 <= 5M", "found '5M' where a value belongs"),
        ("p99 <=", "there is nothing where a value belongs"),
        ("p99 >= 5ms", "p99 can be limited by <= only, found '>='"),
        ("throughput <= 5/s", "throughput can be limited by >= only"),
        ("errors <= 2x baseline", "errors need a limit of their own"),
        ("memory <= 0x baseline", "must be above 0"),
        ("memory <= -1M", "found '-1M'"),
    ],
)
def test_what_is_no_limit_is_quoted_with_what_is_allowed(text: str, words: str) -> None:
    """So that the next try is right."""
    with pytest.raises(ValueError, match=r".") as caught:
        Constraint.parse(text)
    assert words in str(caught.value)


def test_the_excess_is_a_log_ratio_to_the_limit() -> None:
    """Positive beyond it, and the typical window counts, not a single wild one."""
    own = [window("c1", n, us) for n, us in enumerate((220, 220, 220, 220, 9_000))]
    base = [window("baseline", n, 100) for n in range(5)]
    assert Constraint.parse("p99 <= 110us").excess(own, base) == pytest.approx(math.log(2))
    assert Constraint.parse("p99 <= 4.4x baseline").excess(own, base) == pytest.approx(
        math.log(0.5)
    )


def test_larger_is_better_for_throughput() -> None:
    """Half of what is wanted is beyond the limit."""
    own = [replace(window("c1", 0, 100), completed_per_s=500.0)]
    assert Constraint.parse("throughput >= 1k/s").excess(own, own) == pytest.approx(math.log(2))


def test_errors_are_compared_as_shares() -> None:
    """Because there may be none, of which there is no logarithm."""
    limit = Constraint.parse("errors <= 10%")
    none = window("c1", 0, 100)
    some = replace(none, errors={"reset": 4})
    assert limit.excess([none], [none]) == pytest.approx(-0.1)
    assert limit.excess([none, some], [none]) == pytest.approx(0.0)


def test_what_cannot_be_known_is_not_guessed() -> None:
    """No window, or no figure in it."""
    blind = replace(window("c1", 0, 100), server_rss_bytes=None)
    limit = Constraint.parse("memory <= 1x baseline")
    assert math.isnan(limit.excess([blind], [blind]))
    assert math.isnan(limit.excess([], []))
