"""A kind of fault, and the command that it strikes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Network:
    """Where the packets of a command can be struck: one interface in a network namespace."""

    namespace: str
    device: str = "lo"
    served: Sequence[int] = ()
    """Ports of the side that loses its connections if they are half-open; empty: tuner's range."""
    elsewhere: bool = False
    """True if the processes of the namespace are other hosts', which keep their power."""

    def inside(self, *command: str) -> list[str]:
        """Return a command that runs in the namespace."""
        return ["ip", "netns", "exec", self.namespace, *command]


@dataclass(frozen=True, slots=True)
class FaultTarget:
    """The command that a fault strikes, as its running process sees it."""

    folder: Path
    """Working folder of the command, on a file system of its own."""
    study: Path
    """Folder of its study."""
    again: Sequence[str]
    """The same command, to start it a second time."""
    begin: Sequence[str]
    """The command that begins such a study."""
    share: float
    """A number from [0, 1) for what else is drawn: a length, a distance, a place."""
    complain: Callable[[str], None] = print
    """Called with what is wrong already while the fault strikes."""
    remount: Callable[[], None] = lambda: None
    """Mounts the file system again, as after a power failure; after the process."""
    networks: Sequence[Network] = ()
    """Its networks; their namespaces hold all processes of the study."""
    inputs: Sequence[Path] = ()
    """Files that the user gave to the command."""
    program: Path = Path()
    """The server's program, if a fault may replace it."""
    names: Path = Path()
    """File with the addresses of the other hosts, which the command has as ``/etc/hosts``."""


def no_heal(_: FaultTarget) -> None:
    """Leave what a fault did as it is."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault."""

    name: str
    row: str
    """Its row in the table of the campaign."""
    strike: Callable[[FaultTarget], None]
    """Called in the process, at the crossing."""
    heal: Callable[[FaultTarget], None] = no_heal
    """Called after the process, before it is resumed."""
    code: frozenset[int] = frozenset()
    """Further exit codes that are right, next to 0 to 3; a signal's is negative."""
    needs: frozenset[str] = frozenset()
    """Properties that a scenario must have: ``disk``, ``servers``, ``network`` and so on."""
    ready: Callable[[FaultTarget], bool] | None = None
    """Returns True at a crossing if there is something to strike; None: there always is."""
    undo: Callable[[FaultTarget], None] | None = None
    """Undoes a change that the resumption may refuse, if its message says so."""
    by_the_clock: bool = False
    """True if real time decides what it meets, so that two runs of a case may differ."""
    holds_up_s: float = 0.0
    """Longest time for which it holds the command up, s."""


def later(after_s: float, line: str) -> None:
    """Run a line of the shell after some time, in a process of its own, without waiting for it."""
    subprocess.Popen(
        ["sh", "-c", f"sleep {after_s:.3f}; {line}"],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )


def hurry(target: FaultTarget) -> None:
    """End the waits of ``later``, so that the rest of each line runs at once."""
    while waits := [*_waits(target.folder)]:
        for pid in waits:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        # A line may have another wait.
        time.sleep(0.1)


def _waits(folder: Path) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        # It may have ended, or belong to another account.
        with contextlib.suppress(OSError):
            if (
                entry.name.isdigit()
                and (entry / "comm").read_text(encoding="utf-8") == "sleep\n"
                and (entry / "cwd").readlink() == folder
            ):
                yield int(entry.name)
