"""Figures are written alike everywhere, with the digits they carry."""

from __future__ import annotations

import math

import pytest

from tuner.words.figures import cores, duration_us, figure, moment, setting, significant
from tuner.words.terminal import duration


@pytest.mark.parametrize(
    ("value_us", "text"),
    [
        (0.5, "0.500 µs"),
        (85.14, "85.1 µs"),
        (431.2, "431 µs"),
        (999.4, "999 µs"),
        (999.6, "1.00 ms"),
        (12_340, "12.3 ms"),
        (2_100_000, "2.10 s"),
        (90_000_000, "90.0 s"),
    ],
)
def test_durations_change_unit_where_digits_would_be_lost(value_us: float, text: str) -> None:
    """Three significant digits, and the unit follows the rounded value."""
    assert duration_us(value_us) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.0831, "0.0831"), (1.004, "1.00"), (1234.5, "1,234"), (-85.14, "-85.1")],
)
def test_three_significant_digits(value: float, text: str) -> None:
    """No exponent, thousands separated."""
    assert significant(value) == text


def test_cores_are_named_in_words() -> None:
    """Cores are listed as in a sentence."""
    assert [cores((0,)), cores((0, 1)), cores((0, 1, 2))] == [
        "core 0",
        "cores 0 and 1",
        "cores 0, 1 and 2",
    ]


def test_what_is_unknown_is_a_dash() -> None:
    """NaN and infinity are never printed as numbers."""
    for unit in ("µs", "/s", "MiB", "share", ""):
        assert figure(math.nan, unit) == figure(math.inf, unit) == "–"


def test_settings_read_as_in_the_configuration() -> None:
    """Switches are on and off; what is inactive is not set."""
    assert [setting(value) for value in (True, False, None, 1, "4k")] == [
        "on",
        "off",
        "no effect",
        "1",
        "4k",
    ]


def test_times() -> None:
    """Durations by size, instants in UTC."""
    assert [duration(value) for value in (42, 703.5, 7500)] == ["42 s", "11 min 44 s", "2 h 5 min"]
    assert moment(1_767_366_000.0) == "2026-01-02 15:00:00 UTC"
