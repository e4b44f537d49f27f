"""All errors that tuner raises on purpose. Each message includes a way out.

The tree, with the exit code of the command that ends with it::

    TunerError                  1   never raised itself
    ├── DefinitionError         2   a file, an option or a value is wrong; nothing was started
    ├── HostError               3   a host or the server on it failed
    │   └── LeaseLostError          another worker took over a block
    ├── ChangedServerError      3   the server's program or a library of it was replaced
    ├── InstrumentError         3   the load generator is missing, refused or at fault
    ├── StoreError              3   the study record cannot be read or written
    │   └── ClaimedError            another worker began first
    └── Interrupted           130   Ctrl-C or SIGTERM; the record keeps what was measured

Exit code 4 is not an error: ``--fail-if`` was given and the verdict matched it. Exit code 70
(``EX_SOFTWARE`` of sysexits.h) is a bug: an exception that is not in this tree.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

EXIT_OK = 0
EXIT_FAIL_IF = 4
EXIT_BUG = 70


_LONGEST_QUOTE = 80
"""Limit for a wrong value that a message quotes, characters."""


def quoted(value: object) -> str:
    """Return a value in quotes for a message; a long one is cut: ``'abc…' (1,234 characters)``."""
    text = str(value)
    if len(text) <= _LONGEST_QUOTE:
        return repr(value)
    return f"{text[: _LONGEST_QUOTE - 1] + '…'!r} ({len(text):,} characters)"


def summary(error: BaseException) -> str:
    """Return the type and the message of an error of other people's code, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split()) or 'no message'}"


class TunerError(Exception):
    """Base of all errors meant for the user: one message, no traceback."""

    exit_code = 1


class DefinitionError(TunerError):
    """An error in a definition, an option or a file, raised before anything starts.

    Args:
        message: the error, with the bad value and the allowed ones.
        path: the file, or the name of the option.
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
    """Replace ``option`` as the location of a `DefinitionError` by the user's own ``path``.

    Raises:
        DefinitionError: the error from the block, located at ``path`` instead of ``option``.
    """
    try:
        yield
    except DefinitionError as error:
        if error.path != option:
            raise
        raise DefinitionError(error.message, path=path, line=error.line) from error


class HostError(TunerError):
    """A failure of a host or its server that the configuration did not cause."""

    exit_code = 3


class UnreachableError(HostError):
    """A remote host that does not answer; a later attempt may succeed."""


class LeaseLostError(HostError):
    """A worker's block that another worker ended, because the first was silent too long."""


class ChangedServerError(TunerError):
    """A server runs other files than in the study's earlier blocks, as after an upgrade.

    Not a `HostError`, since repeating the block cannot help.

    Args:
        paths: the files that differ.
    """

    exit_code = 3

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(
            f"{' and '.join(paths)} {'has' if len(paths) == 1 else 'have'} changed since the study"
            " began, so its blocks so far cannot be compared with later ones; begin a new study, or"
            " restore the former version and resume this one"
        )


class InstrumentError(TunerError):
    """A load generator that is missing, dies, or breaks its protocol."""

    exit_code = 3


class StoreError(TunerError):
    """A study record that is missing, locked, damaged, or of another schema."""

    exit_code = 3


class NameTakenError(StoreError):
    """A new record under a name that the storage has already."""


class UnbegunError(StoreError):
    """A study record with an incomplete start: its command was interrupted there."""


class ClaimedError(StoreError):
    """A piece of work that another worker began first; the caller chooses another one."""


class Interrupted(TunerError):  # noqa: N818 - not an error of anything
    """A run that the user stopped; everything measured so far is kept."""

    exit_code = 130
