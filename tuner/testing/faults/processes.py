"""Signals to tuner and to the processes that it starts."""

from __future__ import annotations

import math
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from tuner.hosts.sweep import on_targets
from tuner.servers.catalog import SERVERS
from tuner.testing.faults.fault import Fault, FaultTarget, hurry, later

ROW = "processes"
KILLED = frozenset({-signal.SIGKILL})
ENDED = frozenset({130})
_SHORTEST_STOP_S = 0.1
LONGEST_STOP_S = 300.0
_RARELY = 6
"""Power of the share that makes long stops rare: one of ten is longer than 7 s."""
_WINDOW_S = 1.0
"""Longest time from a crossing to the signal of another process, so that it meets windows too."""


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (OSError, UnicodeDecodeError):
        return ""


def _parent(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[1])


def _is_backend(pid: int) -> bool:
    return any("/backends/" in _words(each) for each in (pid, _parent(pid)))


def _server(pid: int, *, master: bool, backend: bool = False) -> bool:
    name = _name(pid)
    if name not in SERVERS or _is_backend(pid) is not backend:
        return False
    return (_name(_parent(pid)) != name) is master


VICTIMS: dict[str, Callable[[int], bool]] = {
    "generator": lambda pid: _name(pid).startswith("tuner-load"),
    "server master": lambda pid: _server(pid, master=True),
    "server worker": lambda pid: _server(pid, master=False),
    "backend": lambda pid: _server(pid, master=True, backend=True),
    "Ansible": lambda pid: "ansible-playbook" in _words(pid),
    "sshd": lambda pid: _name(pid).startswith("sshd") and "sshd -D" not in _words(pid),
    "PostgreSQL": lambda pid: _words(pid).startswith("postgres: tuner"),
    "tuner proxy": lambda pid: "-m tuner proxy" in _words(pid) and _name(pid) != "sh",
}
"""Tests for a process of each kind, by its id."""
_PLACES = {
    "generator": "generator",
    "backend": "backend",
    "sshd": "hosts",
    "PostgreSQL": "database",
    "tuner proxy": "proxy",
}
"""Property of a scenario that has such a process, if not ``servers``."""


def processes(target: FaultTarget, *, elsewhere: bool = False) -> Iterator[int]:
    """Yield the processes of the study on its host, without this one.

    Args:
        target: what a fault strikes.
        elsewhere: whether to yield those of other hosts too.
    """
    for network in target.networks:
        if network.elsewhere and not elsewhere:
            continue
        asked = ["ip", "netns", "pids", network.namespace]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        yield from (int(word) for word in done.stdout.split() if int(word) != os.getpid())


def _victims(target: FaultTarget, kind: str) -> list[int]:
    # Ansible runs on this host, outside of the networks of other hosts.
    _, *started = on_targets("family")(os.getpid())
    found = dict.fromkeys((*processes(target, elsewhere=True), *started))
    return [pid for pid in found if VICTIMS[kind](pid)]


def stop_s(share: float) -> float:
    """Return the length of a stop, s, for a share from [0, 1)."""
    return _SHORTEST_STOP_S * math.pow(LONGEST_STOP_S / _SHORTEST_STOP_S, share**_RARELY)


def _signalled(number: signal.Signals) -> Callable[[FaultTarget], None]:
    return lambda _: os.kill(os.getpid(), number)


def _paused(target: FaultTarget) -> None:
    later(stop_s(target.share), f"kill -CONT {os.getpid()}")
    os.kill(os.getpid(), signal.SIGSTOP)


def _suspended(target: FaultTarget) -> None:
    """Stop all processes of the study at once, as a suspended machine does."""
    pids = " ".join(str(pid) for pid in (*processes(target), os.getpid()))
    later(stop_s(target.share), f"kill -CONT {pids}")
    subprocess.run(["sh", "-c", f"kill -STOP {pids}"], check=False)


def _struck(kind: str, number: str) -> Fault:
    """Return the fault that sends a signal to one process of a kind."""

    def strike(target: FaultTarget) -> None:
        found = _victims(target, kind)
        pid = found[int(target.share * len(found))]
        line = f"kill -{number} {pid}"
        if number == "STOP":
            line += f"; sleep {stop_s(target.share):.2f}; kill -CONT {pid}"
        later(target.share * _WINDOW_S, line)

    return Fault(
        f"{kind}: SIG{number}",
        ROW,
        strike,
        # A signal that came later would strike the resumption, or a service that a supervisor has
        # looked after already.
        hurry,
        needs=frozenset({_PLACES.get(kind, "servers")}),
        ready=lambda target: bool(_victims(target, kind)),
        by_the_clock=True,
        holds_up_s=LONGEST_STOP_S if number == "STOP" else 0.0,
    )


FAULTS = (
    Fault("kill", ROW, _signalled(signal.SIGKILL), code=KILLED),
    Fault("terminate", ROW, _signalled(signal.SIGTERM), code=ENDED),
    Fault("interrupt", ROW, _signalled(signal.SIGINT), code=ENDED),
    Fault("hang up", ROW, _signalled(signal.SIGHUP), code=ENDED),
    Fault("pause", ROW, _paused, hurry, holds_up_s=LONGEST_STOP_S),
    Fault(
        "suspended machine",
        ROW,
        _suspended,
        hurry,
        needs=frozenset({"servers"}),
        by_the_clock=True,
        holds_up_s=LONGEST_STOP_S,
    ),
    *(_struck(kind, number) for kind in VICTIMS for number in ("KILL", "TERM", "STOP")),
)
