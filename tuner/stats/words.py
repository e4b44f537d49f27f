"""Formatting of figures, without digits that the data does not support."""

from __future__ import annotations


def p_in_words(p_value: float) -> str:
    """Return `p = 0.031`, `p = 0.00049` or `p < 0.0001`: two significant digits."""
    return "p < 0.0001" if p_value < 0.0001 else f"p = {p_value:.2g}"


def percent(fraction: float) -> str:
    """Return `3.0 %` for 0.03."""
    return f"{100 * fraction:.1f} %"


def signed_percent(fraction: float) -> str:
    """Return `+3.0 %` for 0.03, and `+0.0 %` for values that round to 0."""
    return f"{100 * fraction:+z.1f} %"


def counted(number: int, noun: str) -> str:
    """Return `1 block`, `2 blocks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
