"""Connections that live longer than those of any client are named."""

from __future__ import annotations

from dataclasses import replace

from tests.measurement.windows import window
from tuner.measurement import lifetimes
from tuner.measurement.window import Measurement


def windows(label: str, *, completed: int, reconnects: int) -> list[Measurement]:
    """Return two windows of an arm with 32 connections."""
    made = window(label, 0, 100.0, connections=32)
    return [replace(made, completed=completed, reconnects=reconnects)] * 2


def test_connections_that_reach_the_servers_limit_are_named() -> None:
    """With the requests that each carried; an arm that keeps them is left out."""
    measured = [
        *windows("baseline", completed=64_000, reconnects=64),
        *windows("candidate", completed=64_000, reconnects=0),
    ]
    assert lifetimes.lifetimes(measured) == {"baseline": 1_000}
    words = lifetimes.warning(measured)
    assert "(baseline after about 1,000 requests each)" in words
    assert "real clients send far fewer" in words


def test_a_load_of_handshakes_is_no_warning() -> None:
    """Connections that close after ten requests are what the workload asks for."""
    assert lifetimes.warning(windows("baseline", completed=64_000, reconnects=6_400)) == ""


def test_a_few_lost_connections_are_no_lifetime() -> None:
    """Fewer reconnects than connections say nothing about how long they live."""
    assert lifetimes.warning(windows("baseline", completed=64_000, reconnects=3)) == ""
