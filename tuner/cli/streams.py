"""Standard streams, which may be closed, full, or limited to a few characters."""

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
"""Range to which ``os.fsdecode`` maps the undecodable bytes of a file name (PEP 383)."""


class Watched(io.TextIOWrapper):
    """A standard stream that escapes control characters and remembers its error.

    All output of tuner passes through it, so no text of a record, a log or a host reaches the
    terminal as a control sequence.
    """

    failed: OSError | None = None
    is_lossy: bool = False
    """True to go on without what cannot be written."""

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed has a variable
        """Encoding of the stream, but UTF-8 in place of ASCII: click would bypass ASCII.

        The stream's error handler replaces the characters that ASCII lacks.
        """
        name = super().encoding
        return "utf-8" if codecs.lookup(name).name == "ascii" else name

    def write(self, text: str) -> int:
        """Write text with control characters escaped."""
        shown = text
        if not writes_own_codes():
            # A pipe gets the bytes of a file's name unchanged.
            shown = printable_lines(text, keep_bytes=not self.isatty())
        try:
            super().write(shown)
        except OSError as error:
            self._fail(error)
        return len(text)

    def flush(self) -> None:
        """Write the buffer, and remember an error."""
        try:
            super().flush()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.failed = error
        if not self.is_lossy:
            raise error


@dataclass(frozen=True, slots=True)
class Streams:
    """The streams that a command prints to."""

    output: TextIO
    messages: TextIO

    def output_error(self) -> OSError | None:
        """Return the error of standard output; None if it was written in full."""
        return _error(self.output)

    def discard(self) -> None:
        """Discard the buffer of a broken stream, which Python would report at exit."""
        for stream in (self.output, self.messages):
            if _error(stream) is not None:
                nothing = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nothing, stream.fileno())
                os.close(nothing)


def prepare() -> Streams:
    """Replace closed standard streams, and make printing safe in every locale."""
    codecs.register_error(_HANDLER, _plain)
    # As in GNU's stdopen, a stream that is open for the other direction fails like a closed one.
    # Lost messages are not an error: standard error goes to the null device.
    for number, flags in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        _take(number, flags)
    # A stream that a test or another program has replaced stays.
    if sys.stdout is sys.__stdout__:
        sys.stdout = _watched(sys.stdout, 1)
    if sys.stderr is sys.__stderr__:
        messages = _watched(sys.stderr, 2)
        # Ctrl-C also ends `tee` in `tuner optimize 2>&1 | tee log`, and the report is yet to come.
        messages.is_lossy = True
        sys.stderr = messages
    return Streams(sys.stdout, sys.stderr)


def _error(stream: TextIO) -> OSError | None:
    if isinstance(stream, Watched) and stream.failed is not None:
        # Without a buffer (PYTHONUNBUFFERED), flushing again would succeed.
        return stream.failed
    try:
        stream.flush()
    except OSError as error:
        return error
    return None


def _watched(stream: TextIO | None, number: int) -> Watched:
    """Return a wrapper of a stream; None stands for a closed stream."""
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
    """Open the null device in place of a standard stream that the shell closed (``>&-``).

    Otherwise the next opened file, such as the study's record, gets the stream's number, and
    child processes print into that file.
    """
    try:
        os.fstat(number)
    except OSError:
        found = os.open(os.devnull, flags)
        if found != number:
            os.dup2(found, number)
            os.close(found)


def _plain(error: UnicodeError) -> tuple[str | bytes, int]:
    """Replace a character that the encoding lacks by ASCII, and keep a byte of a file name."""
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
