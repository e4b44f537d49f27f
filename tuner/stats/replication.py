"""The comparison of a confirmation with its repetition on another day or host.

Two tests, both fixed beforehand and the same for all studies:

- The replication's own: its 95 % interval excludes a ratio of 1 in the direction of the original.
  If nothing differs, this happens in at most 2.5 % of replications of any original.
- Of the difference of the two effects, d = ln(again) - ln(original): its 95 % interval follows from
  the intervals of the two by the method of variance estimates recovery (Zou and Donner, Statistics
  in Medicine 27, 2008), and needs no blocks of the original.

"Same sign and overlapping intervals", the usual criterion, calls half of all replications without
any effect successful.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class ReplicationKind(StrEnum):
    """The outcome of a replication."""

    REPLICATED = "replicated"
    """The effect is shown again, and is not shown to be smaller."""
    NOT_REPLICATED = "not replicated"
    """The effect is shown to be smaller than the original's."""
    INCONCLUSIVE = "inconclusive"
    """The effect is not shown again, nor shown to be smaller; or the original showed none."""
    CONTRADICTS = "contradicts"
    """An effect in the opposite direction is shown."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A ratio with its 95 % interval."""

    ratio: float
    low: float
    high: float

    @property
    def direction(self) -> int:
        """-1 if the interval lies below 1, 1 if it lies above, 0 if it contains 1."""
        return (self.low > 1) - (self.high < 1)


@dataclass(frozen=True, slots=True)
class Replication:
    """The comparison of two confirmations."""

    kind: ReplicationKind
    difference: Interval
    """Ratio of the two ratios, again / original, with the 95 % interval."""
    sentence: str

    @property
    def agrees(self) -> bool:
        """True if the effect is replicated."""
        return self.kind is ReplicationKind.REPLICATED


def replication(original: Interval, again: Interval, *, objective: str = "p99") -> Replication:
    """Compare a confirmation with the one that it repeats.

    Args:
        original: ratio of the first confirmation.
        again: ratio of the second, on fresh blocks.
        objective: name of the figure in the sentence.
    """
    difference = _difference(original, again)
    kind, reason = _outcome(original, again, difference)
    return Replication(
        kind=kind,
        difference=difference,
        sentence=(
            f"{_HEADS[kind]}: the ratio of {objective} is {_figures(again)} after"
            f" {_figures(original)}; {reason}."
        ),
    )


def _outcome(
    original: Interval, again: Interval, difference: Interval
) -> tuple[ReplicationKind, str]:
    way = original.direction
    if way == 0:
        reason = "the original shows no effect that could be replicated"
        return ReplicationKind.INCONCLUSIVE, reason
    if again.direction == -way:
        return ReplicationKind.CONTRADICTS, "an effect in the opposite direction is shown"
    sizes = f"ratio of the two {_figures(difference)}"
    shown = again.direction == way
    if difference.direction == -way:
        again_shown = "shown again, but it is smaller" if shown else "smaller, and not shown again"
        return ReplicationKind.NOT_REPLICATED, f"the effect is {again_shown} ({sizes})"
    if not shown:
        reason = f"the effect is not shown again, nor shown to be smaller ({sizes})"
        return ReplicationKind.INCONCLUSIVE, reason
    if difference.direction == way:
        return ReplicationKind.REPLICATED, f"the effect is shown again, and it is larger ({sizes})"
    reason = f"the effect is shown again, and the two are compatible ({sizes})"
    return ReplicationKind.REPLICATED, reason


def _difference(original: Interval, again: Interval) -> Interval:
    """Return the ratio again / original with its interval."""
    ratio = again.ratio / original.ratio
    below = math.hypot(_reach(again.ratio, again.low), _reach(original.ratio, original.high))
    above = math.hypot(_reach(again.ratio, again.high), _reach(original.ratio, original.low))
    return Interval(ratio, ratio * math.exp(-below), ratio * math.exp(above))


def _reach(ratio: float, end: float) -> float:
    """Return the distance of an end of an interval in ln units."""
    return abs(math.log(end / ratio)) if 0 < end < math.inf else math.inf


def _figures(interval: Interval) -> str:
    high = f"{interval.high:.3f}" if interval.high < math.inf else "no limit"
    return f"{interval.ratio:.3f} ({interval.low:.3f} to {high})"


_HEADS = {
    ReplicationKind.REPLICATED: "Replicated",
    ReplicationKind.NOT_REPLICATED: "Not replicated",
    ReplicationKind.INCONCLUSIVE: "Replication inconclusive",
    ReplicationKind.CONTRADICTS: "Contradicts the original",
}
