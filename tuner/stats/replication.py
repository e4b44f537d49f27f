"""The comparison of a confirmation with its repetition on another day or host.

The criterion is that both point the same way and that their intervals overlap. It is fixed
beforehand and the same for all studies. With overlap alone a wide interval would agree with
everything, and with direction alone a gain of 50 % would agree with one of 2 %.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """A ratio with its 95 % interval."""

    ratio: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Replication:
    """The comparison of two confirmations."""

    agrees: bool
    sentence: str


def replication(original: Interval, again: Interval, *, objective: str = "p99") -> Replication:
    """Compare a confirmation with the one that it repeats.

    Args:
        original: ratio of the first confirmation.
        again: ratio of the second, on fresh blocks.
        objective: name of the figure in the sentence.
    """
    same_way = (original.ratio < 1) == (again.ratio < 1)
    overlap = original.low <= again.high and again.low <= original.high
    figures = f"{_figures(again)} after {_figures(original)}"
    if same_way and overlap:
        return Replication(
            agrees=True,
            sentence=(
                f"Replicated: the ratio of {objective} is {figures}; both point the same way and"
                " their intervals overlap."
            ),
        )
    reason = "their intervals do not overlap" if same_way else "they point opposite ways"
    return Replication(
        agrees=False, sentence=f"Not replicated: the ratio of {objective} is {figures}; {reason}."
    )


def _figures(interval: Interval) -> str:
    high = f"{interval.high:.3f}" if interval.high < float("inf") else "no limit"
    return f"{interval.ratio:.3f} ({interval.low:.3f} to {high})"
