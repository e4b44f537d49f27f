"""Searches for processes that may start others meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

_IN_VAIN = 2
"""Searches in a row that must find none."""
_APART_S = 0.01
"""Time between two searches."""


def stop_until_none(stop: Callable[[], Iterable[str]], most: int) -> tuple[list[str], bool]:
    """Stop processes until two searches in a row find none.

    A search misses a process that is forked meanwhile, and one that has no command line yet because
    it is within execve(2).

    Args:
        stop: searches for processes, stops them and returns their names.
        most: largest number of searches.

    Returns:
        What was stopped, and whether none is left.
    """
    stopped: list[str] = []
    in_vain = 0
    for _ in range(most):
        found = list(stop())
        in_vain = 0 if found else in_vain + 1
        if in_vain == _IN_VAIN:
            return stopped, True
        stopped += found
        time.sleep(_APART_S)
    return stopped, False
