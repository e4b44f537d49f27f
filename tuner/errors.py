"""Every error that tuner raises on purpose. The message says what to do about it.

The tree, with the exit code of the command that ends with it::

    TunerError                  1   never raised itself
    ├── DefinitionError         2   a file, an option or a value is wrong; nothing was started
    ├── HostError               3   a host or the server on it does not do what it must
    │   └── LeaseLostError          a block of several workers was taken for abandoned
    ├── InstrumentError         3   the load generator is missing, refused or at fault
    ├── StoreError              3   the study record cannot be read or written
    │   └── ClaimedError            another worker was first
    └── Interrupted           130   Ctrl-C or SIGTERM; what was measured is in the record

Exit code 4 is not an error: ``--fail-if`` was given and the verdict matched it. Exit code 70
(``EX_SOFTWARE`` of sysexits.h) is a bug: an exception that is not in this tree.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

EXIT_OK = 0
EXIT_FAIL_IF = 4
EXIT_BUG = 70


_LONGEST_QUOTE = 80
"""Characters of a wrong value that a message repeats."""


def quoted(value: object) -> str:
    """Return a value in quotes for a message; a long one is cut: ``'abc…' (1,234 characters)``."""
    text = str(value)
    if len(text) <= _LONGEST_QUOTE:
        return repr(value)
    return f"{text[: _LONGEST_QUOTE - 1] + '…'!r} ({len(text):,} characters)"


class TunerError(Exception):
    """Base of all errors meant for the user: one message, no traceback."""

    exit_code = 1


class DefinitionError(TunerError):
    """A definition, option or file of the user's is wrong. Raised before anything starts.

    Args:
        message: what is wrong, with the bad value and what is allowed.
        path: file that holds it, or the option's name.
        line: 1-based line in ``path``.
    """

    exit_code = 2

    def __init__(self, message: str, *, path: str | None = None, line: int | None = None) -> None:
        self.message = message
        self.path = path
        self.line = line
        where = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
        super().__init__(where + message)


@contextlib.contextmanager
def named(option: str, path: str) -> Iterator[None]:
    """Report a mistake in what ``option`` stands for as a mistake in what the user gave.

    Raises:
        DefinitionError: as raised within, at ``path`` where it was at ``option``.
    """
    try:
        yield
    except DefinitionError as error:
        if error.path != option:
            raise
        raise DefinitionError(error.message, path=path, line=error.line) from error


class HostError(TunerError):
    """A host, or the server on it, fails in a way that is not the configuration's fault."""

    exit_code = 3


class UnreachableError(HostError):
    """Another host does not answer; it may be back in a while."""


class LeaseLostError(HostError):
    """A worker was silent until another one ended its block; it is measured again."""


class InstrumentError(TunerError):
    """The load generator is missing, dies, or breaks its protocol."""

    exit_code = 3


class StoreError(TunerError):
    """The study record is missing, locked, damaged, or of another schema."""

    exit_code = 3


class ClaimedError(StoreError):
    """Another worker began the same first; there is something else to do."""


class Interrupted(TunerError):  # noqa: N818 - not an error of anything
    """The user stopped the run; everything that was measured is kept."""

    exit_code = 130
