"""The turn of a command or a call: its locks, and the removal of leftovers."""

from __future__ import annotations

import os
from pathlib import Path

from tuner.app.caller import Caller
from tuner.app.premises import restore_stray
from tuner.app.writing import writing_results
from tuner.hosts.host_locks import HostLocks
from tuner.hosts.sweep import Need, sweep


def take_turn(folder: Path, inventory: str | None, caller: Caller) -> HostLocks:
    """Take a study's folder and this machine's cores until the caller ends, and clear the way.

    Args:
        folder: of the study.
        inventory: inventory of its hosts, for locking their cores later; None: this machine.
        caller: holder of the locks; its progress shows waits and stopped leftovers.

    Raises:
        HostError: another tuner runs the study, or measures on these cores; or the folder cannot
            be written.
    """
    turn = _locks(folder, caller)
    with writing_results(folder):
        turn.take_study()
    cpus = frozenset() if inventory else frozenset(os.sched_getaffinity(0))
    turn.take_here(cpus)
    for done in sweep(Need(folder, cpus, inventory or ""), restore_stray):
        caller.progress.note(done)
    return turn


def look_here(caller: Caller) -> list[str]:
    """Lock this machine's cores for a check, and return descriptions of removed leftovers.

    Raises:
        HostError: a study measures on these cores.
    """
    turn = _locks(Path(), caller)
    cpus = frozenset(os.sched_getaffinity(0))
    turn.take_here(cpus)
    return sweep(Need(Path(), cpus), restore_stray)


def look_there(caller: Caller) -> HostLocks:
    """Return locks for a check on other hosts, which the caller holds until its end."""
    return _locks(Path(), caller)


def _locks(folder: Path, caller: Caller) -> HostLocks:
    made = HostLocks(folder, wait=caller.wait, say=caller.progress.note)
    caller.locks.callback(made.end)
    return made
