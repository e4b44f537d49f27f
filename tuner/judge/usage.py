"""Resource use of both arms: the figures behind the resource charts.

Descriptive: no claim was made of them. CPU time is divided by the requests that were answered
while there was load (warm-up and window), which is what it was spent on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

from tuner.judge.arms import Figure, PairedBlock, figure_of
from tuner.measurement.resources import ProcessUsage, Resources
from tuner.measurement.window import Measurement

UsagePart = Literal["server", "backend", "generator"]
PARTS: tuple[UsagePart, ...] = ("server", "backend", "generator")
UsageMetric = Callable[[Measurement], float]

MIB = 2**20


def usage(blocks: Sequence[PairedBlock]) -> tuple[Figure, ...]:
    """Every resource of both arms over the used blocks; what was nowhere known is left out."""
    used = [block for block in blocks if block.used]
    if not used:
        return ()
    found = (figure_of(used, name, unit, metric) for name, unit, metric in METRICS)
    return tuple(entry for entry in found if math.isfinite(entry.baseline + entry.candidate))


def unread(blocks: Sequence[PairedBlock], parts: Sequence[UsagePart]) -> tuple[str, ...]:
    """Return the parts without readings, each with the reason.

    Args:
        blocks: those that count.
        parts: those that the study has.
    """
    windows = [window for block in blocks for window in (*block.baseline, *block.candidate)]
    found = [window.resources for window in windows if window.resources]
    if not found:
        return ()
    missing = [part for part in parts if all(getattr(each, part) is None for each in found)]
    return tuple(f"{part}: {_REASONS[part]}" for part in missing)


_REASONS: dict[UsagePart, str] = {
    "server": "its processes could not be read",
    "backend": "its processes could not be read, or served several arms in slices",
    "generator": "it runs on another host, and reports its own CPU time only",
}


def cores(part: UsagePart) -> UsageMetric:
    """Return CPU cores kept busy on average while there was load."""
    return _of(part, lambda found, all_: found.cpu_s / all_.loaded_s)


def cpu_us_per_request(part: UsagePart) -> UsageMetric:
    """Return CPU time by answered request, µs."""

    def value(window: Measurement) -> float:
        busy = cores(part)(window)
        return busy / window.completed_per_s * 1e6 if window.completed_per_s else math.nan

    return value


def memory_mib(part: UsagePart) -> UsageMetric:
    """Resident memory, mean of before and after, MiB."""
    return _of(part, lambda found, _: found.memory_mean_bytes / MIB)


def received_mib_per_s(window: Measurement) -> float:
    """Return the rate that all interfaces received, MiB/s."""
    return _whole(lambda found: found.received_bytes / found.loaded_s / MIB)(window)


def sent_mib_per_s(window: Measurement) -> float:
    """Return the rate that all interfaces sent, MiB/s."""
    return _whole(lambda found: found.sent_bytes / found.loaded_s / MIB)(window)


def written_mib_per_s(window: Measurement) -> float:
    """Return the rate written to all disks, MiB/s."""
    return _whole(lambda found: found.disk_written_bytes / found.loaded_s / MIB)(window)


def switches_per_s(window: Measurement) -> float:
    """Context switches of the server, of its own will and not, by second."""
    return _of("server", lambda found, all_: (found.waits + found.preemptions) / all_.loaded_s)(
        window
    )


def _of(part: UsagePart, value: Callable[[ProcessUsage, Resources], float]) -> UsageMetric:
    def metric(window: Measurement) -> float:
        found = window.resources
        mine: ProcessUsage | None = getattr(found, part) if found else None
        if found is None or mine is None or found.loaded_s <= 0:
            return math.nan
        return value(mine, found)

    return metric


def _whole(value: Callable[[Resources], float]) -> UsageMetric:
    def metric(window: Measurement) -> float:
        found = window.resources
        return value(found) if found and found.loaded_s > 0 else math.nan

    return metric


def _known(value: int | None) -> float:
    return math.nan if value is None else float(value)


METRICS: tuple[tuple[str, str, UsageMetric], ...] = (
    *((f"{part}: CPU per request", "µs", cpu_us_per_request(part)) for part in PARTS),
    *((f"{part}: cores busy", "", cores(part)) for part in PARTS),
    (
        "server: of it in the kernel",
        "share",
        _of("server", lambda f, _: f.system_s / f.cpu_s if f.cpu_s else math.nan),
    ),
    *((f"{part}: memory, mean", "MiB", memory_mib(part)) for part in PARTS),
    *(
        (f"{part}: memory, peak", "MiB", _of(part, lambda f, _: f.memory_peak_bytes / MIB))
        for part in PARTS
    ),
    (
        "server: waits (voluntary switches)",
        "/s",
        _of("server", lambda f, r: f.waits / r.loaded_s),
    ),
    (
        "server: preemptions (involuntary)",
        "/s",
        _of("server", lambda f, r: f.preemptions / r.loaded_s),
    ),
    ("server: threads", "", _of("server", lambda f, _: float(f.threads))),
    ("server: open descriptors", "", _of("server", lambda f, _: _known(f.descriptors))),
    (
        "server: written to disk",
        "MiB",
        _of("server", lambda f, _: _known(f.written_bytes) / MIB),
    ),
    ("host: received", "MiB/s", received_mib_per_s),
    ("host: sent", "MiB/s", sent_mib_per_s),
    ("host: written to disks", "MiB/s", written_mib_per_s),
    ("host: load average (1 min)", "", _whole(lambda f: f.load)),
)
