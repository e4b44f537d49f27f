"""The cause of stalls: the host, or the work of one arm.

Stalls of one arm only are not evidence against the host. Two kinds of work can look like stalls:

- The kernel's for the server. The ticker preempts the server's program, but not the kernel: packets
  are worked off in softirqs, which no thread interrupts, and where the kernel does not preempt
  itself (``preempt=none`` or ``voluntary``, the default of many distributions) a system call runs
  to its end or to the next place where it offers the core.
- The generator's own, if a burst of answers keeps it from looking at the clock.

A single gap cannot distinguish them from the host's, but whole windows can. A host that takes cores
away takes both, or reports it (steal, proc(5)), or takes them for longer than such work lasts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from tuner.measurement.stalls import Span, merged

_LEAST = 0.01
"""Least share of gaps in the time that is worth a reason; any host has fewer."""
_TIMES = 3.0
"""Least ratio of short gaps on one core to all signs of the host."""
_LONGEST_NS = 5_000_000
"""Longest gap of such work: softirqs hand over to a thread after 2 ms (MAX_SOFTIRQ_TIME in the
kernel's softirq.c), and a system call that runs for longer without a pause is rare."""


class WatchedWindow(Protocol):
    """A window with records of its cores' gaps."""

    @property
    def duration_s(self) -> float:
        """Duration of the measured part."""

    @property
    def generator_spans(self) -> Sequence[Span]:
        """Stalls of the generator's core."""

    @property
    def server_spans(self) -> Sequence[Span]:
        """Stalls of the server's cores."""

    @property
    def steal_s(self) -> float:
        """Time that the hypervisor reports as stolen."""


def likely_work(windows: Iterable[WatchedWindow]) -> str:
    """Return the likely work behind apparent stalls, in words; empty if it may be the host.

    Args:
        windows: windows of one arm.
    """
    seen = list(windows)
    watched_s = sum(window.duration_s for window in seen)
    if not watched_s:
        return ""
    server = _shares([window.server_spans for window in seen], watched_s)
    generator = _shares([window.generator_spans for window in seen], watched_s)
    stolen = sum(window.steal_s for window in seen) / watched_s
    for (short, longer), other, work in (
        (server, generator, "the kernel's work for this server, which the ticker cannot interrupt"),
        (generator, server, "the generator's own work on this server's answers"),
    ):
        if short >= max(_LEAST, _TIMES * max(longer, sum(other), stolen)):
            return (
                f"gaps took {sum(server):.1%} of the time on the server's cores,"
                f" {sum(generator):.1%} on the generator's, and the hypervisor {stolen:.1%}: most"
                f" likely not the host, but {work}; --stalls keep compares raw figures"
            )
    return ""


def _shares(spans: Iterable[Iterable[Span]], watched_s: float) -> tuple[float, float]:
    """Return the shares of time in gaps short enough for work, and in longer ones."""
    lengths_ns = [end - start for window in spans for start, end in merged(window)]
    short_ns = sum(length for length in lengths_ns if length <= _LONGEST_NS)
    return short_ns / 1e9 / watched_s, (sum(lengths_ns) - short_ns) / 1e9 / watched_s
