"""Three-way merge of texts, line by line: the rules of ``diff3 -m`` and ``git merge-file``.

A line that only one side changed gets that change. Where both sides changed the same lines, or
lines without an unchanged line between them, and not to the same text, there is a conflict.
S. Khanna, K. Kunal, B. C. Pierce: A Formal Investigation of Diff3. FSTTCS 2007.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from tuner.own.patch import lines_of


@dataclass(frozen=True, slots=True)
class Conflict:
    """Lines that both sides changed, each in its own way."""

    line: int
    """1-based line of our text at which it begins."""
    base: tuple[str, ...]
    """The lines that both sides began with, with their line ends."""
    ours: tuple[str, ...]
    theirs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of a merge."""

    text: str
    """Our text with their changes; where there is a conflict, our lines."""
    conflicts: tuple[Conflict, ...]


def merge(base: str, ours: str, theirs: str) -> Merged:
    """Return apply the difference between ``base`` and ``theirs`` to ``ours``."""
    olds, mine, other = (lines_of(text) for text in (base, ours, theirs))
    done: list[str] = []
    conflicts = []
    at = _Point(0, 0, 0)
    for start, length in _shared(olds, mine, other):
        old = olds[at.base : start.base]
        own = mine[at.ours : start.ours]
        new = other[at.theirs : start.theirs]
        if own == old:
            done += new
        elif new in (old, own):
            done += own
        else:
            done += own
            conflicts.append(Conflict(at.ours + 1, tuple(old), tuple(own), tuple(new)))
        done += mine[start.ours : start.ours + length]
        at = _Point(start.base + length, start.ours + length, start.theirs + length)
    return Merged("".join(done), tuple(conflicts))


@dataclass(frozen=True, slots=True)
class _Point:
    """Indices of lines in the three texts."""

    base: int
    ours: int
    theirs: int


def _shared(
    base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]
) -> Iterator[tuple[_Point, int]]:
    """Yield the runs of lines that all three texts share, in order; an empty one at the end."""
    for first in _matches(base, ours):
        for second in _matches(base, theirs):
            start = max(first.a, second.a)
            end = min(first.a + first.size, second.a + second.size)
            if start < end:
                point = _Point(start, first.b + start - first.a, second.b + start - second.a)
                yield point, end - start
    yield _Point(len(base), len(ours), len(theirs)), 0


def _matches(base: Sequence[str], other: Sequence[str]) -> list[_Match]:
    matcher = SequenceMatcher(None, base, other, autojunk=False)
    return [_Match(*block) for block in matcher.get_matching_blocks()]


@dataclass(frozen=True, slots=True)
class _Match:
    """A run of lines that two texts share."""

    a: int
    b: int
    size: int
