"""Steps of shortening a study's plan that does not fit into its time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Economy:
    """One step: how many other load points there are, and how long windows are."""

    points: int = 2
    """Number of other load points."""
    looks: float = 1.0
    """Length of the search's windows as a share of the full plan's; never below the shortest."""
    windows: float = 1.0
    """The same for the windows whose values are claims."""


FULL = Economy()
ECONOMIES = (
    FULL,
    Economy(points=0),
    Economy(points=0, looks=0.5),
    Economy(points=0, looks=0.5, windows=0.75),
    Economy(points=0, looks=0.5, windows=0.5),
    Economy(points=0, looks=0.25, windows=0.35),
    Economy(points=0, looks=0.25, windows=0.25),
    Economy(points=0, looks=0.0, windows=0.0),
)
"""Tried in this order until the study fits, so that the verdict is touched last.

No claim rests on the other load points, and none on the looks of the search. Neither the A/A blocks
nor the candidates of a search block are cut: the margin rests on the former, and fewer of the
latter would save some ten seconds.
"""
