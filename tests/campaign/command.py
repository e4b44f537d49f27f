"""One command of the campaign, in a fork of a process that has imported tuner already."""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy

from tests.campaign.brief import brief
from tests.campaign.place import Place
from tests.campaign.scenarios import PROGRAM, Scenario
from tests.cli.conftest import simulate
from tuner import cli
from tuner.cli import run as cli_run
from tuner.definition import study
from tuner.measurement.window import Measurement
from tuner.reading import located
from tuner.reading.inputs import read_input_text
from tuner.reading.located import Node
from tuner.store.store import Store
from tuner.testing.faults import Crossings

Note = Callable[..., None]
"""Notes keys with values for the process that plays the case; it survives any end."""
PATIENCE_S = {"simulated": 180.0, "database": 240.0, "here": 420.0, "hosts": 600.0}
"""Time limit for a command by its lab, many times what it takes without a fault."""
_TOP = Path(__file__).resolve().parents[2]
MARK = "TUNER_CAMPAIGN"
"""Environment variable of all that a command starts."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a process, with what it printed."""

    code: int
    """Exit code; minus the signal's number if one ended it."""
    out: str
    err: str
    took_s: float
    limit_s: float
    """Time limit for it, s."""
    crossings: int
    windows: tuple[str, ...]
    """Identities of the windows that the command reported as kept."""
    complaints: tuple[str, ...]
    struck: bool
    """True if the fault struck."""
    now_s: float
    """Time on the simulated host at the last window."""
    modules: tuple[str, ...] = ()
    """Modules that it imported, if it came to its end."""
    parsed: tuple[str, ...] = ()
    """Files that it parsed."""


_PARSED: dict[tuple[str, str], Node] = {}
"""Files of tuner's own that every command parses, by text and path; nodes are frozen."""
_PARTS = frozenset({"tuner", "optuna", "sqlalchemy", "alembic", "scipy", "jinja2"})


def warm(ended: Ended) -> None:
    """Import and parse all that a command needed, so that the following ones need not."""
    for name in ended.modules:
        if name.partition(".")[0] in _PARTS:
            importlib.import_module(name)
    for path in ended.parsed:
        if Path(path).is_relative_to(_TOP):
            text = read_input_text(Path(path))
            _PARSED.setdefault((text, path), located.parse_yaml(text, path))
    # The forks need not look at these objects again, nor copy their pages.
    gc.collect()
    gc.freeze()


def run(
    arguments: Sequence[str],
    place: Place,
    scenario: Scenario,
    crossings: Callable[[Note], Crossings],
    *,
    now_s: float = 0.0,
    held_up_s: float = 0.0,
) -> Ended:
    """Run a command in a fork of this process, in a place.

    Args:
        arguments: those of ``tuner``.
        place: its folder and network.
        scenario: the command's scenario.
        crossings: makes the counter, given what to note with.
        now_s: least time on the simulated host at its begin, unix time.
        held_up_s: time for which a fault may hold it up, s.
    """
    top = place.folder.parent
    notes = top / "notes.jsonl"
    notes.write_text("")
    limit_s = PATIENCE_S[scenario.lab] + held_up_s
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = _Command(place, scenario, crossings).main(arguments, now_s)
        finally:
            os._exit(code)
    while not (status := os.waitpid(pid, os.WNOHANG))[0]:
        if time.monotonic() - began > limit_s:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    lines = [json.loads(line) for line in notes.read_text().splitlines()]
    kept = [line["window"] for line in lines if "window" in line]
    return Ended(
        code=os.waitstatus_to_exitcode(status[1]),
        out=(top / "out").read_text(errors="replace"),
        err=(top / "err").read_text(errors="replace"),
        took_s=time.monotonic() - began,
        limit_s=limit_s,
        crossings=max((line["crossings"] for line in lines if "crossings" in line), default=0),
        windows=tuple(identity for identity, _ in kept),
        complaints=tuple(line["complaint"] for line in lines if "complaint" in line),
        struck=any("struck" in line for line in lines),
        now_s=max((now for _, now in kept), default=now_s),
        modules=tuple(name for line in lines for name in line.get("modules", ())),
        parsed=tuple(line["parsed"] for line in lines if "parsed" in line),
    )


