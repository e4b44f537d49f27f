"""The band of ratios that no claim of a difference may touch."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.stats.margin import DEFAULT_BAND, NO_MARGIN, Margin


@given(st.floats(0.001, 0.3))
def test_the_band_is_symmetric_in_logarithms(share: float) -> None:
    """The candidate has to be as far below the baseline as above it."""
    margin = Margin(share)
    assert math.log(margin.high) == pytest.approx(-math.log(margin.low))
    assert margin.edge_ln(0.5) == pytest.approx(-margin.edge_ln(2.0))


def test_earlier_records_keep_their_band() -> None:
    """Their margin goes from 1 - share to 1 + share, so their verdicts do not change."""
    margin = Margin(0.1, symmetric=False)
    assert (margin.low, margin.high) == (0.9, 1.1)


def test_sides() -> None:
    """An interval lies below the band, above it, inside it, or none of these."""
    assert [DEFAULT_BAND.side(*ends) for ends in ((0.9, 0.97), (1.04, 1.1), (0.9, 1.1))] == [
        -1,
        1,
        0,
    ]
    assert DEFAULT_BAND.holds(0.98, 1.02)
    assert not DEFAULT_BAND.holds(0.96, 1.02)
    assert NO_MARGIN.side(0.99, 0.999) == -1


def test_what_is_seen_and_what_is_claimed() -> None:
    """A claim needs the reduction that is seen on top of the margin."""
    assert NO_MARGIN.claimable(0.05) == pytest.approx(0.05)
    assert DEFAULT_BAND.claimable(0.05) == pytest.approx(1 - 0.95 / 1.03)
    assert DEFAULT_BAND.claimable(1.0) == 1.0


@pytest.mark.parametrize(("share", "wanted"), [(0.001, 0.05), (0.03, 0.05), (0.12, 0.20)])
def test_the_wanted_effect_lies_beyond_the_margin(share: float, wanted: float) -> None:
    """The default is 5 %, or five thirds of a wider margin; a larger effect of the user stays."""
    assert Margin(share).wanted() == pytest.approx(wanted)
    assert Margin(share).wanted(0.001) > 1 - Margin(share).low
    assert Margin(share).wanted(0.4) == 0.4


@pytest.mark.parametrize("share", [-0.01, 1.0, math.nan])
def test_impossible_margins_are_refused(share: float) -> None:
    """With the value."""
    with pytest.raises(ValueError, match="margin must be at least 0 and below 1 but got"):
        Margin(share)
