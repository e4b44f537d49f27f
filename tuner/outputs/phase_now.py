"""The phase of a running command."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PhaseNow:
    """A phase and its expected remainder."""

    title: str
    left_s: float
    """Seconds; 0 when it is about to end."""
