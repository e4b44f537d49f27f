"""Outcomes of the studies in a folder, kept so that the next command need not open each record.

A record takes a fifth of a second to open and judge. Its outcome is kept in the user's own state
folder, because a folder of studies may come from somebody else. It holds as long as the record's
file and tuner's code are the same.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from tuner.errors import TunerError
from tuner.judge.kinds import kind_of
from tuner.judge.results import evaluate
from tuner.paths import RECORD, recorded_studies, replace_file, state_dir
from tuner.record.check import reading
from tuner.store.listing import list_names
from tuner.store.store import Store, sqlite_url
from tuner.words.terminal import duration

UNREADABLE = "unreadable"
"""Status of a record that cannot be read; its sentence is the reason."""

_SETTLED_S = 2.0
"""Age of a file's last change from which its time of change is proof; clocks of file systems are
coarse (git's "racy" problem)."""
_EVERY_S = 2.0
"""Time between two lines of progress."""

State: TypeAlias = tuple[int, ...]
"""Device, inode, size and times of change of a record's files."""


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of one study."""

    name: str
    kind: str
    status: str
    sentence: str


class _Kept(msgspec.Struct, frozen=True):
    """The outcomes of a folder's records, by the name of each record's folder."""

    code: State
    records: dict[str, tuple[State, tuple[Outcome, ...]]]


def outcomes(studies: Path, progress: Callable[[str], None]) -> list[Outcome]:
    """Return the outcomes of all studies in a folder, in the order of their folders' names.

    An unreadable record is an outcome too.

    Args:
        studies: folder of the studies' folders.
        progress: function that shows a line of progress every few seconds.
    """
    kept = _read(studies)
    folders = recorded_studies(studies)
    now = {folder.name: _state(folder) for folder in folders}
    known = {name: entry for name, entry in kept.items() if entry[0] == now.get(name)}
    unknown = [folder for folder in folders if folder.name not in known]
    for folder in _watched(unknown, progress):
        known[folder.name] = (now[folder.name], tuple(_outcomes(folder)))
    if unknown or known.keys() != kept.keys():
        _write(studies, {name: entry for name, entry in known.items() if _is_kept(*entry)})
    return [outcome for folder in folders for outcome in known[folder.name][1]]


def _outcomes(folder: Path) -> Iterator[Outcome]:
    url = sqlite_url(folder)
    try:
        names = list_names(url)
    except TunerError as error:
        yield Outcome(folder.name, "unknown", UNREADABLE, str(error))
        return
    for name in names:
        try:
            record = Store.open(url, name, writing=False).record()
            with reading(f"the record of {name!r}"):
                study = evaluate(record)
                yield Outcome(name, kind_of(record), study.status, study.sentence)
        except TunerError as error:
            yield Outcome(name, "unknown", UNREADABLE, str(error))


def _watched(folders: list[Path], progress: Callable[[str], None]) -> Iterator[Path]:
    """Yield the folders, and show the progress of a long list every few seconds."""
    begun = shown = time.monotonic()
    for number, folder in enumerate(folders):
        now = time.monotonic()
        if number and now - shown >= _EVERY_S:
            shown = now
            left_s = (now - begun) / number * (len(folders) - number)
            progress(f"record {number} of {len(folders)}, {duration(left_s)} left")
        yield folder


def _is_kept(state: State, found: tuple[Outcome, ...]) -> bool:
    """Return True if the record was at rest, and could be read: a failure may be the machine's."""
    changed_ns = max(state[3::5], default=0)
    at_rest = time.time_ns() - changed_ns > _SETTLED_S * 1e9
    return at_rest and all(outcome.status != UNREADABLE for outcome in found)


def _state(folder: Path) -> State:
    """Return the state of a record's file, and of its journal if there is one."""
    found: State = ()
    for name in (RECORD, f"{RECORD}-wal", f"{RECORD}-journal"):
        with contextlib.suppress(OSError):
            seen = (folder / name).stat()
            found += (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
    return found


@functools.cache
def _code() -> State:
    """Return the state of tuner's modules, by which outcomes of another version are dropped."""
    package = Path(__file__).parents[1]
    changed = [path.stat().st_mtime_ns for path in package.rglob("*.py")]
    return (len(changed), max(changed))


def _place(studies: Path) -> Path:
    name = hashlib.sha256(os.fsencode(studies.resolve())).hexdigest()[:16]
    return state_dir() / "outcomes" / f"{name}.json"


def _read(studies: Path) -> dict[str, tuple[State, tuple[Outcome, ...]]]:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        kept = msgspec.json.decode(_place(studies).read_bytes(), type=_Kept)
        if kept.code == _code():
            return kept.records
    return {}


def _write(studies: Path, records: dict[str, tuple[State, tuple[Outcome, ...]]]) -> None:
    """Keep the outcomes, where the user's state folder allows it."""
    place = _place(studies)
    with contextlib.suppress(OSError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(place, msgspec.json.encode(_Kept(_code(), records)))
