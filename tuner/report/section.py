"""A further section of a report: charts and tables in addition to the study's own.

Ladders of rates, several servers: the owner of the figures makes a section of them, and every form
of report shows it in the same place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Picture:
    """One chart."""

    name: str
    """Id in the page and name of the file: letters, digits and hyphens."""
    label: str
    """Text for readers who do not see it."""
    spec: Mapping[str, object]
    """Vega-Lite, as ``tuner.report.charts.specification`` makes it."""
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """One table: the first column holds names, the others figures or words."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Section:
    """One section: a title, a lead, charts, tables."""

    anchor: str
    """Id in the page: letters, digits and hyphens."""
    title: str
    lead: str = ""
    short: str = ""
    """Title in the navigation; empty: the title itself."""
    legend: tuple[tuple[str, str], ...] = ()
    """Colour or class of a mark, and what it means; see ``page/report.css`` for the classes."""
    pictures: tuple[Picture, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = field(default=())
