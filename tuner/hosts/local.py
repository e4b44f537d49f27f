"""This machine: facts, free ports, a folder for the lab, and claims of studies."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import runpy
import shutil
import socket
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from tuner.errors import HostError
from tuner.hosts.sysfs import topology
from tuner.machine.facts import HostFacts
from tuner.machine.topology import topology_of
from tuner.paths import data_dir, replace_file, state_dir

_FIRST_PORT = 18_080
_LAST_PORT = 28_000
"""Last port to use, below Linux's default range of ephemeral ports, which clients use."""
_PORTS_APART = 64
"""Distance between labs' ports; more than the instances of a block."""
_UNPRIVILEGED = "nobody"


def facts() -> HostFacts:
    """Return the facts of this machine, with the code for other hosts."""
    program = data_dir("playbooks") / "module_utils" / "tuner_host.py"
    found = host_facts(runpy.run_path(str(program))["facts"]())
    return replace(found, topology=topology_of(topology()))


def host_facts(found: Mapping[str, Any]) -> HostFacts:
    """Return the facts of a host from the module's result; ignore further keys."""
    known = {
        field.name: found[field.name] for field in fields(HostFacts) if field.name != "topology"
    }
    return HostFacts(**{**known, "cpus": tuple(known["cpus"])})


def free_ports(count: int) -> Sequence[int]:
    """Return consecutive loopback ports without listeners.

    Raises:
        HostError: there are none in tuner's range.
    """
    # Concurrent labs start at different ports, because another lab could take a port between this
    # check and the start of a server.
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
    """Return the account for instances: nobody if tuner is root, else tuner's own."""
    return _UNPRIVILEGED if os.geteuid() == 0 else ""


def lab_folder(study: Path) -> Path:
    """Return the folder of a study's instances, which their account can reach.

    As root the instances run as ``nobody``, which cannot enter a study below a private home folder;
    the lab is then in the system's folder for temporary files.
    """
    inside = study.resolve() / "lab"
    if _is_reachable(inside):
        return inside
    name = hashlib.sha256(str(inside).encode()).hexdigest()[:12]
    return Path("/var/tmp") / f"tuner-{name}"  # noqa: S108 - made by root with a fixed mode


def runnable(program: str, lab: Path) -> str:
    """Return a path at which the account of the instances can run a program.

    As root the instances run as ``nobody``, which cannot reach a program in root's private home,
    such as the Caddy of a virtual environment there. It is then copied into the lab.

    Args:
        program: path of the program.
        lab: folder of the study's instances.

    Raises:
        HostError: the lab's folder belongs to somebody else, or the program cannot be copied.
    """
    found = Path(program).resolve()
    if _is_reachable(found):
        return program
    # Two programs may have one name.
    place = hashlib.sha256(str(found).encode()).hexdigest()[:12]
    copy = lab / "programs" / place / found.name
    try:
        for folder in (lab, copy.parent.parent, copy.parent):
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            if folder.is_symlink() or folder.stat().st_uid != 0:
                raise HostError(f"{folder} is not root's own folder; remove it")
        shutil.copyfile(found, copy)
        copy.chmod(0o755)
    except OSError as error:
        raise HostError(f"{program} cannot be copied to {copy}: {error.strerror}") from None
    return str(copy)


@dataclass(frozen=True, slots=True)
class Claim:
    """A note that a study runs here, so that another process can find its leftovers."""

    pid: int
    started: int
    """Start time of the process, clock ticks since boot; process ids are reused."""
    study: str
    lab: str
    work: str
    kernel: bool = False
    """True if it changes the kernel's settings."""
    inventory: str = ""
    """Inventory of the lab's hosts; empty: this machine."""
    in_place: bool = False
    """True if the study runs on the target's own service."""
    cpus: tuple[int, ...] = ()
    """CPUs of this machine for the lab; empty (any) in claims of older versions."""
    programs: tuple[str, ...] = ()
    """Paths of the programs started here."""
    processes: tuple[tuple[int, int], ...] = ()
    """Processes started here: process id and start time as in ``started``."""

    @property
    def alive(self) -> bool:
        """True if the claim's process is running."""
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
    """Claim a study for this process; ``release`` the claim once the lab is stopped.

    Raises:
        HostError: another live process runs this study, or the claim cannot be written.
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
    """Write a claim to disk atomically.

    Raises:
        HostError: it cannot be written.
    """
    path = claim_path(found)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(asdict(found)).encode())
    except OSError as error:
        raise HostError(
            f"{path} cannot be written: {error.strerror}; free space there, or set another folder"
            " in XDG_STATE_HOME"
        ) from error


def with_started(found: Claim, programs: Iterable[str], pids: Iterable[int]) -> Claim:
    """Return a claim with newly started processes, and without those that have ended."""
    new = [(pid, start_time(pid)) for pid in pids]
    running = [each for each in (*found.processes, *new) if start_time(each[0]) == each[1]]
    names = (*found.programs, *(os.path.realpath(name) for name in programs))
    return replace(
        found,
        programs=tuple(dict.fromkeys(names)),
        processes=tuple(each for each in dict.fromkeys(running) if each[1]),
    )


def strays() -> list[Claim]:
    """Return the claims of dead processes, with labs that may still run."""
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
    """Remove the claim of a stopped lab.

    It stays while the lab's folder is on this machine, so that the next command retries: with too
    many open files nothing can be removed.
    """
    if found.inventory or not Path(found.lab).exists():
        claim_path(found).unlink(missing_ok=True)


def claim_path(found: Claim) -> Path:
    """Return the file of a claim."""
    return _claims_folder() / (hashlib.sha256(found.study.encode()).hexdigest()[:16] + ".json")


def _claims_folder() -> Path:
    return state_dir() / "running"


def start_time(pid: int) -> int:
    """Return field 22 of /proc/PID/stat (proc(5)); 0 if the process is gone or a zombie.

    Raises:
        OSError: too many files are open.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0
    state, *further = text.rsplit(")", 1)[1].split()
    return 0 if state == "Z" else int(further[18])


def this_tuner() -> str:
    """Return an identity of this process that differs from all others', also on other hosts.

    It is the host's name for messages, process id, start time, and the boot with the namespace of
    process ids: several hosts may have one name, and several containers one boot.
    """
    pid = os.getpid()
    return f"{socket.gethostname()} {pid} {start_time(pid)} {_boot()}"


def has_ended_here(tuner: str) -> bool:
    """Return whether a tuner ran on this machine since it booted, and has ended.

    Args:
        tuner: its identity, from ``this_tuner``.
    """
    words = tuner.split(" ")
    if len(words) != 4 or not words[1].isdecimal() or words[3] != _boot():
        return False
    return str(start_time(int(words[1]))) != words[2]


def _boot() -> str:
    boot = _read("/proc/sys/kernel/random/boot_id").strip()
    return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _is_reachable(path: Path) -> bool:
    """Return whether the account of the instances may enter all folders above a path."""
    above = (folder for folder in path.parents if folder.exists())
    return os.geteuid() != 0 or all(folder.stat().st_mode & stat.S_IXOTH for folder in above)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
