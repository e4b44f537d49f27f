"""A command's turn: the option ``--wait``, the locks, and the removal of leftovers."""

from __future__ import annotations

import os
from pathlib import Path

import click

from tuner.app.flags import is_given, kept_flag
from tuner.app.premises import restore_stray
from tuner.app.progress import TerminalProgress
from tuner.app.writing import writing_results
from tuner.hosts.host_locks import HostLocks
from tuner.hosts.sweep import Need, sweep

_TURN = "tuner.turn"
_FLAG = "--wait"

option = kept_flag(_FLAG, "Wait until no other study uses the same cores [exit with code 3].")
"""Decorator: add ``--wait``, which queues the command behind another study."""


def take_turn(folder: Path, inventory: str | None, progress: TerminalProgress) -> HostLocks:
    """Take a study's folder and this machine's cores until the command ends, and clear the way.

    Args:
        folder: of the study.
        inventory: inventory of its hosts, for locking their cores later; None: this machine.
        progress: display of waits and of stopped leftovers.

    Raises:
        HostError: another tuner runs the study, or measures on these cores; or the folder cannot
            be written.
    """
    context = click.get_current_context()
    turn = HostLocks(folder, wait=is_given(_FLAG), say=progress.note)
    context.call_on_close(turn.end)
    with writing_results(folder):
        turn.take_study()
    cpus = frozenset() if inventory else frozenset(os.sched_getaffinity(0))
    turn.take_here(cpus)
    for done in sweep(Need(folder, cpus, inventory or ""), restore_stray):
        progress.note(done)
    context.meta[_TURN] = turn
    return turn


def look_here(progress: TerminalProgress) -> list[str]:
    """Lock this machine's cores for a check, and return descriptions of removed leftovers.

    Raises:
        HostError: a study measures on these cores.
    """
    context = click.get_current_context()
    turn = HostLocks(Path(), wait=is_given(_FLAG), say=progress.note)
    context.call_on_close(turn.end)
    cpus = frozenset(os.sched_getaffinity(0))
    turn.take_here(cpus)
    return sweep(Need(Path(), cpus), restore_stray)


def current_turn() -> HostLocks | None:
    """Return the turn of the running command; None outside of a command."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(_TURN)
