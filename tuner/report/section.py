"""A section of a report: charts, tables and sentences, in the same order in every form.

The owner of figures makes a section of them (arms of a contest, several hosts, further baselines);
the page and its Markdown show it without knowing what it is about.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

Folding = Literal["open", "folded", "repeats a chart"]
"""``repeats a chart``: folded next to the chart, open where there is none."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One chart."""

    name: str
    """Id in the page and name of the file: letters, digits and hyphens."""
    label: str
    """Text for readers who do not see it."""
    spec: Mapping[str, object]
    """Vega-Lite, as ``tuner.report.vega.specification`` makes it."""
    caption: str = ""
    title: str = ""
    """Title of a small chart; small charts share a row."""


@dataclass(frozen=True, slots=True)
class RatioCell:
    """A ratio with its interval, marked by its verdict."""

    kind: str
    """Verdict; ``none`` without one."""
    ratio: str
    interval: str


@dataclass(frozen=True, slots=True)
class Table:
    """One table: the first column holds names, the others figures or words."""

    head: tuple[str, ...]
    rows: tuple[tuple[str | RatioCell, ...], ...]
    title: str = ""
    """Title of a folded table."""
    folding: Folding = "open"
    wordy: bool = False
    """True if all columns are words, aligned to the left."""
    coded: bool = False
    """True if the names are code."""
    claimed: tuple[str, ...] = ()
    """Names in the rows that the verdict is about."""


@dataclass(frozen=True, slots=True)
class Section:
    """One section: a title, a lead, charts, tables."""

    title: str
    anchor: str = ""
    """Id in the page: letters, digits and hyphens; empty in a part of a section."""
    lead: str = ""
    short: str = ""
    """Title in the navigation; empty: the title itself."""
    points: tuple[str, ...] = ()
    """List of sentences."""
    legend: tuple[tuple[str, str], ...] = ()
    """Colour or class of a mark, and what it means; see ``page/report.css`` for the classes."""
    pictures: tuple[Picture, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = field(default=())
    parts: tuple[Section, ...] = ()

    @property
    def all_pictures(self) -> Iterator[Picture]:
        """The charts of the section and of its parts."""
        yield from self.pictures
        for part in self.parts:
            yield from part.all_pictures
