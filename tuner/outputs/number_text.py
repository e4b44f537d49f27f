"""Numbers as text."""

from __future__ import annotations


def number_text(value: float) -> str:
    """Return a finite number with 13 significant digits: a time since the epoch keeps its ms."""
    return f"{value:.13g}"
