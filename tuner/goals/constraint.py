"""Constraints on a configuration: ``memory <= 1.2x baseline``.

A limit is absolute, or a multiple of the baseline's figure in the same block. The search passes the
excess over it, ln(value / limit), to the sampler; the confirmation uses an interval.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.errors import quoted
from tuner.goals.metric import Metric, difference_ln, typical_ln
from tuner.measurement.window import Measurement

_TEXT = re.compile(r"\s*([A-Za-z0-9.]+)\s*(<=|>=|<|>)\s*(.*?)\s*")
_FACTOR = re.compile(r"(?:([0-9]+(?:\.[0-9]+)?)\s*[x*]?\s*)?baseline")
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-zµμ%/]*)")
_LATENCY = {"us": 1.0, "µs": 1.0, "μs": 1.0, "ms": 1e3, "s": 1e6}
_SIZES = {"k": 2**-10, "m": 1.0, "g": 2.0**10}
_UNITS: dict[str, dict[str, float]] = {
    "µs": _LATENCY,
    "MiB": {k + tail: s for k, s in _SIZES.items() for tail in ("", "b", "ib")},
    "requests/s": {"": 1.0, "/s": 1.0, "k": 1e3, "k/s": 1e3},
    "share": {"%": 0.01},
}
_UNIT_WORDS = {
    "µs": "us, ms or s",
    "MiB": "k, M or G (powers of 1024)",
    "requests/s": "/s, or none",
    "share": "%",
}
_GRAMMAR = "allowed: FIGURE <= VALUE or FIGURE <= FACTORx baseline"


@dataclass(frozen=True, slots=True)
class Constraint:
    """A limit on one figure: an upper one, or a lower one where larger is better."""

    metric: Metric
    limit: float
    """In the metric's unit; a factor where ``relative``."""
    relative: bool
    text: str
    """The constraint in normalised notation."""

    @classmethod
    def parse(cls, text: str) -> Constraint:
        """Read ``p50 <= 200us``, ``errors <= 0.1%``, ``memory <= 1.2x baseline``.

        ``<`` is the same as ``<=``: figures are measured, so no limit is met to the last digit.

        Raises:
            ValueError: the text is wrong; the message lists what is allowed.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"{quoted(text)} is not a limit; {_GRAMMAR}")
        name, sign, right = match.groups()
        metric = Metric.parse(name)
        wanted = ">=" if metric.larger_is_better else "<="
        if sign[0] != wanted[0]:
            raise ValueError(
                f"{quoted(text)}: {name} can be limited by {wanted} only, found {quoted(sign)}"
            )
        factor = _FACTOR.fullmatch(right)
        if factor:
            limit = float(factor[1] or 1)
            if metric.name == "errors":
                raise ValueError(f"{quoted(text)}: errors need a limit of their own, such as 0.1%")
        else:
            limit = _amount(right, metric, text)
        if limit <= 0 and metric.name != "errors":
            raise ValueError(f"{quoted(text)}: a limit must be above 0")
        shown = f"{factor[1] or 1}x baseline" if factor else right.replace(" ", "")
        return cls(metric, limit, bool(factor), f"{name} {wanted} {shown}")

    def excess(self, own: Sequence[Measurement], baseline: Sequence[Measurement]) -> float:
        """Return the excess of an arm's windows over the limit; 0 or less holds.

        It is ln(value / limit), positive for a violation. For errors it is the difference of
        shares, because there may be no errors. NaN if unknown.
        """
        if self.metric.name == "errors":
            shares = [self.metric.value(window) for window in own]
            return sum(shares) / len(shares) - self.limit if shares else math.nan
        if self.relative:
            value = difference_ln(own, baseline, self.metric.value)
        else:
            value = typical_ln(own, self.metric.value)
        over = value - math.log(self.limit)
        return -over if self.metric.larger_is_better else over


def _amount(right: str, metric: Metric, text: str) -> float:
    match = _AMOUNT.fullmatch(right)
    units = _UNITS[metric.unit]
    unit = match[2].lower() if match else ""
    if match is None or unit not in units:
        found = f"found {quoted(right)}" if right else "there is nothing"
        raise ValueError(
            f"{quoted(text)}: {found} where a value belongs; allowed: a number with"
            f" {_UNIT_WORDS[metric.unit]}, or 1.2x baseline"
        )
    return float(match[1]) * units[unit]
