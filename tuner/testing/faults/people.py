"""Actions of people while a command runs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tuner.hosts.host_locks import LOCK
from tuner.hosts.locks import cores_folder, holder_of
from tuner.paths import has_record
from tuner.testing.faults.fault import Fault, FaultTarget, later
from tuner.testing.faults.processes import ENDED

ROW = "people"
_REFUSED = frozenset({2, 3})
"""Exit codes of a refusal: nothing can be resumed yet, or another tuner runs."""
_BETWEEN_S = (0.0, 0.4)
"""Shortest and longest time between the two signals of a pair."""


def _twice(target: FaultTarget) -> None:
    """Interrupt, and again before or while the first is handled."""
    low, high = _BETWEEN_S
    later(low + target.share * (high - low), f"kill -INT {os.getpid()}")
    os.kill(os.getpid(), signal.SIGINT)


def _refused(
    target: FaultTarget, command: Sequence[str], folder: Path, *, may_run: bool = False
) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode not in _REFUSED and not (may_run and done.returncode == 0):
        said = done.stderr.decode(errors="replace")[-300:]
        target.complain(
            f"a second command was not refused, and ended with {done.returncode}: {said}"
        )


def _started_twice(target: FaultTarget) -> None:
    """Start the same command while this one runs; it must be refused.

    A command that has a record and released its lock, in its last steps, refuses no other.
    """
    is_locked = any(target.folder.rglob(LOCK))
    is_recorded = has_record(target.study)
    _refused(target, target.again, target.folder, may_run=is_recorded and not is_locked)


def _holds_cores(_: FaultTarget) -> bool:
    """Return whether this command has locked cores; the lock of a killed one still names it."""
    for path in Path(cores_folder()).glob("tuner-core-*.lock"):
        with path.open("rb") as lock:
            if holder_of(lock.fileno()).pid == os.getpid():
                return True
    return False


def _second_study(target: FaultTarget) -> None:
    """Start the study in another folder; it must be refused, because the cores are taken."""
    other = target.folder / "other"
    other.mkdir(exist_ok=True)
    for path in target.inputs:
        shutil.copy(path, other)
    _refused(target, target.begin, other)


def _edit(target: FaultTarget) -> None:
    """Change a figure in each file that the user gave to the command."""
    for path in target.inputs:
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("connections: 8", "connections: 9"), encoding="utf-8")


def _edit_back(target: FaultTarget) -> None:
    for path in target.inputs:
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("connections: 9", "connections: 8"), encoding="utf-8")


def _upgrade(target: FaultTarget) -> None:
    """Replace the server's program by another build, as the upgrade of a package does."""
    former = _former(target.program)
    if not former.exists():
        shutil.copy(target.program, former)
        # A power cut must not take away what undoes this.
        with former.open("rb") as copy:
            os.fsync(copy.fileno())
    # What follows an ELF file's last section changes nothing in how it runs.
    _replace(target.program, former.read_bytes() + b"another build")


def _downgrade(target: FaultTarget) -> None:
    former = _former(target.program)
    if former.exists():
        _replace(target.program, former.read_bytes())


def _former(program: Path) -> Path:
    return program.with_name(f"{program.name}.former")


def _replace(program: Path, content: bytes) -> None:
    """Give a program another content in a file of its own: the old one may be running."""
    new = program.with_name(f"{program.name}.new")
    new.write_bytes(content)
    shutil.copymode(program, new)
    new.replace(program)


FAULTS = (
    Fault("interrupt twice", ROW, _twice, code=ENDED | {-signal.SIGINT}, by_the_clock=True),
    Fault("started twice", ROW, _started_twice),
    Fault("second study", ROW, _second_study, needs=frozenset({"locks"}), ready=_holds_cores),
    Fault("edited file", ROW, _edit, needs=frozenset({"inputs"}), undo=_edit_back),
    Fault("upgraded server", ROW, _upgrade, needs=frozenset({"program"}), undo=_downgrade),
)
