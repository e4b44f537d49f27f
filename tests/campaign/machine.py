"""One case of the campaign: a command, a fault at one of its crossings, a resumption, the checks.

In a third of the cases, a second fault strikes the resumption, which is then resumed in its turn.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.campaign.cases import Case, Strike
from tests.campaign.checks import broken, is_begun
from tests.campaign.command import Ended, Note, no_fault, run, warm
from tests.campaign.labs import Labs
from tests.campaign.place import Place
from tests.campaign.scenarios import PROGRAM, SCENARIOS, Scenario
from tuner.testing.faults import Crossings, FaultTarget

_TRIES_MORE = {"here": 2, "hosts": 2}
"""Further attempts at a command that the host disturbed, where a lab has real windows."""


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
    tried_again: int = 0
    """Further attempts at the last resumption, because the host disturbed all of its windows."""


def is_spoilt(ended: Ended) -> bool:
    """Return whether a command ended because the host disturbed all of its windows.

    A real host may do that at any moment, without a fault of the campaign. A fault that was not
    healed disturbs the next attempts too.
    """
    return ended.code == 3 and "shows what disturbs this host" in ended.err


class Campaign:
    """Plays cases, each in a place of its own.

    Args:
        kept: folder for what commands need that come after another one.
        labs: what cases share.
    """

    def __init__(self, kept: Path, labs: Labs) -> None:
        self._kept = kept
        self._labs = labs

    def lengths(self, scenarios: Iterable[Scenario] = SCENARIOS) -> dict[str, int]:
        """Return the number of crossings of scenarios without a fault.

        Raises:
            RuntimeError: one fails even so.
        """
        return {scenario.name: self._whole(scenario).crossings for scenario in scenarios}

    def play(self, case: Case) -> Outcome:
        """Run a case to its end."""
        scenario = case.scenario
        with self._place(scenario) as (at, earlier_s):
            line, now_s, struck = scenario.begin, earlier_s, list[Ended]()
            for strike in case.strikes:
                target = target_of(case, at, strike)
                struck.append(
                    run(
                        line,
                        at,
                        scenario,
                        _striking(strike, target),
                        now_s=now_s,
                        held_up_s=strike.fault.holds_up_s,
                    )
                )
                strike.fault.heal(target)
                at.supervise()
                now_s = struck[-1].now_s
                line = scenario.resume if is_begun(at, scenario) else scenario.begin
            resumed = run(line, at, scenario, no_fault, now_s=now_s)
            undone = [s.fault.undo for s in case.strikes if s.fault.undo is not None]
            named = any(name in resumed.err for name in (*scenario.inputs, PROGRAM))
            if resumed.code and undone and named:
                for undo in undone:
                    undo(target_of(case, at, case.strikes[0]))
                resumed = run(line, at, scenario, no_fault, now_s=now_s)
            tried_again = 0
            while is_spoilt(resumed) and tried_again < _TRIES_MORE.get(scenario.lab, 0):
                resumed = run(line, at, scenario, no_fault, now_s=now_s)
                tried_again += 1
            wrong = tuple(broken(case, at, struck, resumed))
        return Outcome(case, tuple(struck), resumed, wrong, tried_again)

    def _whole(self, scenario: Scenario) -> Ended:
        """Run a scenario without a fault and keep its folder."""
        with self._place(scenario) as (at, now_s):
            ended = run(scenario.begin, at, scenario, no_fault, now_s=now_s)
            if ended.code:
                raise RuntimeError(f"{scenario.name} fails without a fault: {ended.err}")
            if scenario.undone:
                # Hosts are shared, and must be as they were for the next case.
                back = run(scenario.resume, at, scenario, no_fault, now_s=ended.now_s)
                if back.code:
                    raise RuntimeError(f"{scenario.name} is not undone: {back.err}")
            warm(ended)
            kept = self._kept / scenario.name
            if not kept.exists():
                shutil.copytree(at.folder, kept)
                (self._kept / f"{scenario.name}.now").write_text(str(ended.now_s))
        return ended

    @contextmanager
    def _place(self, scenario: Scenario) -> Iterator[tuple[Place, float]]:
        """Make a place for a scenario, with what it needs from an earlier one.

        Yields:
            The place, and the least time on the simulated host, unix time.
        """
        with self._labs.place(scenario) as at:
            for name, text in scenario.inputs.items():
                (at.folder / name).write_text(text)
            if "program" in scenario.offers:
                _make_program(at.folder / PROGRAM, scenario.program)
            now_s = 0.0
            if scenario.after is not None:
                before = self._kept / scenario.after.name
                if not before.exists():
                    self._whole(scenario.after)
                shutil.copytree(before, at.folder, dirs_exist_ok=True)
                now_s = float((self._kept / f"{scenario.after.name}.now").read_text())
            # What was there before the command is on the disk when its power is cut.
            subprocess.run(["sync", "--file-system", at.folder], check=True)
            yield at, now_s


def target_of(case: Case, at: Place, strike: Strike) -> FaultTarget:
    """Return what a fault is given of a case."""
    scenario = case.scenario
    return FaultTarget(
        at.folder,
        at.folder / scenario.study,
        (sys.executable, "-m", "tuner", *scenario.resume),
        (sys.executable, "-m", "tuner", *scenario.begin),
        strike.share,
        remount=at.remount,
        networks=at.networks,
        inputs=tuple(at.folder / name for name in scenario.inputs),
        program=at.folder / PROGRAM,
        names=at.names,
    )


def _make_program(path: Path, server: str) -> None:
    """Write a server's program: a copy of the real one, or a text for a simulated server."""
    if server:
        installed = shutil.which(server)
        assert installed is not None, server
        shutil.copy(installed, path)
    else:
        path.write_text("simulated")


def _striking(strike: Strike, target: FaultTarget) -> Callable[[Note], Crossings]:
    """Return what makes the counter of a command that is struck."""

    def make(note: Note) -> Crossings:
        def now() -> None:
            note(struck=True)
            strike.fault.strike(replace(target, complain=lambda words: note(complaint=words)))

        ready = strike.fault.ready
        return Crossings(strike.crossing, now, lambda: ready is None or ready(target))

    return make


def rows(outcomes: Sequence[Outcome]) -> list[tuple[str, str, int, int, int]]:
    """Return the table of a campaign: row, fault, cases, those it struck, and those that held."""
    found: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        fault = outcome.case.fault
        found.setdefault((fault.row, fault.name), []).append(outcome)
    return [
        (
            row,
            name,
            len(all_of),
            sum(each.struck[0].struck for each in all_of),
            sum(not each.broken for each in all_of),
        )
        for (row, name), all_of in sorted(found.items())
    ]
