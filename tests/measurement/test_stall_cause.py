"""Gaps of a core: the host's doing, or work that an arm makes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.measurement.windows import raw_window
from tuner.measurement.stall_cause import likely_work
from tuner.measurement.stalls import Span

US = 1_000


def gaps(count: int, length_us: int) -> tuple[Span, ...]:
    """Return this number of gaps, evenly spread over a second."""
    every = 1_000_000_000 // count
    return tuple((i * every, i * every + length_us * US) for i in range(count))


def reported(**seen: Any) -> str:
    """Return the likely cause for two windows of one second in which this was seen."""
    return likely_work([raw_window(**seen), raw_window(**seen)])


def test_many_short_gaps_of_the_server_alone_are_its_kernels_work() -> None:
    """250 gaps of 300 µs on the server's core, next to none on the generator's, nothing stolen."""
    words = reported(server_spans=gaps(250, 300), generator_spans=gaps(2, 500))
    assert "7.5% of the time on the server's cores, 0.1% on the generator's" in words
    assert "the kernel's work for this server" in words
    assert "--stalls keep" in words


def test_many_short_gaps_of_the_generator_alone_are_its_own_work() -> None:
    """Gaps of 150 µs over 12 % of the time, as an HTTP/3 server caused them, are its own work."""
    words = reported(generator_spans=gaps(800, 150), server_spans=gaps(1, 300))
    assert "the generator's own work" in words


@pytest.mark.parametrize("core", ["server_spans", "generator_spans"])
@pytest.mark.parametrize(
    "seen",
    [
        {"core": gaps(5, 300)},
        {"core": gaps(250, 300), "other": gaps(250, 200)},
        {"core": gaps(250, 300), "steal_s": 0.05},
        {"core": gaps(5, 20_000)},
    ],
    ids=["hardly any", "on the other core too", "stolen", "too long"],
)
def test_what_may_be_the_host_is_not_called_work(core: str, seen: dict[str, Any]) -> None:
    """Each alone is reason enough to say nothing, on either core."""
    other = {"server_spans": "generator_spans", "generator_spans": "server_spans"}[core]
    names = {"core": core, "other": other}
    assert reported(**{names.get(name, name): value for name, value in seen.items()}) == ""


def test_nothing_is_said_of_no_windows() -> None:
    """An arm that was never measured has no gaps."""
    assert likely_work([]) == ""
