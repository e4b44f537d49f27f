"""CPU quotas that throttled a measurement: its processes had to wait for their next period."""

from __future__ import annotations

from collections.abc import Iterable

from tuner.measurement.readings import Throttling
from tuner.measurement.window import Measurement
from tuner.stats.words import counted

_LEAST_S = 0.001
"""Least time that is worth a figure."""


def reason(window: Measurement) -> str:
    """Return why a quota makes a window invalid; empty if none throttled it."""
    used = window.resources.throttling if window.resources else {}
    return "; ".join(_words(group, each) for group, each in used.items())


def _words(group: str, used: Throttling) -> str:
    # The kernel adds the time when the wait ends, which may be after the window.
    waited = f", for {used.withheld_s * 1e3:,.0f} ms" if used.withheld_s >= _LEAST_S else ""
    return (
        f"the CPU quota of {used.quota_cpus:g} CPUs of the control group {group} throttled it in"
        f" {counted(used.periods, 'period')}{waited}; raise the quota, or lower --rate"
    )


def warning(windows: Iterable[Measurement]) -> str:
    """Return a warning about the windows that quotas throttled; empty without any."""
    every = list(windows)
    found = [window for window in every if reason(window)]
    if not found:
        return ""
    groups = sorted(
        {
            f"{each.quota_cpus:g} CPUs of {group}"
            for window in found
            if window.resources
            for group, each in window.resources.throttling.items()
        }
    )
    return (
        f"a CPU quota throttled {len(found)} of {len(every)} windows ({', '.join(groups)}), and"
        " such windows do not count; raise the quota, or lower --rate"
    )
