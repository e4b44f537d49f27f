"""Tables of a study as data frames of pandas or Polars."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tuner.errors import DefinitionError
from tuner.report.tidy import Cell, TidyTable
from tuner.report.tidy_columns import Kind

_PANDAS: dict[Kind, str] = {
    "text": "string",
    "integer": "Int64",
    "number": "Float64",
    "flag": "boolean",
    "any": "object",
}
"""Types of pandas that have missing values."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A table: one row per observation, one typed column per variable."""

    _table: TidyTable

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, with their units."""
        return self._table.names

    @property
    def meanings(self) -> dict[str, str]:
        """Meaning of each column."""
        return {column.name: column.meaning for column in self._table.columns}

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._table.rows)

    def __iter__(self) -> Iterator[dict[str, Cell]]:
        """Yield the rows by column; None where the record has no value."""
        for row in self._table.rows:
            yield dict(zip(self.columns, row, strict=True))

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``.

        Raises:
            DefinitionError: pandas is not installed.
        """
        pandas = _library("pandas")
        series = {
            column.name: pandas.Series(self._cells(place), dtype=_PANDAS[column.kind])
            for place, column in enumerate(self._table.columns)
        }
        return pandas.DataFrame(series)

    def to_polars(self) -> Any:
        """Return a ``polars.DataFrame``. A column of several types has its values as text.

        Raises:
            DefinitionError: Polars is not installed.
        """
        polars = _library("polars")
        types = {
            "text": polars.String,
            "integer": polars.Int64,
            "number": polars.Float64,
            "flag": polars.Boolean,
        }
        series = []
        for place, column in enumerate(self._table.columns):
            cells = self._cells(place)
            if column.kind != "any":
                series.append(polars.Series(column.name, cells, dtype=types[column.kind]))
                continue
            kinds = {type(cell) for cell in cells if cell is not None}
            if len(kinds) > 1:
                cells = [None if cell is None else str(cell) for cell in cells]
            series.append(polars.Series(column.name, cells))
        return polars.DataFrame(series)

    def _cells(self, place: int) -> list[Cell]:
        return [row[place] for row in self._table.rows]


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise DefinitionError(
            f"{name} is not installed; run: pip install 'servertune[{name}]'"
        ) from error