class _Command:
    """The forked process."""

    def __init__(
        self, place: Place, scenario: Scenario, crossings: Callable[[Note], Crossings]
    ) -> None:
        self._place = place
        self._scenario = scenario
        self._crossings = crossings
        self._patch = pytest.MonkeyPatch()
        self._notes = os.open(place.folder.parent / "notes.jsonl", os.O_WRONLY | os.O_APPEND)

    def note(self, **what: object) -> None:
        """Implement ``Note``."""
        os.write(self._notes, json.dumps(what).encode() + b"\n")

    def main(self, arguments: Sequence[str], now_s: float) -> int:
        """Be the command: its exit code."""
        self._settle()
        self._measure(now_s)
        counter = self._crossings(self.note)
        sqlalchemy.event.listen(sqlalchemy.Engine, "commit", lambda _: counter.cross())
        counter.watch()
        words = [each.replace("{inventory}", self._place.inventory) for each in arguments]
        self._patch.setattr(sys, "argv", ["tuner", *words])
        try:
            cli.main()
        except SystemExit as done:
            if not done.code:
                self.note(modules=sorted(sys.modules))
            return done.code if isinstance(done.code, int) else 0
        finally:
            self.note(crossings=counter.count)
        raise AssertionError

    def _settle(self) -> None:
        """Take the place's folder, network, environment and streams."""
        folder = self._place.folder
        self._place.enter()
        os.chdir(folder)
        os.environ.update(XDG_STATE_HOME=str(folder / "state"), TMPDIR=str(folder / "tmp"))
        os.environ["TUNER_LOCKS"] = str(folder.parent / "locks")
        os.environ[MARK] = str(folder)
        if self._place.storage:
            os.environ["TUNER_STORAGE"] = self._place.gateway or self._place.storage
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(folder.parent / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            # In pytest's process, Python's own streams lead elsewhere.
            stream = open(number, "w", buffering=1, encoding="utf-8", closefd=False)  # noqa: SIM115
            self._patch.setattr(sys, f"std{name}", stream)

    def _measure(self, now_s: float) -> None:
        """Prepare the lab, and note windows when they are kept."""
        clock: Callable[[], float] = lambda: 0.0  # noqa: E731 - replaced below
        simulated = self._scenario.lab in {"simulated", "database"}
        for module in (study, cli_run):
            self._patch.setattr(module, "draw_seed", lambda: 1)
        if simulated:
            host = simulate(self._patch)
            host.now_s = max(host.now_s, now_s + 60.0)
            if "program" in self._scenario.offers:
                host.program = self._place.folder / PROGRAM
            clock = lambda: host.now_s  # noqa: E731
        brief(self._patch, charts=not simulated)
        self._patch.setattr(located, "parse_yaml", self._parsing(located.parse_yaml))
        add_window, note = Store.add_window, self.note

        def noted(store: Store, block: int, window: Measurement) -> None:
            add_window(store, block, window)
            note(window=[identity(store._search.study_name, block, window), clock()])

        self._patch.setattr(Store, "add_window", noted)

    def _parsing(self, parse: Callable[[str, str], Node]) -> Callable[[str, str], Node]:
        def parsed(text: str, path: str) -> Node:
            known = _PARSED.get((text, path))
            if known is None:
                known = parse(text, path)
                self.note(parsed=path)
            return known

        return parsed


def identity(record: str, block: int, window: Measurement) -> str:
    """Return what no other window of a study's folder has."""
    return f"{record}, block {block}, {window.window_id}"


def no_fault(_: Note) -> Crossings:
    """Return a counter that strikes nowhere."""
    return Crossings(-1, lambda: None)
