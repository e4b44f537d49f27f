"""Names of the formats and the choices of a document; light, because options name them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from tuner.errors import DefinitionError
from tuner.report.tidy_columns import TableName

DocumentFormat = Literal[
    "csv", "hgrm", "hlog", "benchstat", "bencher", "openmetrics", "junit", "json"
]
DOCUMENT_FORMATS: tuple[DocumentFormat, ...] = get_args(DocumentFormat)


@dataclass(frozen=True, slots=True)
class DocumentChoice:
    """One document: its format, its part of the record, and its file."""

    format: DocumentFormat
    table: TableName = "windows"
    """Table of ``csv``."""
    arm: str | None = None
    """Arm of ``hgrm`` and ``hlog``; None for the only one, or for all."""
    out: Path | None = None
    """File; None for standard output."""


def document_choice(
    name: DocumentFormat | None, table: TableName | None, arm: str | None, out: Path | None
) -> DocumentChoice | None:
    """Return the choice that the options make; None without ``--format``.

    Raises:
        DefinitionError: an option does not apply.
    """
    for option, value, formats in (
        ("--table", table, ("csv",)),
        ("--arm", arm, ("hgrm", "hlog")),
        ("--out", out, DOCUMENT_FORMATS),
    ):
        if value is not None and name not in formats:
            which = "" if option == "--out" else f" {' or '.join(formats)}"
            raise DefinitionError(f"needs --format{which}", path=option)
    return None if name is None else DocumentChoice(name, table or "windows", arm, out)
