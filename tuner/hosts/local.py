"""This machine: its facts, free ports, a folder for the lab, and what a dead study left behind."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import runpy
import socket
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from tuner.errors import HostError
from tuner.machine.facts import HostFacts
from tuner.paths import data_dir, state_dir

_FIRST_PORT = 18_080
_LAST_PORT = 28_000
"""Below Linux's default range of ephemeral ports, so that no client holds one by chance."""
_PORTS_APART = 64
"""More than a block has instances."""
_UNPRIVILEGED = "nobody"


def facts() -> HostFacts:
    """Return the facts of this machine, read by the code that reads other hosts."""
    program = data_dir("playbooks") / "module_utils" / "tuner_host.py"
    return host_facts(runpy.run_path(str(program))["facts"]())


def host_facts(found: Mapping[str, Any]) -> HostFacts:
    """Return the facts of a host from what was read on it; further keys are ignored."""
    known = {field.name: found[field.name] for field in fields(HostFacts)}
    return HostFacts(**{**known, "cpus": tuple(known["cpus"])})


def free_ports(count: int) -> Sequence[int]:
    """Return consecutive ports on loopback on which nothing listens.

    Raises:
        HostError: there are none in the range that tuner uses.
    """
    # Labs that run at the same time begin at different places: between this look and the start of
    # a server, another lab's would take the port.
    own = _FIRST_PORT + os.getpid() * _PORTS_APART % (_LAST_PORT - _FIRST_PORT)
    for start in (own, _FIRST_PORT):
        first = start
        while first + count <= _LAST_PORT:
            taken = [port for port in range(first, first + count) if not _is_free(port)]
            if not taken:
                return range(first, first + count)
            first = taken[-1] + 1
    raise HostError(f"no {count} consecutive free ports between {_FIRST_PORT} and {_LAST_PORT}")


def lab_user() -> str:
    """Return the account that instances run as: nobody where tuner is root, else tuner's own."""
    return _UNPRIVILEGED if os.geteuid() == 0 else ""


def lab_folder(study: Path) -> Path:
    """Return the folder of a study's instances: its own, or one that their account can reach.

    As root the instances run as ``nobody``, who cannot enter a study below a closed home folder;
    the lab is then in the system's folder for temporary files.
    """
    inside = study.resolve() / "lab"
    if os.geteuid() != 0 or all(_is_open(parent) for parent in inside.parents if parent.exists()):
        return inside
    name = hashlib.sha256(str(inside).encode()).hexdigest()[:12]
    return Path("/var/tmp") / f"tuner-{name}"  # noqa: S108 - made by root with a fixed mode


@dataclass(frozen=True, slots=True)
class Claim:
    """A note that a study runs here, so that another process can find what it left."""

    pid: int
    started: int
    """Start time of the process in clock ticks since boot: process ids are used again."""
    study: str
    lab: str
    work: str
    kernel: bool = False
    """True if it borrowed the kernel's settings."""
    inventory: str = ""
    """Inventory of the lab's hosts; empty: this machine."""
    in_place: bool = False
    """True if the target's own service stands in the lab's place."""
    cpus: tuple[int, ...] = ()
    """CPUs of this machine that the lab may use; empty in claims of older versions: any."""
    programs: tuple[str, ...] = ()
    """Paths of the programs that were started here."""
    processes: tuple[tuple[int, int], ...] = ()
    """Processes started here: process id, and start time as in ``started``."""

    @property
    def alive(self) -> bool:
        """True if the process that made the claim runs."""
        return start_time(self.pid) == self.started


def claim(
    study: Path,
    lab: Path,
    work: Path,
    *,
    kernel: bool = False,
    inventory: str = "",
    in_place: bool = False,
) -> Claim:
    """Note that this process runs a study; ``release`` it once the lab is stopped.

    Raises:
        HostError: another live process runs this study, or the note cannot be written.
    """
    mine = Claim(
        os.getpid(),
        start_time(os.getpid()),
        str(study.resolve()),
        str(lab),
        str(work),
        kernel,
        inventory,
        in_place,
        () if inventory else tuple(sorted(os.sched_getaffinity(0))),
    )
    for other in claims():
        if other.study == mine.study and other.alive and other.pid != mine.pid:
            raise HostError(f"{study} is being run by process {other.pid}; wait for it or stop it")
    keep(mine)
    return mine


def keep(found: Claim) -> None:
    """Write a claim to the disk in one step.

    Raises:
        HostError: it cannot be written.
    """
    path = claim_path(found)
    draft = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(asdict(found)))
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise HostError(
            f"{path} cannot be written: {error.strerror}; make room there, or name another folder:"
            " XDG_STATE_HOME"
        ) from error


def with_started(found: Claim, programs: Iterable[str], pids: Iterable[int]) -> Claim:
    """Return a claim with what was started for it just now; what has ended is forgotten."""
    new = [(pid, start_time(pid)) for pid in pids]
    running = [each for each in (*found.processes, *new) if start_time(each[0]) == each[1]]
    names = (*found.programs, *(os.path.realpath(name) for name in programs))
    return replace(
        found,
        programs=tuple(dict.fromkeys(names)),
        processes=tuple(each for each in dict.fromkeys(running) if each[1]),
    )


def strays() -> list[Claim]:
    """Claims whose process is dead: their labs may still run."""
    return [found for found in claims() if not found.alive]


def claims() -> list[Claim]:
    """Return all claims of this user."""
    found = []
    for path in sorted(_claims_folder().glob("*.json")):
        with contextlib.suppress(ValueError, TypeError, OSError):
            found.append(_read_claim(path))
    return found


def _read_claim(path: Path) -> Claim:
    read = Claim(**json.loads(path.read_text()))
    return replace(
        read,
        cpus=tuple(read.cpus),
        programs=tuple(read.programs),
        processes=tuple((pid, started) for pid, started in read.processes),
    )


def release(found: Claim) -> None:
    """Forget a claim, once its lab was stopped."""
    claim_path(found).unlink(missing_ok=True)


def claim_path(found: Claim) -> Path:
    """Return the file of a claim."""
    return _claims_folder() / (hashlib.sha256(found.study.encode()).hexdigest()[:16] + ".json")


def _claims_folder() -> Path:
    return state_dir() / "running"


def start_time(pid: int) -> int:
    """Return field 22 of /proc/PID/stat (proc(5)); 0 if there is no such process."""
    text = _read(f"/proc/{pid}/stat")
    return int(text.rsplit(")", 1)[1].split()[19]) if text else 0


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _is_open(folder: Path) -> bool:
    return bool(folder.stat().st_mode & stat.S_IXOTH)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
