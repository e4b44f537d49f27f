"""A record's SQLite file from elsewhere: refused if it could do harm, not changed by reading."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.phases.rig import NAME, rig
from tuner.errors import StoreError
from tuner.record.model import Record
from tuner.store import database_file
from tuner.store.listing import list_names
from tuner.store.store import Store, sqlite_url


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the record of a study."""
    folder = tmp_path_factory.mktemp("made")
    rig(storage=sqlite_url(folder), time_s=10.0, trials=1).run()
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copy(made / "record.db", tmp_path)
    return tmp_path


def read(folder: Path) -> Record:
    """Return the record, as a command reads it that changes nothing."""
    return Store.open(sqlite_url(folder), NAME, writing=False).record()


def run(folder: Path, *statements: str) -> None:
    """Change the file."""
    with closing(sqlite3.connect(folder / "record.db")) as connection, connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON trials BEGIN DELETE FROM trials; END",
        "CREATE VIEW v AS SELECT 1",
        "CREATE VIRTUAL TABLE f USING fts5(a)",
        "CREATE TABLE t (a, b AS (replace(a, 'a', a)))",
        "CREATE TABLE t (a CHECK (load_extension('evil')))",
        "CREATE INDEX i ON trials (number) WHERE length(number) > 1",
    ],
)
@pytest.mark.parametrize("writing", [False, True])
def test_a_schema_that_computes_is_refused(folder: Path, statement: str, writing: bool) -> None:
    """A file with triggers, views, virtual tables or expressions is refused and unchanged."""
    run(folder, statement)
    before = (folder / "record.db").read_bytes()
    with pytest.raises(StoreError, match="which no record has"):
        Store.open(sqlite_url(folder), NAME, writing=writing)
    with pytest.raises(StoreError, match="which no record has"):
        list_names(sqlite_url(folder))
    assert (folder / "record.db").read_bytes() == before


def test_a_commit_survives_a_power_failure(folder: Path) -> None:
    """SQLite also synchronises the folder, in which a commit removes its journal."""
    with closing(database_file.connect(folder / "record.db", writing=True)) as connection:
        (level,) = connection.execute("PRAGMA synchronous").fetchone()
    extra = 3
    assert level == extra


def test_reading_changes_nothing(folder: Path) -> None:
    """Neither the file, nor its folder, nor an older schema, which would need an upgrade."""
    read(folder)
    assert list_names(sqlite_url(folder)) == [NAME]
    run(folder, "UPDATE alembic_version SET version_num = 'v3.0.0.a'")
    before = (folder / "record.db").read_bytes()
    with pytest.raises(StoreError, match="cannot be opened"):
        read(folder)
    assert (folder / "record.db").read_bytes() == before
    assert [path.name for path in folder.iterdir()] == ["record.db"]


def test_a_record_in_a_folder_without_the_right_to_write_is_read(folder: Path) -> None:
    """A record is readable without the right to write its file or folder."""
    (folder / "record.db").chmod(0o444)
    folder.chmod(0o555)
    assert read(folder).name == NAME
    folder.chmod(0o755)


def test_what_is_not_there_is_not_made(tmp_path: Path) -> None:
    """A slip in a path makes no empty database."""
    with pytest.raises(StoreError, match="does not exist"):
        read(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda path: path.write_bytes(b"nothing of the kind" * 100), "not an SQLite database"),
        (lambda path: path.write_bytes(path.read_bytes()[:100_000]), "damaged|malformed"),
        (lambda path: os.truncate(path, (1 << 30) + 1), "larger than 1024 MiB"),
        (
            lambda path: path.write_bytes(
                path.read_bytes()[:18] + b"\x02\x02" + path.read_bytes()[20:]
            ),
            "write-ahead log",
        ),
        (
            lambda path: path.with_name("record.db-journal").write_bytes(
                bytes.fromhex("d9d505f920a163d7") + bytes(100) + bytes.fromhex("d9d505f920a163d7")
            ),
            "names another file",
        ),
    ],
)
def test_a_file_that_is_no_record_is_refused(
    folder: Path, change: Callable[[Path], object], words: str
) -> None:
    """By its path and the reason, in one line."""
    path = folder / "record.db"
    change(path)
    with pytest.raises(StoreError, match=words) as refused:
        read(folder)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_values_are_counted_before_they_are_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Millions of empty lists in a small file would take gigabytes."""
    monkeypatch.setattr(database_file, "MOST_VALUES", 1_000)
    with pytest.raises(StoreError, match="more than 1,000 values"):
        read(folder)


def test_values_in_bytes_are_counted_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite keeps text as bytes if it is given as such, and Python's JSON reads them."""
    monkeypatch.setattr(database_file, "MOST_VALUES", 100_000)
    read(folder)
    with closing(sqlite3.connect(folder / "record.db")) as connection, connection:
        connection.execute(
            "UPDATE trial_user_attributes SET value_json = ? WHERE trial_user_attribute_id = 1",
            (b"[" * 100_001,),
        )
    with pytest.raises(StoreError, match="more than 100,000 values"):
        read(folder)


_KILLED = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("PRAGMA cache_size=1")
connection.execute("UPDATE trial_user_attributes SET value_json = value_json || ' '")
os.kill(os.getpid(), 9)
"""


def test_a_write_that_was_cut_short_is_rolled_back_elsewhere(folder: Path) -> None:
    """Reading leaves a killed process's partial write as it is; opening the store rolls it back."""
    path, journal = folder / "record.db", folder / "record.db-journal"
    whole = read(folder)
    subprocess.run([sys.executable, "-c", _KILLED, str(path)], check=False)
    left = path.read_bytes(), journal.read_bytes()
    assert left[1]
    assert read(folder) == whole
    assert (path.read_bytes(), journal.read_bytes()) == left
    assert Store.open(sqlite_url(folder), NAME).record() == whole
    assert not journal.exists()
