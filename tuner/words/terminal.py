"""Output on the terminal: styles, durations and line breaks."""

from __future__ import annotations

import contextlib
import math
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, TextIO

import click

_OWN_CODES: ContextVar[bool] = ContextVar("_OWN_CODES", default=False)


@contextlib.contextmanager
def own_codes() -> Iterator[None]:
    """Let control sequences through to the terminal while tuner writes its own.

    Text from elsewhere must be printable already (``tuner.reading.printable``).
    """
    before = _OWN_CODES.set(True)
    try:
        yield
    finally:
        _OWN_CODES.reset(before)


def writes_own_codes() -> bool:
    """Return whether the control sequences written now are tuner's own."""
    return _OWN_CODES.get()


class OwnCodes:
    """A stream that writes tuner's own control sequences, for functions that need a file."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text as it is."""
        with own_codes():
            return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def say_styled(line: str, *, err: bool = False) -> None:
    """Print a line that holds styles; text from elsewhere in it must be printable already."""
    with own_codes():
        click.echo(line, err=err)


def say_data(text: str) -> None:
    """Print text for another program on standard output, escaped only on a terminal."""
    with contextlib.nullcontext() if sys.stdout.isatty() else own_codes():
        click.echo(text, nl=False)


def duration(seconds: float) -> str:
    """Format seconds in words: ``45 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if not math.isfinite(seconds):
        from tuner.words.figures import UNKNOWN

        return UNKNOWN
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min" + (f" {rest} s" if rest else "")
    return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")


def wrapped(text: str, first: int, further: int) -> list[str]:
    """Return text for standard error, wrapped on a terminal and as one line elsewhere.

    Args:
        text: the message.
        first: columns already used in its first line.
        further: indentation of each further line, columns.
    """
    if not sys.stderr.isatty():
        return [text]
    columns = max(_LEAST_COLUMNS, shutil.get_terminal_size().columns) - 1
    lines = textwrap.wrap(
        " " * first + text,
        columns,
        subsequent_indent=" " * further,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )
    return [lines[0][first:], *lines[1:]] if lines else [text]


def output_width() -> float:
    """Return the columns of the terminal on standard output; infinite if it is not a terminal."""
    return shutil.get_terminal_size().columns - 1 if sys.stdout.isatty() else math.inf


def fitted(line: str, width: float, further: int | None = None) -> list[str]:
    """Return a line, wrapped if it is longer than ``width`` columns.

    Args:
        line: the text.
        width: columns that it may have.
        further: indentation of each further line; by default two columns more than the first.
    """
    if len(line) <= width:
        return [line]
    depth = len(line) - len(line.lstrip())
    return textwrap.wrap(
        line,
        max(_LEAST_COLUMNS, int(width)),
        subsequent_indent=" " * (depth + 2 if further is None else further),
        break_long_words=False,
        break_on_hyphens=False,
    )


def say_fitted(line: str, width: float | None = None) -> None:
    """Print a line on standard output, broken between words where the terminal is too narrow.

    Args:
        line: the text.
        width: columns that it may have; by default those of the terminal.
    """
    for part in fitted(line, output_width() if width is None else width):
        click.echo(part)


_LEAST_COLUMNS = 40
"""Lower limit for the width of wrapped text, columns."""
