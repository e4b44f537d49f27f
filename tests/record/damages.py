"""Damaged records by the thousand: each is refused by one line, or gives a report.

``make fuzz`` runs ``python -m tests.record.damages --inputs 2000``; ``make test`` runs 25 of each
kind. A failure names its kind and number, and ``--kind KIND --first NUMBER --inputs 1`` repeats it.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from tests.phases.rig import NAME, rig
from tuner.errors import StoreError
from tuner.judge.results import evaluate
from tuner.record.check import reading
from tuner.record.file import read_record, write_record
from tuner.record.model import Record
from tuner.report.data import results_data
from tuner.report.html import render_html
from tuner.report.markdown import render_markdown
from tuner.report.text import result_lines
from tuner.store.store import Store, sqlite_url
from tuner.testing.sample_record import sample_record

MOST_CPU_S = 2.0
MOST_MEMORY_MIB = 300
_STUCK_S = 20
_PICTURES = 200
"""One report in this number has pictures."""
_CONTEST = Path(__file__).resolve().parents[2] / "studies/results/http3-page/record.json.gz"
_PAGE = 4096
_DEEP = "[" * 3_000 + "]" * 3_000
_ODD: tuple[str, ...] = (
    *("null", "true", "0", "-1", "1e300", "-1e300", "NaN", "Infinity", "1" + "0" * 400, "1.5"),
    *(
        '""',
        '"x"',
        json.dumps("x" * 5_000),
        '"../../../etc/passwd"',
        '"/etc/passwd"',
        '"a\\u0000b"',
    ),
    *('"\\u001b[31m"', '"\\ud800"', "[]", "{}", "[[]]", '{"a": 1}', "[1, 2, 3]", _DEEP),
)
"""JSON that stands where another value stood."""


class Stuck(BaseException):
    """An input took far too long."""


@dataclass
class Base:
    """The input to damage."""

    texts: tuple[bytes, ...]
    """JSON of a study and of a contest."""
    database: bytes


@dataclass
class Outcome:
    """The outcome of the inputs of one kind."""

    refused: int = 0
    reported: int = 0
    other: int = 0
    """Reports whose verdict is another than the undamaged record's."""
    failures: list[str] = field(default_factory=list)
    most_cpu_s: float = 0.0
    most_memory_mib: float = 0.0


def make_base(folder: Path) -> Base:
    """Make a study's record as a file and as a database, and a contest's as a file."""
    write_record(sample_record("better", trials=6), folder / "study.json.gz")
    made = rig(storage=sqlite_url(folder), time_s=10.0, trials=1)
    made.run()
    texts = [gzip.decompress(p.read_bytes()) for p in (folder / "study.json.gz", _CONTEST)]
    return Base(tuple(texts), (folder / "record.db").read_bytes())


# --- the damages ------------------------------------------------------------------------------


