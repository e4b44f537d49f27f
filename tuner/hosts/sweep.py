"""Leftovers of dead studies on this machine, found by their claims.

The sweep stops a process if the study started it (by process id and start time, because ids are
reused), if it descends from one of those, or if it runs one of the study's programs in the study's
lab. It does not stop an editor with an open file of the lab.
The stop uses no playbook, so it works on a full disk and without a working Ansible.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import runpy
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tuner.errors import DefinitionError, HostError
from tuner.hosts import local
from tuner.hosts.ansible import KERNEL_FOLDER
from tuner.hosts.ansible_workers import end_workers
from tuner.hosts.searches import stop_until_none
from tuner.paths import data_dir

Restore = Callable[[local.Claim], None]
"""Callback that removes leftovers of a dead study on other hosts."""
_PATIENCE_S = 10.0
"""Time for a process to end by itself before it is killed."""
_MOST_SEARCHES = 10
"""Searches for processes of a lab, each after the found ones were stopped."""
_NAMED = 4
"""Most processes that a message names."""


@dataclass(frozen=True, slots=True)
class Need:
    """The cores and folders that a command needs."""

    study: Path
    """Folder of the study."""
    cpus: frozenset[int] = frozenset()
    """Cores of this machine."""
    inventory: str = ""
    """Path of the inventory; empty: this machine."""

    def concerns(self, stray: local.Claim) -> bool:
        """Return whether the leftovers of a dead study are in the way."""
        if stray.study == str(self.study.resolve()):
            return True
        if stray.inventory:
            mine = str(Path(self.inventory).resolve()) if self.inventory else ""
            return stray.inventory == mine
        return bool(self.cpus) and (not stray.cpus or bool(self.cpus & {*stray.cpus}))


def sweep(need: Need, restore: Restore) -> list[str]:
    """Stop leftovers of dead studies that are in the way; return notes of the actions.

    A study that changed a host's own service and is not in the way has a note too.
    Tuners that start together take turns: one sweeps, the next finds nothing left.
    """
    done = []
    for stray in local.strays():
        if not need.concerns(stray):
            if stray.in_place:
                done.append(
                    f"the dead study {stray.study} may have left its configuration in its hosts'"
                    f" service; a study with --inventory {stray.inventory} restores the original"
                )
            continue
        with _alone_with(stray) as there:
            if there:
                done.append(_swept(stray, restore))
    return done


def stop_lab(claim: local.Claim) -> list[str]:
    """Stop the processes of a study's lab on this machine; return their descriptions.

    Raises:
        HostError: some processes do not end, or cannot be found.
    """
    try:
        end_workers(Path(claim.work) / "ansible")
        stopped = _stopped(claim)
    except OSError as error:
        raise HostError(
            f"processes of {claim.study} may still run, because /proc cannot be read:"
            f" {error.strerror}; the next command in this folder stops them"
        ) from error
    if claim.kernel:
        _restore_kernel(claim.lab)
    shutil.rmtree(claim.lab, ignore_errors=True)
    return stopped


def _stopped(claim: local.Claim) -> list[str]:
    """Stop what a study left, and return names and ids.

    Raises:
        HostError: some processes do not end, or others take their place each time.
        OSError: too many files are open.
    """
    stopped, none_left = stop_until_none(lambda: _stop(_processes(claim)), _MOST_SEARCHES)
    if none_left:
        return stopped
    raise HostError(f"{_listed(stopped)} start again and again; end the program that starts them")


def _swept(stray: local.Claim, restore: Restore) -> str:
    study = f"the dead study {stray.study}"
    try:
        if stray.inventory:
            end_workers(Path(stray.work) / "ansible")
            restore(stray)
            words = f"stopped processes that {study} had left on its hosts"
            words += ", and restored the service's own files" * stray.in_place
        else:
            stopped = stop_lab(stray)
            words = f"stopped processes that {study} had left" if stopped else f"cleared up {study}"
            words += f": {_listed(stopped)}" if stopped else ""
            words += ", and restored the kernel's settings" * stray.kernel
    except (HostError, DefinitionError) as error:
        return f"processes that {study} left could not be stopped yet: {error}"
    shutil.rmtree(stray.work, ignore_errors=True)
    local.release(stray)
    return words


def _listed(stopped: list[str]) -> str:
    more = len(stopped) - _NAMED
    return ", ".join(stopped[:_NAMED]) + (f" and {more} more" if more > 0 else "")


@contextlib.contextmanager
def _alone_with(stray: local.Claim) -> Iterator[bool]:
    """Hold a claim's lock; yield whether the claim still exists and its process is dead."""
    try:
        descriptor = os.open(local.claim_path(stray), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield stray in local.strays()
    finally:
        os.close(descriptor)


def _processes(claim: local.Claim) -> list[tuple[int, int]]:
    """Return id and start time of the processes that a study left."""
    recorded = [each for each in claim.processes if local.start_time(each[0]) == each[1]]
    family = on_targets("family")
    pids = dict.fromkeys(pid for first, _ in recorded for pid in family(first))
    pids.update(dict.fromkeys(_in_lab(claim)))
    known = dict(recorded)
    found = [(pid, known.get(pid) or local.start_time(pid)) for pid in pids]
    return [each for each in found if each[1]]


def _in_lab(claim: local.Claim) -> Iterator[int]:
    """Yield processes of the study's programs in its lab.

    They include servers that were starting when tuner died and are not in the claim yet.
    """
    belongs_to = on_targets("belongs_to")
    for entry in Path("/proc").iterdir():
        # It has ended, or belongs to another account.
        with contextlib.suppress(ProcessLookupError, FileNotFoundError, PermissionError):
            if not entry.name.isdigit():
                continue
            program = str((entry / "exe").readlink()).removesuffix(" (deleted)")
            if program in claim.programs and belongs_to(entry.name, claim.lab):
                yield int(entry.name)


@functools.cache
def on_targets(name: str) -> Callable[..., Any]:
    """Return a function on processes that the playbooks use on targets too."""
    program = data_dir("playbooks") / "module_utils" / "tuner_processes.py"
    return cast("Callable[..., Any]", runpy.run_path(str(program))[name])


def _stop(processes: Iterable[tuple[int, int]]) -> list[str]:
    """Stop processes with SIGTERM, then SIGKILL; return their names and ids.

    Raises:
        HostError: some processes do not end.
        OSError: too many files are open.
    """
    with contextlib.ExitStack() as stack:
        running: dict[int, tuple[int, str]] = {}
        for pid, started in processes:
            with contextlib.suppress(ProcessLookupError):
                handle = os.pidfd_open(pid)
                stack.callback(os.close, handle)
                # With this handle open, the id cannot be reused.
                if local.start_time(pid) == started:
                    running[handle] = pid, f"{_name(pid)} (process {pid})"
        stopped = [words for _, words in running.values()]
        for number in (signal.SIGTERM, signal.SIGKILL):
            for handle in running:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    signal.pidfd_send_signal(handle, number)
            running = _left(running)
            if not running:
                return stopped
        words = ", ".join(words for _, words in running.values())
        raise HostError(f"{words} cannot be stopped; stop it manually")


def _left(running: dict[int, tuple[int, str]]) -> dict[int, tuple[int, str]]:
    """Wait for processes to end; return those that have not."""
    deadline = time.monotonic() + _PATIENCE_S
    left = dict(running)
    poll = select.poll()
    for handle in left:
        poll.register(handle, select.POLLIN)
    while left and time.monotonic() < deadline:
        for handle, _ in poll.poll(max(0.0, 1_000 * (deadline - time.monotonic()))):
            poll.unregister(handle)
            del left[handle]
    return left


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return "a process"


def _restore_kernel(owner: str) -> None:
    """Let the kernel's guard restore settings that a study changed.

    Raises:
        HostError: the guard failed; it tries again by itself.
    """
    folder = Path(KERNEL_FOLDER)
    try:
        lent_to = json.loads((folder / "saved.json").read_text())["owner"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if lent_to != owner:
        return
    command = [sys.executable, "-B", str(folder / "guard.py"), str(folder), "restore"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise HostError(
            f"the kernel's settings: {done.stdout.strip() or done.stderr.strip()}; restore them:"
            f" python3 {folder}/guard.py {folder} restore"
        )
