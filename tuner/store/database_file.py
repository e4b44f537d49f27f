"""A record's SQLite file, checked before use and opened safely.

A file may come from anywhere, and SQLite runs triggers, views and expressions of its schema
(https://www.sqlite.org/security.html). Commands that only read a record open the file read-only, so
that nothing is created, upgraded or rolled back in it.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

from tuner.record.check import reading, values_in

MOST_BYTES = 1 << 30
"""Size limit of a file; 24 hours of windows need a third of it."""
MOST_VALUES = 20_000_000
"""Limit for JSON values in a file, each of some 100 bytes of memory; 24 hours of windows have half
as many."""
_LONGEST_VALUE = 64 << 20
_MAGIC = b"SQLite format 3\0"
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
_PATIENCE_S = 10.0
_HARMLESS = re.compile(r'CREATE (?:TABLE|(?:UNIQUE )?INDEX) [\w\s,"()]*')
_CHECK_OF_OPTUNA = "CHECK (version_info_id=1)"
_EXPRESSIONS = re.compile(r"\b(?:AS|CHECK|DEFAULT|GENERATED|WHERE|VIRTUAL)\b", re.IGNORECASE)
_JSON = ("study_user_attributes", "trial_user_attributes")


def check_file(path: Path, *, writing: bool) -> None:
    """Check that a file is a complete record of a readable size.

    Args:
        path: path of the file.
        writing: whether to roll back a killed process's unfinished write first.

    Raises:
        StoreError: the check fails; the message names the file and the reason.
    """
    with reading(str(path)):
        _check_header(path)
        if writing and _journal(path):
            _roll_back(path)
        with contextlib.closing(connect(path, writing=False)) as connection:
            _check_schema(connection)
            _check_content(connection)


@contextlib.contextmanager
def settled(path: Path) -> Iterator[Path]:
    """Yield a file to read: a copy if a killed process left an unfinished write.

    A rollback is a write, so the next writing command does it in the file itself.
    """
    with reading(str(path)):
        # This check comes before any rollback from a journal.
        _check_header(path)
        whole = not _needs_rollback(path)
    if whole:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="tuner-record-") as folder:
        copy = Path(folder) / path.name
        for name in (path, _journal_of(path)):
            shutil.copyfile(name, copy.with_name(name.name))
        with reading(str(path)):
            _roll_back(copy)
        yield copy


def connect(path: Path, *, writing: bool) -> sqlite3.Connection:
    """Open a file with an untrusted schema and a limit for the size of values."""
    mode = "rw" if writing else "ro"
    connection = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode={mode}",
        uri=True,
        timeout=_PATIENCE_S,
        check_same_thread=False,
    )
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    # A commit removes the journal, which a power failure undoes unless the folder is synchronised
    # too. The default loses the last window (https://www.sqlite.org/pragma.html#pragma_synchronous).
    for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "mmap_size=0", "synchronous=EXTRA"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def connector(path: Path, *, writing: bool) -> Callable[[], sqlite3.Connection]:
    """Return a function that opens the file for each connection of a pool."""
    return lambda: connect(path, writing=writing)


def _check_header(path: Path) -> None:
    if not path.is_file():
        raise ValueError("the file does not exist")
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES >> 20} MiB, which no record is")
    with path.open("rb") as file:
        head = file.read(100)
    if len(head) < 100 or not head.startswith(_MAGIC):
        raise ValueError("it is not an SQLite database")
    if head[18:20] != b"\x01\x01":
        raise ValueError("it keeps a write-ahead log, which no record does")
    journal = _journal(path)
    if journal.endswith(_JOURNAL_MAGIC):
        # SQLite would delete the file that such a journal names.
        raise ValueError("its journal names another file, which no record's does")


def _check_schema(connection: sqlite3.Connection) -> None:
    for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_master"):
        text = str(sql or "").replace(_CHECK_OF_OPTUNA, "")
        plain = sql is None or (_HARMLESS.fullmatch(text) and not _EXPRESSIONS.search(text))
        if kind not in {"table", "index"} or not plain:
            raise ValueError(f"it holds {ascii(kind)[:40]} {ascii(name)[:60]}, which no record has")
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise ValueError(f"it is damaged: {found}")


def _check_content(connection: sqlite3.Connection) -> None:
    # In SQL this count of a long record takes longer than reading it.
    connection.create_function("values_in", 1, values_in, deterministic=True)
    total = 0
    for table in _JSON:
        statement = f"SELECT total(values_in(CAST(coalesce(value_json, '') AS TEXT))) FROM {table}"  # noqa: S608 - ours
        total += connection.execute(statement).fetchone()[0]
    if total > MOST_VALUES:
        raise ValueError(f"it holds more than {MOST_VALUES:,} values, which no record does")


def _roll_back(path: Path) -> None:
    """Let SQLite roll back an unfinished write, which it does before it reads."""
    with contextlib.closing(connect(path, writing=True)) as connection:
        _read(connection)


def _read(connection: sqlite3.Connection) -> None:
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()


def _journal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-journal")


def _journal(path: Path) -> bytes:
    """Return the end of the journal of an unfinished write; empty without one."""
    journal = _journal_of(path)
    try:
        with journal.open("rb") as file:
            if file.read(8) != _JOURNAL_MAGIC:
                return b""
            file.seek(-8, 2)
            return b"journal " + file.read()
    except FileNotFoundError:
        return b""


def _needs_rollback(path: Path) -> bool:
    """Return whether the file needs a rollback before it can be read."""
    if not _journal(path):
        return False
    try:
        with contextlib.closing(connect(path, writing=False)) as connection:
            _read(connection)
    except sqlite3.OperationalError as error:
        return error.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}
    return False
