"""Arrival processes: independent, constant, recorded, or a profile of rates.

A pattern sets the spread of arrivals, and the study their rate: recorded instants are stretched,
and a profile is scaled, so that their mean is the study's rate. So every configuration gets the
same bursts at the same load point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from tuner.errors import DefinitionError
from tuner.reading.inputs import INSTANTS_BYTES, open_input
from tuner.reading.located import Node
from tuner.reading.shape import AnyText, Decimal, Either, Keys, ListOf, OneWord, TimeSpan

_LONGEST_LINE = 1 << 16
Process = Literal["poisson", "constant"]
PROCESSES: tuple[Process, ...] = get_args(Process)

_PROCESS = OneWord(PROCESSES)
_LASTS = TimeSpan(1e-6, 1e6, "Length of the piece, relative to the others'.")
_RATE = Decimal(0, 1e9, "Rate at its beginning, relative to the others'.")
_PIECE = Keys(
    {"for": _LASTS, "rate": _RATE},
    {"to": Decimal(_RATE.low, _RATE.high, "Rate at its end [the same].")},
)
_PATTERN = Keys(
    optional={
        "instants": AnyText("File of instants in seconds, one per line."),
        "rates": ListOf(_PIECE, "Pieces of every window."),
    }
)
ARRIVAL = Either((_PROCESS, _PATTERN), "Spread of the requests; the study sets their rate.")


@dataclass(frozen=True, slots=True)
class Recorded:
    """Recorded instants; every window replays a stretch of them."""

    path: str
    offsets_s: tuple[float, ...]
    """Ascending offsets, seconds, from 0; after the last one the recording starts over."""

    @property
    def rate_per_s(self) -> float:
        """Mean rate of the recording."""
        return (len(self.offsets_s) - 1) / self.offsets_s[-1]

    def __str__(self) -> str:
        return f"recorded ({self.path})"


@dataclass(frozen=True, slots=True)
class Step:
    """One piece of a profile."""

    share: float
    """Length relative to the other pieces of the window."""
    start: float
    end: float
    """Rates at its beginning and end, relative to the other pieces."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A sequence of rates over every window: a ladder, or ramps."""

    steps: tuple[Step, ...]

    def pieces(self, rate_per_s: float, duration_s: float) -> list[tuple[float, float, float]]:
        """Return (seconds, first rate, last rate) of each piece, with this mean over the window."""
        whole = sum(step.share for step in self.steps)
        mean = sum(step.share * (step.start + step.end) / 2 for step in self.steps) / whole
        lasts = [round(step.share / whole * duration_s, 9) for step in self.steps]
        lasts[-1] = duration_s - sum(lasts[:-1])
        return [
            (seconds, step.start * rate_per_s / mean, step.end * rate_per_s / mean)
            for step, seconds in zip(self.steps, lasts, strict=True)
        ]

    def __str__(self) -> str:
        return f"a profile of {len(self.steps)} rates"


Arrival: TypeAlias = "Process | Recorded | Profile"


def stretch(
    recorded: Recorded, *, rate_per_s: float, duration_s: float, seed: int
) -> NDArray[np.float64]:
    """Return the instants of one window, seconds from its start: a stretch of the recording.

    Time runs faster or slower so that the recording's mean rate becomes ``rate_per_s``. Where it
    begins follows from the seed alone, so all arms of a round replay the same stretch; after the
    recording's end it starts over.
    """
    factor = recorded.rate_per_s / rate_per_s
    offsets = np.asarray(recorded.offsets_s[:-1]) * factor
    period_s = recorded.offsets_s[-1] * factor
    start_s = float(np.random.default_rng(seed).random()) * period_s
    rounds = math.ceil((start_s + duration_s) / period_s)
    instants = np.concatenate([offsets + turn * period_s for turn in range(rounds)]) - start_s
    return instants[(instants >= 0) & (instants < duration_s)]


def read_arrival(node: Node, folder: Path) -> Arrival:
    """Return ``poisson``, ``constant``, ``{instants: FILE}`` or ``{rates: [{for, rate, to}]}``.

    Raises:
        DefinitionError: at the line of the workload, or of the file of instants.
    """
    if isinstance(node.content, str):
        return _PROCESS.read(node)
    keys = _PATTERN.read(node)
    if len(keys) != 1:
        raise node.error("allowed: poisson, constant, {instants: FILE} or {rates: [...]}")
    if "rates" in keys:
        return _profile(keys["rates"])
    path = folder / keys["instants"].text()
    return Recorded(str(path), read_instants(path))


def _profile(node: Node) -> Profile:
    steps = []
    for item in node.sequence():
        keys = _PIECE.read(item)
        start = _RATE.read(keys["rate"])
        end = _RATE.read(keys["to"]) if "to" in keys else start
        steps.append(Step(_LASTS.read(keys["for"]), start, end))
    if not any(step.start + step.end > 0 for step in steps):
        raise node.error("at least one rate above 0 is needed")
    return Profile(tuple(steps))


def read_instants(path: Path) -> tuple[float, ...]:
    """Read instants in seconds, one per line, ascending; ``#`` begins a comment.

    Returns:
        Offsets from the first.

    Raises:
        DefinitionError: with the line.
    """
    found: list[float] = []
    try:
        with open_input(path, INSTANTS_BYTES) as stream:
            for number, line in enumerate(iter(lambda: stream.readline(_LONGEST_LINE), b""), 1):
                text = line.decode("ascii", "replace").partition("#")[0].strip()
                if text:
                    found.append(_instant(text, found, str(path), number))
    except OSError as error:
        raise DefinitionError(f"cannot be read: {error.strerror}", path=str(path)) from None
    if len(found) < 2 or found[-1] <= found[0]:
        raise DefinitionError("at least two different instants are needed", path=str(path))
    return tuple(instant - found[0] for instant in found)


def _instant(text: str, before: list[float], path: str, line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DefinitionError(f"expected seconds, found {text[:40]!r}", path=path, line=line)
    if before and value < before[-1]:
        raise DefinitionError(
            f"{text} comes before {before[-1]}; instants must ascend", path=path, line=line
        )
    return value
