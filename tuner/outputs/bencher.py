"""Bencher Metric Format: JSON of benchmarks, their measures, and values (bencher.dev)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence

from tuner.judge.results import StudyResult
from tuner.outputs.number_text import number_text
from tuner.outputs.observed import arm_values, figure_changes
from tuner.reading.printable import printable

_UNITS = {
    "µs": "us",
    "/s": "per-s",
    "requests/s": "per-s",
    "MiB": "mib",
    "MiB/s": "mib-per-s",
    "s": "s",
    "share": "share",
    "": "",
}


def render_bencher(studies: Sequence[StudyResult]) -> str:
    """Return a benchmark for each arm, and one for each pair of arms with its ratios.

    A ratio has the bounds of its 95 % interval as ``lower_value`` and ``upper_value``.
    """
    found: dict[str, dict[str, dict[str, float]]] = {}
    for study in studies:
        for each in arm_values(study):
            name = printable(f"{each.study}/{each.arm}")
            measure = _slug(f"{each.figure} {_UNITS.get(each.unit, each.unit)}")
            found.setdefault(name, {})[measure] = {"value": _short(each.value)}
        for change in figure_changes(study):
            name = printable(f"{change.study}/{change.arm} to {change.against}")
            estimate = change.estimate
            if not math.isfinite(estimate.ratio):
                continue
            bounds = {"lower_value": estimate.low, "upper_value": estimate.high}
            found.setdefault(name, {})[_slug(f"{change.figure} ratio")] = {
                "value": _short(estimate.ratio),
                **{key: _short(bound) for key, bound in bounds.items() if math.isfinite(bound)},
            }
    return json.dumps(found, indent=2, allow_nan=False) + "\n"


def _short(value: float) -> float:
    return float(number_text(value))


def _slug(text: str) -> str:
    """Return a name of lower-case letters, digits and hyphens: ``p99-9-us``."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
