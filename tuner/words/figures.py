"""Formatting of figures and names, the same in all reports."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from tuner.machine.topology import cpu_ranges
from tuner.record.model import Phase
from tuner.space.configuration import Value
from tuner.space.parameter import notation
from tuner.stats.paired import PairedEstimate

UNKNOWN = "–"
"""Placeholder for a figure that is not in the record."""

_MOST_LISTED = 4
"""Cores that are listed one by one; more are written as ranges."""

PHASE_NAMES: Mapping[Phase, str] = {
    "capacity": "capacity",
    "aa": "A/A",
    "search": "search",
    "confirm": "confirmation",
    "starts": "further starts",
    "load-points": "load points",
    "ablate": "ablation",
    "minimal": "check of the smallest difference",
    "contest": "common blocks",
    "ladder": "ladder",
}


def figure(value: float, unit: str) -> str:
    """Format a value with its unit, three digits: ``85.1 µs``, ``1.24 ms``, ``5,000/s``."""
    if not math.isfinite(value):
        return UNKNOWN
    if unit == "µs":
        return duration_us(value)
    if unit == "share":
        return f"{100 * value:.1f} %"
    if unit in {"/s", "requests/s"}:
        return f"{value:,.0f}/s"
    text = significant(value)
    return f"{text} {unit}" if unit else text


def duration_us(value: float) -> str:
    """Format a duration in µs, ms or s, in the unit that leaves one to three digits."""
    for limit, scale, unit in ((1e3, 1.0, "µs"), (1e6, 1e3, "ms")):
        if float(f"{value:.3g}") < limit:
            return f"{significant(value / scale)} {unit}"
    return f"{significant(value / 1e6)} s"


def significant(value: float) -> str:
    """Format three significant digits without an exponent: ``0.083``, ``85.1``, ``1,240``."""
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(float(f"{value:.3g}"))))
    return f"{value:,.{max(0, min(6, digits))}f}"


def ratio(value: float) -> str:
    """Return a ratio to three decimals."""
    return f"{value:.3f}" if math.isfinite(value) else UNKNOWN


def interval(estimate: PairedEstimate) -> str:
    """Format the interval of a ratio; ``not finite yet`` if it has no bound."""
    if not estimate.is_finite:
        return "not finite yet"
    return f"{estimate.low:.3f} to {estimate.high:.3f}"


def setting(value: Value | None, unit: str = "") -> str:
    """Return a parameter's value in the server's notation; ``no effect`` where it is inactive.

    Args:
        value: the value; None where it is inactive.
        unit: ``bytes`` or ``seconds``; empty for other values.
    """
    return "no effect" if value is None else notation(value, unit)


def cores(numbers: Sequence[int]) -> str:
    """Return ``core 0``, ``cores 0 and 1``, ``cores 0, 1 and 2``, ``cores 0-7``."""
    if len(numbers) > _MOST_LISTED:
        return f"cores {cpu_ranges(numbers)}"
    *others, last = map(str, numbers)
    return f"cores {', '.join(others)} and {last}" if others else f"core {last}"


def moment(unix_s: float) -> str:
    """Return an instant in UTC, to the second."""
    if not math.isfinite(unix_s):
        return UNKNOWN
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def slots_in_words(slots: tuple[int, int] | None) -> str:
    """Return the slots of both arms in a block; a dash where the record lacks them."""
    return ", ".join(map(str, slots)) if slots else UNKNOWN
