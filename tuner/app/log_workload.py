"""Reading of access logs for a workload, and writing of files that only the owner can read."""

from __future__ import annotations

import collections
import contextlib
import gc
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tuner.app.log_files import log_lines, log_name
from tuner.errors import DefinitionError
from tuner.reading.access_log import LogReader
from tuner.reading.log_notation import LineFormat
from tuner.reading.log_tally import LogTally
from tuner.store.storage import Say

_MOST_BAD = 0.5


def read_logs(
    logs: Sequence[Path],
    *,
    written: LineFormat | None = None,
    config: Path | None = None,
    keep_query: bool = False,
    arrived: array[float] | None = None,
    say: Say | None = None,
) -> tuple[LogTally, tuple[str, ...]]:
    """Return the counted requests of access logs, and the names of the formats that were used.

    Args:
        logs: the files; ``-`` is standard input.
        written: the format of all lines; None: it is recognised.
        config: Nginx configuration; its formats are tried before the known ones.
        keep_query: whether to keep the values of query parameters.
        arrived: receives the times of arrival; None: they are not kept.
        say: shows a line of progress every few seconds; None for none.

    Raises:
        DefinitionError: a log cannot be read, or most of its lines are not requests.
    """
    tally = LogTally(keep_query=keep_query)
    used: dict[str, None] = {}
    for path in logs:
        reader = _reader(path, written, config)
        with _without_cycles():
            _read(tally, path, reader, arrived, say)
        if not tally.good or tally.bad > _MOST_BAD * (tally.good + tally.bad):
            raise _refused(tally, reader, path)
        used |= dict.fromkeys(reader.used)
    return tally, tuple(used)


def write_private(path: Path, lines: Iterable[str]) -> None:
    """Write a file that only its owner can read, because a log is personal data."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, 0o600)
        file.writelines(lines)


def _reader(path: Path, written: LineFormat | None, config: Path | None) -> LogReader:
    """Return the reader of one log."""
    if written is not None:
        return LogReader([written], only=True)
    if config is None:
        return LogReader()
    # Imported here, because the readers of configurations take time that most logs need not spend.
    from tuner.app.log_formats import configured_formats

    return LogReader(configured_formats(config, path))


@contextlib.contextmanager
def _without_cycles() -> Iterator[None]:
    """Look for no reference cycles meanwhile: a log's lines are many objects and no cycles."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _read(
    tally: LogTally, path: Path, reader: LogReader, arrived: array[float] | None, say: Say | None
) -> None:
    """Count the lines of a log; add the times of arrival if they are kept."""
    lines = log_lines(path, say)
    entries = tally.add(lines, log_name(path), reader)
    if arrived is None:
        collections.deque(entries, maxlen=0)
    else:
        arrived.extend(entry.unix_s for entry in entries)


def _refused(tally: LogTally, reader: LogReader, path: Path) -> DefinitionError:
    where = "; ".join(f"{file}:{line}: {wrong}" for file, line, wrong in tally.bad_lines)
    shown = f"\n{reader.refusal(tally.first_bad)}" if tally.first_bad else ""
    return DefinitionError(
        f"{tally.bad} of {tally.good + tally.bad} lines are not requests:"
        f" {where or 'no lines'}{shown}",
        path=log_name(path),
    )
