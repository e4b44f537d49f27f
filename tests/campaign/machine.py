"""One case of the campaign: a command, a fault at one of its crossings, a resumption, the checks.

``broken`` is the one function that checks, from outside and afterwards.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.campaign.scenarios import SCENARIOS, STUDY, Ended, Note, Scenario, no_fault, run
from tuner.errors import TunerError
from tuner.hosts import local
from tuner.hosts.host_locks import LOCK
from tuner.judge.results import evaluate
from tuner.store.store import Store, sqlite_url
from tuner.testing.faults import FAULTS, Crossings, Fault, FaultTarget

_DISK = "size=24m,mode=755"
_LIMIT_S = 180.0
"""Time limit for a command, a hundred times what it takes without a fault."""
_LEAST_REPORT_BYTES = 10_000
NEEDS_ROOT = frozenset({"full disk", "read-only disk"})
"""Faults of a file system, which only root mounts."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a campaign; all of it follows from the seed and the number."""

    number: int
    scenario: Scenario
    fault: Fault
    crossing: int
    share: float

    @property
    def words(self) -> str:
        """Description in one line."""
        return f"{self.number}: {self.scenario.name}, {self.fault.name} at {self.crossing}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A case with what was found."""

    case: Case
    struck: Ended
    resumed: Ended
    broken: tuple[str, ...]
    """Invariants that do not hold, each in a sentence."""


def cases(count: int, seed: int, known: dict[str, int]) -> Iterator[Case]:
    """Yield the cases of a campaign: every fault in turn, scenario and crossing drawn.

    Args:
        count: number of cases.
        seed: of everything drawn.
        known: crossings of each scenario without a fault, from ``lengths``.
    """
    usable = [f for f in FAULTS.values() if os.geteuid() == 0 or f.name not in NEEDS_ROOT]
    for number in range(count):
        draw = random.Random(f"{seed}/{number}")
        scenario = draw.choice(SCENARIOS)
        at = draw.randrange(known[scenario.name])
        yield Case(number, scenario, usable[number % len(usable)], at, draw.random())


def lengths() -> dict[str, int]:
    """Return the number of crossings of each scenario without a fault.

    Raises:
        RuntimeError: one fails even so.
    """
    found = {}
    for scenario in SCENARIOS:
        with _place() as folder:
            ended = run(scenario.begin, folder, no_fault)
        if ended.code:
            raise RuntimeError(f"{scenario.name} fails without a fault: {ended.err}")
        found[scenario.name] = ended.crossings
    return found


def play(case: Case) -> Outcome:
    """Run a case to its end."""
    with _place() as folder:
        study = folder / STUDY

        def target(note: Note) -> FaultTarget:
            again = (sys.executable, "-m", "tuner", *case.scenario.resume)
            return FaultTarget(
                folder, study, again, case.share, lambda words: note(complaint=words)
            )

        def strikes(note: Note) -> Crossings:
            def strike() -> None:
                note(struck=True)
                case.fault.strike(target(note))

            return Crossings(case.crossing, strike)

        struck = run(case.scenario.begin, folder, strikes, patience_s=_LIMIT_S)
        case.fault.heal(target(_unheard))
        begun = _is_begun(study, case.scenario.record)
        line = case.scenario.resume if begun else case.scenario.begin
        resumed = run(line, folder, no_fault, now_s=struck.now_s, patience_s=_LIMIT_S)
        wrong = tuple(broken(case, folder, struck, resumed))
    return Outcome(case, struck, resumed, wrong)


def broken(case: Case, folder: Path, struck: Ended, resumed: Ended) -> Iterator[str]:
    """Yield what does not hold after a case."""
    for name, ended in (("struck", struck), ("resumed", resumed)):
        if "Traceback" in ended.err:
            yield f"{name}: a traceback: {_last(ended.err)}"
        if ended.took_s > _LIMIT_S:
            yield f"{name}: took {ended.took_s:.0f} s"
        yield from ended.complaints
    if not struck.struck:
        yield "the fault did not strike"
    if struck.code not in {0, 1, 2, 3} | case.fault.code:
        yield f"exit code {struck.code}: {_last(struck.err)}"
    if struck.code > 0 and not struck.err.strip():
        yield f"exit code {struck.code} without a message"
    if resumed.code:
        yield f"cannot be resumed (exit code {resumed.code}): {_last(resumed.err)}"
        return
    yield from _record_is_whole(case, folder, struck, resumed)
    yield from _left(folder)


def _record_is_whole(case: Case, folder: Path, struck: Ended, resumed: Ended) -> Iterator[str]:
    study = folder / STUDY
    try:
        record = Store.open(sqlite_url(study), case.scenario.record, writing=False).record()
        result = evaluate(record)
    except TunerError as error:
        yield f"the record cannot be read: {error}"
        return
    there = [
        (block.number, window.window_id) for block in record.blocks for window in block.windows
    ]
    if len(set(there)) < len(there):
        yield "a window is in the record twice"
    lost = {*struck.windows, *resumed.windows} - {*there}
    if case.fault.name == "removed folder":
        lost -= {*struck.windows}
    if lost:
        yield f"{len(lost)} of {len(struck.windows)} reported windows are lost"
    if record.ended_unix_s is None:
        yield "the study has no end"
    if result.contest is None and result.verdict is None:
        yield "the study has no verdict"
    report = study / "report.html"
    if not report.is_file() or report.stat().st_size < _LEAST_REPORT_BYTES:
        yield "there is no report"


def _left(folder: Path) -> Iterator[str]:
    """Yield what remains besides the study: claims, locks, temporary files, processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        for claim in local.claims():
            yield f"left: the claim of {claim.study}"
    for path in (*(folder / "tmp").iterdir(), *folder.glob(f"studies/*/{LOCK}")):
        yield f"left: {path.relative_to(folder)}"


def _is_begun(study: Path, name: str) -> bool:
    """Return whether there is a study to resume."""
    try:
        Store.open(sqlite_url(study), name, writing=False).record()
    except TunerError:
        return False
    return True


def _unheard(**_: object) -> None:
    """Take notes of a fault that is mended, which has none."""


def _last(text: str) -> str:
    """Return the end of a message in one line."""
    return " ".join(text.split())[-300:]


@contextmanager
def _place() -> Iterator[Path]:
    """Make a working folder; as root on a small file system of its own."""
    top = Path(tempfile.mkdtemp(prefix="tuner-campaign-"))
    folder = top / "here"
    folder.mkdir()
    mounts = os.geteuid() == 0
    if mounts:
        subprocess.run(["mount", "-t", "tmpfs", "-o", _DISK, "tuner", folder], check=True)
    (folder / "tmp").mkdir()
    try:
        yield folder
    finally:
        if mounts:
            subprocess.run(["umount", "--lazy", folder], check=True)
        shutil.rmtree(top, ignore_errors=True)


def rows(outcomes: Sequence[Outcome]) -> list[tuple[str, str, int, int]]:
    """Return the table of a campaign: row, fault, cases, and cases with something broken."""
    found: dict[tuple[str, str], list[bool]] = {}
    for outcome in outcomes:
        fault = outcome.case.fault
        found.setdefault((fault.row, fault.name), []).append(bool(outcome.broken))
    return [(row, name, len(bad), sum(bad)) for (row, name), bad in found.items()]
