"""Tidy tables as CSV (RFC 4180), safe to open in a spreadsheet.

A spreadsheet evaluates a cell that begins with ``=``, ``+``, ``-`` or ``@``, and names and messages
of a record may come from anywhere. Such a text gets an apostrophe in front, also after a character
that a spreadsheet may take for a separator (OWASP, CSV Injection).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

from tuner.outputs.number_text import number_text
from tuner.reading.printable import printable
from tuner.report.tidy import Cell, TidyTable

_FORMULA = re.compile(r"""(^|[,;|"'])(\s*)(?=[=+\-@＝＋－＠])""")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")


def render_csv(tables: Sequence[TidyTable]) -> str:
    """Return tables of one kind as one document, with all columns of any of them."""
    names = list(dict.fromkeys(name for table in tables for name in table.names))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_text(name) for name in names])
    for table in tables:
        for row in table.rows:
            cells = dict(zip(table.names, row, strict=True))
            writer.writerow([_cell(cells.get(name)) for name in names])
    return out.getvalue()


def _cell(value: Cell) -> Cell:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return number_text(value)
    return _text(value) if isinstance(value, str) else value


def _text(text: str) -> str:
    line = printable(text)
    return line if _NUMBER.fullmatch(line) else _FORMULA.sub(r"\1\2'", line)
