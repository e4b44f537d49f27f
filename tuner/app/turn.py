"""The turn of a command or a call: its locks, and the removal of leftovers."""

from __future__ import annotations

import os
from pathlib import Path

from tuner.app.caller import Caller
from tuner.app.fleet import restore_stray
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
    cpus = frozenset() if inventory else frozenset(os.sched_getaffinity(0))
    return _taken(Need(folder, cpus, inventory or ""), caller)


def take_folder(folder: Path, caller: Caller) -> HostLocks:
    """Take the folder of a study that measures no more, and clear the way.

    Args:
        folder: of the study.
        caller: holder of the lock; its progress shows waits and stopped leftovers.

    Raises:
        HostError: another tuner runs the study, or the folder cannot be written.
    """
    return _taken(Need(folder), caller)


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


def _taken(need: Need, caller: Caller) -> HostLocks:
    turn = _locks(need.study, caller)
    with writing_results(need.study):
        turn.take_study()
    turn.take_here(need.cpus)
    for done in sweep(need, restore_stray):
        caller.progress.note(done)
    return turn


def _locks(folder: Path, caller: Caller) -> HostLocks:
    made = HostLocks(folder, wait=caller.wait, say=caller.progress.note)
    caller.locks.callback(made.end)
    return made
