"""A configuration as statements with their blocks, independent of the layout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Statement:
    """One directive or option, or the head of a block."""

    words: tuple[str, ...]
    """Name and arguments, without quotes."""
    within: tuple[tuple[str, ...], ...] = ()
    """Words of the enclosing blocks, outermost first."""

    @property
    def name(self) -> str:
        """The first word; empty for a block without words."""
        return self.words[0] if self.words else ""


def options(text: str) -> Iterator[Statement]:
    """Yield the options of a file of ``name=value`` lines with ``#`` comments."""
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            yield Statement((name, value))
