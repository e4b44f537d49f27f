"""Commands of the campaign, on a simulated lab in a process of their own."""

from __future__ import annotations

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

from tests.cli.conftest import simulate
from tuner import cli
from tuner.measurement.window import Measurement
from tuner.store.store import Store
from tuner.testing.faults import Crossings
from tuner.testing.lab import SimulatedHost

Note = Callable[..., None]
"""Notes keys with values for the process that plays the case; it survives any end."""
PATIENCE_S = 180.0
"""Time limit for a command, a hundred times what it takes without a fault."""
_SHORT = ("--study", "static", "--time", "10s", "--rate", "600", "--quiet")
_RUN = ("run", "https-proxy-500")


@dataclass(frozen=True, slots=True)
class Scenario:
    """A command with the line that resumes it."""

    name: str
    begin: Sequence[str]
    resume: Sequence[str]
    after: Scenario | None = None
    """A command that must have ended in the folder before."""
    study: Path = Path("studies/mine")
    """Folder of the study that the command measures."""

    @property
    def extends(self) -> bool:
        """True if the command adds to a study that another one began."""
        return self.after is not None and self.after.study == self.study


_OPTIMIZE = Scenario(
    "optimize",
    ("optimize", *_SHORT, "--trials", "1", "--name", "mine"),
    ("optimize", "--resume", "--name", "mine", "--quiet"),
)
SCENARIOS = (
    _OPTIMIZE,
    Scenario(
        "compare",
        ("compare", "stock", "hand", *_SHORT, "--name", "mine"),
        ("compare", "stock", "hand", "--resume", "--name", "mine", "--quiet"),
    ),
    Scenario(
        "ladder",
        ("ladder", "nginx:stock", "nginx:hand", *_SHORT, "--name", "mine"),
        ("ladder", "nginx:stock", "nginx:hand", "--resume", "--name", "mine", "--quiet"),
    ),
    Scenario(
        "run",
        (*_RUN, "--server", "nginx", "--case", "20B", "--time", "30s", "--quiet", "--name", "mine"),
        (*_RUN, "--resume", "--name", "mine", "--quiet"),
    ),
    Scenario(
        "replicate",
        ("replicate", "mine", "--name", "again", "--time", "10s", "--quiet"),
        ("replicate", "mine", "--resume", "--name", "again", "--quiet"),
        after=_OPTIMIZE,
        study=Path("studies/again"),
    ),
    Scenario(
        "ablate",
        ("ablate", "mine", "--time", "10s", "--quiet"),
        ("ablate", "mine", "--time", "10s", "--quiet"),
        after=_OPTIMIZE,
    ),
)


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a process, with what it printed."""

    code: int
    """Exit code; minus the signal's number if one ended it."""
    out: str
    err: str
    took_s: float
    crossings: int
    windows: tuple[str, ...]
    """Identities of the windows that the command reported as kept."""
    complaints: tuple[str, ...]
    struck: bool
    """True if the fault struck."""
    now_s: float
    """Time on the simulated host at the last window."""


def run(
    arguments: Sequence[str],
    folder: Path,
    crossings: Callable[[Note], Crossings],
    *,
    now_s: float = 0.0,
) -> Ended:
    """Run a command in a fork of this process, in a folder.

    Args:
        arguments: those of ``tuner``.
        folder: working folder.
        crossings: makes the counter, given what to note with.
        now_s: least time on the simulated host at its begin, unix time.
    """
    notes = folder.parent / "notes.jsonl"
    notes.write_text("")
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = _command(arguments, folder, notes, crossings, now_s)
        finally:
            os._exit(code)
    while not (status := os.waitpid(pid, os.WNOHANG))[0]:
        if time.monotonic() - began > PATIENCE_S:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    lines = [json.loads(line) for line in notes.read_text().splitlines()]
    kept = [line["window"] for line in lines if "window" in line]
    return Ended(
        code=os.waitstatus_to_exitcode(status[1]),
        out=(folder.parent / "out").read_text(errors="replace"),
        err=(folder.parent / "err").read_text(errors="replace"),
        took_s=time.monotonic() - began,
        crossings=max((line["crossings"] for line in lines if "crossings" in line), default=0),
        windows=tuple(identity for identity, _ in kept),
        complaints=tuple(line["complaint"] for line in lines if "complaint" in line),
        struck=any("struck" in line for line in lines),
        now_s=max((now for _, now in kept), default=now_s),
    )


def _command(
    arguments: Sequence[str],
    folder: Path,
    notes: Path,
    crossings: Callable[[Note], Crossings],
    now_s: float,
) -> int:
    """Be the command: its exit code."""
    writer = os.open(notes, os.O_WRONLY | os.O_APPEND)

    def note(**what: object) -> None:
        os.write(writer, json.dumps(what).encode() + b"\n")

    os.chdir(folder)
    os.environ.update(XDG_STATE_HOME=str(folder / "state"), TMPDIR=str(folder / "tmp"))
    os.environ["TUNER_LOCKS"] = str(folder / "locks")
    patch = pytest.MonkeyPatch()
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(folder.parent / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        # In pytest's process, Python's own streams lead elsewhere.
        stream = open(number, "w", buffering=1, encoding="utf-8", closefd=False)  # noqa: SIM115
        patch.setattr(sys, f"std{name}", stream)
    host = simulate(patch)
    host.now_s = max(host.now_s, now_s + 60.0)
    _note_windows(patch, host, note)
    counter = crossings(note)
    sqlalchemy.event.listen(sqlalchemy.Engine, "commit", lambda _: counter.cross())
    counter.watch()
    patch.setattr(sys, "argv", ["tuner", *arguments])
    try:
        cli.main()
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 0
    finally:
        note(crossings=counter.count)
    raise AssertionError


def identity(record: str, block: int, window: Measurement) -> str:
    """Return what no other window of a study's folder has."""
    return f"{record}, block {block}, {window.window_id}"


def _note_windows(patch: pytest.MonkeyPatch, host: SimulatedHost, note: Note) -> None:
    add_window = Store.add_window

    def noted(store: Store, block: int, window: Measurement) -> None:
        add_window(store, block, window)
        note(window=[identity(store._search.study_name, block, window), host.now_s])

    patch.setattr(Store, "add_window", noted)


def no_fault(_: Note) -> Crossings:
    """Return a counter that strikes nowhere."""
    return Crossings(-1, lambda: None)
