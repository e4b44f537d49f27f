"""One case of the campaign: a command, a fault at one of its crossings, a resumption, the checks.

In a third of the cases, a second fault strikes the resumption, which is then resumed in its turn.

``broken`` is the one function that checks, from outside and afterwards.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.campaign.scenarios import (
    PATIENCE_S,
    SCENARIOS,
    Ended,
    Note,
    Scenario,
    identity,
    no_fault,
    run,
)
from tuner.errors import TunerError
from tuner.hosts import local
from tuner.hosts.host_locks import LOCK
from tuner.judge.results import evaluate
from tuner.record.model import Record
from tuner.store.store import open_all, sqlite_url
from tuner.testing.faults import FAULTS, Crossings, Fault, FaultTarget

_DISK = "size=24m,mode=755"
_LEAST_REPORT_BYTES = 10_000
_TWO_SHARE = 1 / 3
"""Share of cases with a second fault."""
NEEDS_ROOT = frozenset({"full disk", "read-only disk"})
"""Faults of a file system, which only root mounts."""


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault at one of the crossings."""

    fault: Fault
    crossing: int
    share: float
    """A number from [0, 1) for what else is drawn."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a campaign; all of it follows from the seed and the number."""

    number: int
    scenario: Scenario
    strikes: tuple[Strike, ...]
    """The first strikes the command, each other one its resumption."""

    @property
    def fault(self) -> Fault:
        """The first fault."""
        return self.strikes[0].fault

    @property
    def words(self) -> str:
        """Description in one line."""
        struck = ", then ".join(f"{each.fault.name} at {each.crossing}" for each in self.strikes)
        return f"{self.number}: {self.scenario.name}, {struck}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A case with what was found."""

    case: Case
    struck: tuple[Ended, ...]
    """The ends of the commands that were struck."""
    resumed: Ended
    """The end of the last resumption, which nothing strikes."""
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
        faults = [usable[number % len(usable)]]
        if draw.random() < _TWO_SHARE:
            faults.append(draw.choice(usable))
        # Nothing can add to a study that was removed.
        removed = any(fault.name == "removed folder" for fault in faults)
        scenario = draw.choice([s for s in SCENARIOS if not (s.extends and removed)])
        strikes = (
            Strike(fault, draw.randrange(known[scenario.name]), draw.random()) for fault in faults
        )
        yield Case(number, scenario, tuple(strikes))


class Campaign:
    """Plays cases, each in a folder of its own.

    Args:
        kept: folder for what commands need that come after another one.
    """

    def __init__(self, kept: Path) -> None:
        self._kept = kept

    def lengths(self) -> dict[str, int]:
        """Return the number of crossings of each scenario without a fault.

        Raises:
            RuntimeError: one fails even so.
        """
        return {scenario.name: self._whole(scenario).crossings for scenario in SCENARIOS}

    def play(self, case: Case) -> Outcome:
        """Run a case to its end."""
        with self._place(case.scenario) as (folder, earlier_s):
            scenario, study = case.scenario, folder / case.scenario.study
            line, now_s, struck = scenario.begin, earlier_s, list[Ended]()
            for strike in case.strikes:
                target = FaultTarget(folder, study, _again(scenario), strike.share)
                struck.append(run(line, folder, _striking(strike, target), now_s=now_s))
                strike.fault.heal(target)
                now_s = struck[-1].now_s
                line = scenario.resume if _is_begun(study) else scenario.begin
            resumed = run(line, folder, no_fault, now_s=now_s)
            wrong = tuple(broken(case, folder, struck, resumed))
        return Outcome(case, tuple(struck), resumed, wrong)

    def _whole(self, scenario: Scenario) -> Ended:
        """Run a scenario without a fault and keep its folder."""
        with self._place(scenario) as (folder, now_s):
            ended = run(scenario.begin, folder, no_fault, now_s=now_s)
            if ended.code:
                raise RuntimeError(f"{scenario.name} fails without a fault: {ended.err}")
            kept = self._kept / scenario.name
            if not kept.exists():
                shutil.copytree(folder, kept)
                (self._kept / f"{scenario.name}.now").write_text(str(ended.now_s))
        return ended

    @contextmanager
    def _place(self, scenario: Scenario) -> Iterator[tuple[Path, float]]:
        """Make a working folder for a scenario, with what it needs from an earlier one.

        Yields:
            The folder, and the least time on the simulated host, unix time.
        """
        with _place() as folder:
            if scenario.after is None:
                yield folder, 0.0
                return
            before = self._kept / scenario.after.name
            if not before.exists():
                self._whole(scenario.after)
            shutil.copytree(before, folder, dirs_exist_ok=True)
            yield folder, float((self._kept / f"{scenario.after.name}.now").read_text())


def _striking(strike: Strike, target: FaultTarget) -> Callable[[Note], Crossings]:
    """Return what makes the counter of a command that is struck."""

    def make(note: Note) -> Crossings:
        def now() -> None:
            note(struck=True)
            strike.fault.strike(replace(target, complain=lambda words: note(complaint=words)))

        return Crossings(strike.crossing, now)

    return make


def _again(scenario: Scenario) -> Sequence[str]:
    """Return the command line that resumes a scenario."""
    return (sys.executable, "-m", "tuner", *scenario.resume)


def broken(case: Case, folder: Path, struck: Sequence[Ended], resumed: Ended) -> Iterator[str]:
    """Yield what does not hold after a case."""
    for name, ended in (*(("struck", ended) for ended in struck), ("resumed", resumed)):
        if "Traceback" in ended.err:
            yield f"{name}: a traceback: {_last(ended.err)}"
        if ended.took_s > PATIENCE_S:
            yield f"{name}: took {ended.took_s:.0f} s"
        yield from ended.complaints
    # A resumption may have fewer crossings than the whole command.
    if not struck[0].struck:
        yield "the fault did not strike"
    for strike, ended in zip(case.strikes, struck, strict=True):
        if ended.code not in {0, 1, 2, 3} | strike.fault.code:
            yield f"exit code {ended.code}: {_last(ended.err)}"
        if ended.code > 0 and not ended.err.strip():
            yield f"exit code {ended.code} without a message"
    if resumed.code:
        yield f"cannot be resumed (exit code {resumed.code}): {_last(resumed.err)}"
        return
    yield from _record_is_whole(case, folder, struck, resumed)
    yield from _left(folder)


def _record_is_whole(
    case: Case, folder: Path, struck: Sequence[Ended], resumed: Ended
) -> Iterator[str]:
    study = folder / case.scenario.study
    try:
        records = _records(study)
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
        if strike.fault.name == "removed folder" and ended.struck:
            reported.clear()
    reported |= {*resumed.windows}
    if lost := reported - {*there}:
        yield f"{len(lost)} of {len(reported)} reported windows are lost"
    if any(record.ended_unix_s is None for record in records):
        yield "the study has no end"
    if all(result.contest is None and result.verdict is None for result in results):
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


def _records(study: Path) -> list[Record]:
    """Return the records of a study's folder.

    Raises:
        StoreError: there is none, or one cannot be read.
    """
    return [store.record() for store in open_all(sqlite_url(study), writing=False)]


def _is_begun(study: Path) -> bool:
    """Return whether there is a study to resume."""
    try:
        return bool(_records(study))
    except TunerError:
        return False


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
