"""The files of access logs: plain, or packed by gzip or Zstandard."""

from __future__ import annotations

import contextlib
import gzip
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, cast

from tuner.errors import DefinitionError
from tuner.reading.inputs import open_input
from tuner.reading.log_lines import ReadsBytes, numbered_lines
from tuner.words.terminal import duration

GZIP = b"\x1f\x8b"
ZSTANDARD = b"\x28\xb5\x2f\xfd"
"""First bytes of packed files (RFC 1952, RFC 8878)."""
_QUIET_S = 2.0
_EVERY_LINES = 20_000
STANDARD_INPUT = "standard input"


def log_name(path: Path) -> str:
    """Return the name of a log for messages; ``-`` is standard input."""
    return STANDARD_INPUT if str(path) == "-" else str(path)


def log_lines(path: Path, progress: Callable[[str], None] | None) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a log.

    Args:
        path: a plain or packed file, or ``-`` for standard input.
        progress: function that shows a line of progress every few seconds; None for none.

    Raises:
        DefinitionError: the log cannot be read, or is broken.
    """
    name = log_name(path)
    try:
        # Closing standard input is harmless: nothing else reads it.
        with (
            sys.stdin.buffer if str(path) == "-" else open_input(path) as raw,
            _unpacked(raw, name) as stream,
        ):
            lines = numbered_lines(stream)
            yield from lines if progress is None else _watched(lines, raw, name, progress)
    except (OSError, EOFError, zlib.error) as error:
        words = getattr(error, "strerror", None) or str(error)
        raise DefinitionError(f"cannot be read: {words}", path=name) from None


@contextlib.contextmanager
def _unpacked(raw: IO[bytes], name: str) -> Iterator[ReadsBytes]:
    begins = raw.peek(len(ZSTANDARD)) if hasattr(raw, "peek") else b""
    if begins.startswith(GZIP):
        with gzip.GzipFile(fileobj=raw) as stream:
            yield stream
    elif begins.startswith(ZSTANDARD):
        with _zstandard(raw, name) as unpacked:
            yield unpacked
    else:
        yield cast("ReadsBytes", raw)


@contextlib.contextmanager
def _zstandard(raw: IO[bytes], name: str) -> Iterator[ReadsBytes]:
    """Unpack by Python's own module (3.14), or else by the program ``zstd``."""
    if sys.version_info >= (3, 14):
        from compression import zstd

        with zstd.ZstdFile(raw) as stream:
            yield stream
        return
    if name == STANDARD_INPUT:
        raise DefinitionError(
            "is packed by Zstandard; unpack it first: zstd -dc FILE | tuner workload from-log -",
            path=name,
        )
    # The child reads from the descriptor, which the look at the first bytes has moved.
    os.lseek(raw.fileno(), 0, os.SEEK_SET)
    try:
        child = subprocess.Popen(
            ("zstd", "--decompress", "--stdout", "--quiet"),
            stdin=raw,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except FileNotFoundError:
        raise DefinitionError(
            "is packed by Zstandard, which needs Python 3.14 or the program zstd"
            " (apt install zstd)",
            path=name,
        ) from None
    with child:
        try:
            yield cast("ReadsBytes", child.stdout)
        except BaseException:
            child.kill()
            raise
        _, wrong = child.communicate()
        if child.returncode:
            raise DefinitionError(
                f"cannot be read: {wrong.decode('utf-8', 'replace').strip()}", path=name
            )


def _watched(
    lines: Iterator[tuple[int, str]], raw: IO[bytes], name: str, progress: Callable[[str], None]
) -> Iterator[tuple[int, str]]:
    """Yield the lines, and show the progress of a long log every few seconds."""
    begun = shown = time.monotonic()
    found = os.fstat(raw.fileno())
    for number, line in lines:
        if number % _EVERY_LINES == 0 and (now := time.monotonic()) - shown >= _QUIET_S:
            shown = now
            # A pipe has neither size nor position.
            share = os.lseek(raw.fileno(), 0, os.SEEK_CUR) / found.st_size if found.st_size else 0.0
            left = f", {duration((now - begun) * (1 / share - 1))} left" if share else ""
            progress(f"{name}: {number:,} lines, {share:.0%}{left}")
        yield number, line
