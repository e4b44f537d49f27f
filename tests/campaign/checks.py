"""The invariants of a case: one function that checks from outside, when all is over."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.campaign.cases import Case
from tests.campaign.command import MARK, Ended, identity
from tests.campaign.place import Place, pids_in, within
from tests.campaign.scenarios import Scenario
from tuner.errors import TunerError
from tuner.hosts import local
from tuner.hosts.host_locks import LOCK
from tuner.judge.results import StudyResult, evaluate
from tuner.record.model import Record
from tuner.store.listing import open_all
from tuner.store.store import sqlite_url

_LEAST_REPORT_BYTES = 10_000
_ENDING_S = 15.0
"""Time for processes to end after their command, such as those that heal a fault later."""
_OF_LABS = ("postgres:", "/usr/lib/postgresql", "/usr/local/pgsql")
"""Beginnings of the command lines of a lab's own processes."""
_PROXY = "\0-m\0tuner\0proxy\0"
_DOCUMENTED = frozenset({0, 1, 2, 3})


def broken(case: Case, place: Place, struck: Sequence[Ended], resumed: Ended) -> Iterator[str]:
    """Yield what does not hold after a case."""
    for name, ended in (*(("struck", ended) for ended in struck), ("resumed", resumed)):
        if "Traceback" in ended.err:
            yield f"{name}: a traceback: {_last(ended.err)}"
        if ended.took_s > ended.limit_s:
            yield f"{name}: took {ended.took_s:.0f} s"
        yield from ended.complaints
    # Near the command's end there may be nothing to strike any more, and its last crossings differ
    # from run to run: a cache that another command has filled is not filled again.
    always = case.fault.ready is None and not case.fault.by_the_clock
    reached = struck[0].crossings > case.strikes[0].crossing
    if always and reached and not struck[0].struck:
        yield "the fault did not strike"
    for strike, ended in zip(case.strikes, struck, strict=True):
        if ended.code not in _DOCUMENTED | strike.fault.code:
            yield f"exit code {ended.code}: {_last(ended.err)}"
        if ended.code > 0 and not ended.err.strip():
            yield f"exit code {ended.code} without a message"
    if resumed.code:
        yield f"cannot be resumed (exit code {resumed.code}): {_last(resumed.err)}"
    else:
        yield from _record_is_whole(case, place, struck, resumed)
    yield from _left(place, case.scenario)


def _record_is_whole(
    case: Case, place: Place, struck: Sequence[Ended], resumed: Ended
) -> Iterator[str]:
    study = study_of(place, case.scenario)
    try:
        records = records_of(place, case.scenario)
        results = [evaluate(record) for record in records]
    except TunerError as error:
        yield f"the record cannot be read: {error}"
        return
    there = [
        identity(record.name, block.number, window)
        for record in records
        for block in record.blocks
        for window in block.windows
    ]
    if len(set(there)) < len(there):
        yield "a window is in the record twice"
    reported: set[str] = set()
    for strike, ended in zip(case.strikes, struck, strict=True):
        reported |= {*ended.windows}
        if case.scenario.anew:
            # It begins anew each time.
            reported.clear()
        if strike.fault.name == "removed folder" and ended.struck:
            reported.clear()
    reported |= {*resumed.windows}
    if lost := reported - {*there}:
        yield f"{len(lost)} of {len(reported)} reported windows are lost"
    if case.scenario.judged:
        yield from _is_judged(case, study, results, resumed)


def _is_judged(
    case: Case, study: Path, results: Sequence[StudyResult], resumed: Ended
) -> Iterator[str]:
    if any(result.record.ended_unix_s is None for result in results):
        yield "the study has no end"
    judged = any(result.contest is not None or result.verdict is not None for result in results)
    confirmable = any(_confirmable(result.record) for result in results)
    if not judged and confirmable and not _gave_up(case, results):
        yield "the study has no verdict"
    # What the command said is what the windows in the record give.
    if (
        case.scenario.says
        and len(results) == 1
        and _plain(results[0].sentence) not in _plain(resumed.out)
    ):
        yield f"the command did not say: {results[0].sentence}"
    report = study / "report.html"
    if not report.is_file() or report.stat().st_size < _LEAST_REPORT_BYTES:
        yield "the report is missing"


def _gave_up(case: Case, results: Sequence[StudyResult]) -> bool:
    """Return whether answers were wrong until the confirmation gave up, as its protocol says."""
    return any(strike.fault.name == "wrong answers" for strike in case.strikes) and any(
        result.status == "incomplete" and "wrong_length" in result.sentence for result in results
    )


def _confirmable(record: Record) -> bool:
    """Return whether a search found anything to confirm.

    On a busy machine, a stall at the end of a short window can be all that its only trial shows.
    """
    others = [trial for trial in record.trials if trial.origin != "baseline"]
    return not others or any(trial.state == "complete" for trial in others)


def _left(place: Place, scenario: Scenario) -> Iterator[str]:
    """Yield leftovers outside the study: claims, locks, temporary files, processes."""
    folder = place.folder
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        for claim in local.claims():
            yield f"left: the claim of {claim.study}"
    # The lock of a dead command is free; the file stays if the next one begins another study.
    last = study_of(place, scenario)
    locks = [last / LOCK] if scenario.anew else folder.glob(f"studies/*/{LOCK}")
    for path in (*(folder / "tmp").iterdir(), *(each for each in locks if each.exists())):
        yield f"left: {path.relative_to(folder)}"
    for study in folder.glob("studies/*"):
        if (lab := local.lab_folder(study)).exists():
            yield f"left: {lab}"
    for words in _processes(place):
        yield f"left: the process {words}"
    yield from place.changed()


def _processes(place: Place) -> list[str]:
    """Return the processes of a command that do not end, by their command lines."""
    deadline = time.monotonic() + _ENDING_S
    while True:
        found = {*_marked(place), *(pids_in(place.namespace) if place.namespace else ())}
        found = {pid for pid in found if not _is_of_lab(_read(pid, "cmdline"))}
        if not found or time.monotonic() > deadline:
            return [f"{pid} {_read(pid, 'cmdline').replace(chr(0), ' ')}" for pid in found]
        time.sleep(0.1)


def _is_of_lab(line: str) -> bool:
    return line.startswith(_OF_LABS) or _PROXY in line


def _marked(place: Place) -> Iterator[int]:
    mark = f"{MARK}={place.folder}\0"
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and mark in _read(int(path.name), "environ"):
            yield int(path.name)


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def study_of(place: Place, scenario: Scenario) -> Path:
    """Return the folder of a scenario's study: the last one, if each command begins another."""
    named = place.folder / scenario.study
    if not scenario.anew:
        return named
    begun = named.parent.glob(f"{named.name}*")
    return max(begun, key=lambda path: path.stat().st_ctime_ns, default=named)


def records_of(place: Place, scenario: Scenario) -> list[Record]:
    """Return the records of a scenario's study.

    Raises:
        StoreError: there is none, or one cannot be read.
    """
    with within(place.namespace) if place.storage else nullcontext():
        url = place.storage or sqlite_url(study_of(place, scenario))
        return [store.record() for store in open_all(url, writing=False)]


def is_begun(place: Place, scenario: Scenario) -> bool:
    """Return whether there is a study to resume."""
    try:
        return bool(records_of(place, scenario))
    except TunerError:
        return False


def _plain(text: str) -> str:
    return " ".join(text.split())


def _last(text: str) -> str:
    """Return the end of a message in one line."""
    return _plain(text)[-300:]