def _truncated(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def _flipped(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _mutated(value: Any, rng: random.Random) -> str:
    """JSON text of the value with one of its parts replaced, removed, renamed or doubled."""
    places: list[tuple[Any, Any]] = []
    todo = [value]
    while todo:
        inner = todo.pop()
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        places += [(inner, key) for key in keys]
        todo += [inner[key] for key in keys if isinstance(inner[key], dict | list)]
    if not places:
        return rng.choice(_ODD)
    # Near the top as often as in the leaves, of which there are thousands.
    inner, key = places[min(int(rng.paretovariate(0.3)), len(places)) - 1]
    deed = rng.choice(("replace", "replace", "replace", "remove", "rename", "double"))
    if deed == "remove":
        del inner[key]
    elif deed == "rename" and isinstance(inner, dict):
        inner[rng.choice(("", "x" * 5_000, "../x", "a\x00b"))] = inner.pop(key)
    elif deed == "double" and isinstance(inner, list):
        inner.insert(key, inner[key])
    else:
        inner[key] = "\x01odd\x01"
    return json.dumps(value).replace('"\\u0001odd\\u0001"', rng.choice(_ODD))


def _other_types(content: bytes, rng: random.Random) -> bytes:
    return _mutated(json.loads(content), rng).encode()


def _garbled(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    start = rng.randrange(len(changed) // _PAGE) * _PAGE + rng.choice((0, 0, rng.randrange(_PAGE)))
    length = rng.choice((1, 8, 100, _PAGE))
    other = rng.randrange(len(changed) // _PAGE) * _PAGE
    filler = rng.choice((rng.randbytes(length), bytes(length), changed[other : other + length]))
    changed[start : start + length] = filler[: len(changed) - start]
    return bytes(changed)


def _other_rows(path: Path, rng: random.Random) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        tables = ("studies", "trials", "trial_user_attributes", "study_user_attributes")
        table = rng.choice((*tables, "study_user_attributes", "trial_values", "version_info"))
        rows = connection.execute(f"SELECT rowid FROM {table}").fetchall()  # noqa: S608 - ours
        (row,) = rng.choice(rows)
        if rng.random() < 0.1:
            connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (row,))  # noqa: S608
            return
        names = [found[1] for found in connection.execute(f"PRAGMA table_info({table})")]
        column = "value_json" if "value_json" in names else rng.choice(names)
        if column == "value_json" and rng.random() < 0.8:
            (text,) = connection.execute(
                f"SELECT value_json FROM {table} WHERE rowid = ?",  # noqa: S608
                (row,),
            ).fetchone()
            found = json.loads(text)
            value: Any = (
                _mutated(found, rng) if isinstance(found, dict | list) else rng.choice(_ODD)
            )
        else:
            value = rng.choice((None, "", "x" * 5_000, -1, 2**62, 1e300, b"\xff\xfe", "../x"))
        with contextlib.suppress(sqlite3.IntegrityError):
            connection.execute(
                f"UPDATE OR REPLACE {table} SET {column} = ? WHERE rowid = ?",  # noqa: S608
                (value, row),
            )


def _file(change: Callable[[bytes, random.Random], bytes], *, packed: bool) -> Callable[..., Path]:
    def make(base: Base, folder: Path, rng: random.Random) -> Path:
        text = rng.choice(base.texts)
        content = change(gzip.compress(text, 6, mtime=0) if packed else text, rng)
        path = folder / ("record.json.gz" if packed else "record.json")
        path.write_bytes(content)
        return path

    return make


def _database(change: Callable[[bytes, random.Random], bytes]) -> Callable[..., Path]:
    def make(base: Base, folder: Path, rng: random.Random) -> Path:
        path = folder / "record.db"
        path.write_bytes(change(base.database, rng))
        return path

    return make


def _rows(base: Base, folder: Path, rng: random.Random) -> Path:
    path = folder / "record.db"
    path.write_bytes(base.database)
    _other_rows(path, rng)
    return path


KINDS: dict[str, Callable[[Base, Path, random.Random], Path]] = {
    "json-truncated": _file(_truncated, packed=False),
    "json-flipped": _file(_flipped, packed=False),
    "json-types": _file(_other_types, packed=False),
    "gzip-flipped": _file(_flipped, packed=True),
    "db-truncated": _database(_truncated),
    "db-flipped": _database(_flipped),
    "db-pages": _database(_garbled),
    "db-types": _rows,
}


# --- what is done with each -------------------------------------------------------------------


def read(path: Path) -> Record:
    """Read a record as ``tuner report`` does."""
    if path.suffix == ".db":
        return Store.open(sqlite_url(path.parent), NAME, writing=False).record()
    return read_record(path)


def report(record: Record, *, pictures: bool) -> str:
    """Make every form of the report, as ``tuner report`` does; the verdict.

    Pictures are made by a process of their own, which takes a second.
    """
    study = evaluate(record)
    with reading("the report"):
        json.dumps(results_data([study], Path()))
        render_markdown(study), result_lines(study)
        if pictures:
            render_html(study)
    if study.contest is not None:
        return f"{len(study.contest.compared)} comparisons"
    return study.sentence


def look(base: Base, kind: str, number: int, verdicts: set[str], found: Outcome) -> None:
    """Make one damaged record, and see what becomes of it."""
    rng = random.Random(f"{kind} {number}")
    with tempfile.TemporaryDirectory(prefix="tuner-damaged-") as folder:
        path = KINDS[kind](base, Path(folder), rng)
        before = path.read_bytes()
        _forget_peak()
        started = time.process_time()
        problem = verdict = ""
        refused = False
        try:
            with _unless_stuck():
                verdict = report(read(path), pictures=number % _PICTURES == 0)
        except KeyboardInterrupt:
            raise
        except StoreError as error:
            refused = True
            words = str(error)
            if not words.isprintable() or len(words) > 800:
                problem = f"no single line: {words[:200]!r}"
        except (Exception, Stuck):  # noqa: BLE001 - that is what is looked for
            problem = traceback.format_exc()
        cpu_s, memory_mib = time.process_time() - started, _peak_mib()
        if cpu_s > MOST_CPU_S or memory_mib > MOST_MEMORY_MIB:
            problem = f"{cpu_s:.1f} s of CPU, {memory_mib:.0f} MiB; {problem}"
        if path.read_bytes() != before or {p.name for p in Path(folder).iterdir()} != {path.name}:
            problem = f"reading changed the record; {problem}"
        found.most_cpu_s = max(found.most_cpu_s, cpu_s)
        found.most_memory_mib = max(found.most_memory_mib, memory_mib)
        if problem:
            found.failures.append(f"{kind} {number}: {problem}")
        elif refused:
            found.refused += 1
        else:
            found.reported += 1
            found.other += verdict not in verdicts


@contextlib.contextmanager
def _unless_stuck() -> Iterator[None]:
    def stuck(_number: int, _frame: FrameType | None) -> None:
        raise Stuck

    kept = signal.signal(signal.SIGVTALRM, stuck)
    signal.setitimer(signal.ITIMER_VIRTUAL, _STUCK_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, kept)


def _forget_peak() -> None:
    """Let the kernel count the most resident memory anew (proc(5), clear_refs)."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak_mib() -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> None:
    """Damage records of the kinds and in the number that are asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=2_000, help="of each kind [2000]")
    parser.add_argument("--kind", choices=KINDS, action="append", help="[all]")
    parser.add_argument("--first", type=int, default=0, help="number of the first input [0]")
    asked = parser.parse_args()
    # What takes far too much fails, instead of taking the machine with it.
    resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30))
    warnings.simplefilter("ignore")
    os.environ["OMP_NUM_THREADS"] = "1"
    folder = Path(tempfile.mkdtemp(prefix="tuner-damages-"))
    found = {kind: Outcome() for kind in asked.kind or KINDS}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        base = make_base(folder)
        originals = [folder / "study.json.gz", _CONTEST, folder / "record.db"]
        verdicts = {report(read(path), pictures=True) for path in originals}
        for number in range(asked.first, asked.first + asked.inputs):
            for kind, outcome in found.items():
                look(base, kind, number, verdicts, outcome)
    except KeyboardInterrupt:
        pass
    finally:
        shutil.rmtree(folder)
        for kind, outcome in found.items():
            print(_line(kind, outcome), *outcome.failures[:20], sep="\n  ")  # noqa: T201
    sys.exit(1 if any(outcome.failures for outcome in found.values()) else 0)


def _line(kind: str, found: Outcome) -> str:
    return (
        f"{kind:<15} {found.refused + found.reported + len(found.failures)} inputs:"
        f" {found.refused} refused, {found.reported} reported ({found.other} of them with another"
        f" verdict), {len(found.failures)} failed; at most {found.most_cpu_s:.2f} s of CPU and"
        f" {found.most_memory_mib:.0f} MiB"
    )


if __name__ == "__main__":
    main()
