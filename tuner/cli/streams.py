"""Standard streams that can be closed, full, or of an encoding that lacks some characters."""

from __future__ import annotations

import codecs
import io
import os
import sys
from dataclasses import dataclass
from typing import TextIO

from tuner.reading.printable import printable_lines
from tuner.words.terminal import writes_own_codes

_HANDLER = "tuner.plain"
_PLAIN = {
    "µ": "u",
    "μ": "u",
    "…": "...",
    "→": "->",
    "±": "+-",
    "×": "x",
    "·": "*",
    "≤": "<=",
    "≥": ">=",
    "–": "-",
    "—": "-",
    "√": "sqrt",
    "²": "^2",
    "π": "pi",
}
_LAST_BYTE = 0xDC80, 0xDCFF
"""Range to which ``os.fsdecode`` maps undecodable bytes of file names (PEP 383)."""


class Watched(io.TextIOWrapper):
    """A standard stream that shows control characters, and remembers why it could not be written.

    All that tuner prints goes through it, so no text of a record, a log or a host reaches the
    terminal as a control sequence.
    """

    failed: OSError | None = None

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed has a variable
        """UTF-8 in place of ASCII: click would write past this stream otherwise.

        What ASCII lacks is written by the stream's error handler.
        """
        name = super().encoding
        return "utf-8" if codecs.lookup(name).name == "ascii" else name

    def write(self, text: str) -> int:
        """Write text as any stream does, what is hidden in it made visible."""
        shown = text
        if not writes_own_codes():
            # A pipe gets the bytes of a file's name as they are.
            shown = printable_lines(text, keep_bytes=not self.isatty())
        try:
            super().write(shown)
        except OSError as error:
            self.failed = error
            raise
        return len(text)

    def flush(self) -> None:
        """Write what is buffered as any stream does."""
        try:
            super().flush()
        except OSError as error:
            self.failed = error
            raise


@dataclass(frozen=True, slots=True)
class Streams:
    """The streams that a command prints to."""

    output: TextIO
    messages: TextIO

    def output_error(self) -> OSError | None:
        """Return why standard output could not be written in full; None if it could."""
        return _error(self.output)

    def messages_error(self) -> OSError | None:
        """Return why standard error could not be written in full; None if it could."""
        return _error(self.messages)

    def discard(self) -> None:
        """Drop what a broken stream still holds; Python would complain about it at its end."""
        for stream in (self.output, self.messages):
            if _error(stream) is not None:
                nothing = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nothing, stream.fileno())
                os.close(nothing)


def prepare() -> Streams:
    """Make printing on every standard stream safe, for any locale."""
    codecs.register_error(_HANDLER, _plain)
    # As GNU's stdopen does: a stream opened for the other direction fails as a closed one does.
    # Lost messages are not a failure: standard error goes to the null device.
    for number, flags in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        _take(number, flags)
    # What a test or another program has put in a stream's place is left alone.
    if sys.stdout is sys.__stdout__:
        sys.stdout = _watched(sys.stdout, 1)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _watched(sys.stderr, 2)
    return Streams(sys.stdout, sys.stderr)


def _error(stream: TextIO) -> OSError | None:
    if isinstance(stream, Watched) and stream.failed is not None:
        # Without a buffer (PYTHONUNBUFFERED), another try would find nothing left to write.
        return stream.failed
    try:
        stream.flush()
    except OSError as error:
        return error
    return None


def _watched(stream: TextIO | None, number: int) -> Watched:
    """Return a stream that writes where the given one does; None is one that was closed."""
    if not isinstance(stream, io.TextIOWrapper):
        raw = io.FileIO(number, "w", closefd=False)
        return Watched(io.BufferedWriter(raw), encoding="utf-8", errors=_HANDLER)
    return Watched(
        stream.buffer,
        encoding=stream.encoding,
        errors=_HANDLER,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _take(number: int, flags: int) -> None:
    """Open the null device under the number of a stream that the shell has closed (``>&-``).

    Else the next file that is opened, such as the study's record, gets the stream's number, and
    everything printed by a child process ends in that file.
    """
    try:
        os.fstat(number)
    except OSError:
        found = os.open(os.devnull, flags)
        if found != number:
            os.dup2(found, number)
            os.close(found)


def _plain(error: UnicodeError) -> tuple[str | bytes, int]:
    """Write a character that the encoding lacks in ASCII, and a byte of a file name as it is."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    low, high = _LAST_BYTE
    made = (
        bytes([ord(char) - low + 0x80])
        if low <= ord(char) <= high
        else _PLAIN.get(char, char).encode("ascii", "backslashreplace")
        for char in text
    )
    return b"".join(made), error.end
