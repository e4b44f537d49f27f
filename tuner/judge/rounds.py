"""Blocks and rounds that do not count, and the number of them that a verdict bears."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tuner.measurement.window import Measurement

_MOST_INVALID = 0.10
"""Share of invalid blocks above which a comparison may end without its planned blocks."""


def allowed_invalid(blocks: int) -> int:
    """Return the allowed number of invalid blocks: a tenth, and at least two."""
    return max(2, round(_MOST_INVALID * blocks))


def good_rounds(windows: Iterable[Measurement], arms: int) -> int:
    """Return the number of rounds with a valid window of each of the arms.

    An invalid window spoils its round, so windows of arms that left must not be among them.
    """
    rounds = _by_round(windows).values()
    return sum(len(found) == arms and all(window.valid for window in found) for found in rounds)


def least_effective(windows: Iterable[Measurement]) -> float:
    """Return the effective samples in valid windows of the arm that has the fewest."""
    sums: dict[str, float] = {}
    for window in windows:
        effective = (window.effective or 0.0) if window.valid else 0.0
        sums[window.instance] = sums.get(window.instance, 0.0) + effective
    return min(sums.values(), default=0.0)


def spoilt_rounds(windows: Iterable[Measurement]) -> frozenset[int]:
    """Return the rounds of a block that the host spoilt.

    In such a round the invalid windows only lack samples because of stalls, or none of several arms
    kept up with the load, which all of them did in another round. All arms repeat the round. The
    rounds that are left may favour the arm with the more variable figures, so a verdict bears few.
    """
    rounds = _by_round(windows)
    # Without a good round the load may be too high for all of them.
    kept_up = any(all(window.valid for window in found) for found in rounds.values())
    return frozenset(n for n, found in rounds.items() if _is_spoilt(found, kept_up=kept_up))


def _by_round(windows: Iterable[Measurement]) -> dict[int, list[Measurement]]:
    rounds: dict[int, list[Measurement]] = {}
    for window in windows:
        rounds.setdefault(window.round, []).append(window)
    return rounds


def _is_spoilt(found: Sequence[Measurement], *, kept_up: bool) -> bool:
    invalid = [window for window in found if not window.valid]
    if not invalid:
        return False
    if all(window.lacking for window in invalid):
        return True
    return kept_up and len(invalid) == len(found) > 1 and all(map(_is_slow, found))


def _is_slow(window: Measurement) -> bool:
    """Return whether a window is invalid for its missed rate or its samples, without errors."""
    return window.lacking or (window.bad and not window.errors)
