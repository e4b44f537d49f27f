"""The remote hosts of a study: facts, provision, and the generator."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.errors import HostError
from tuner.hosts.agent import Agent
from tuner.hosts.inventory import Host, Inventory, host_pattern
from tuner.hosts.kernel import names_to_look_at, seen
from tuner.hosts.local import host_facts
from tuner.hosts.playbooks import Playbooks
from tuner.machine.facts import SERVER_NAMES, HostFacts
from tuner.space.kernel import KernelState

_SOCKETS = "tuner-ssh-"
"""Prefix of a folder for sockets, before the process id."""
_PRIORITY = -20
_PREFERRED = (
    f"echo {_PRIORITY} 2>/dev/null >/proc/self/autogroup;"
    f' renice -n {_PRIORITY} $$ >/dev/null 2>&1; exec "$@"'
)
"""Shell prefix that raises the generator's priority if allowed: see docs/instrument.md."""
_MACHINES = {3: "i686", 40: "armv7l", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
"""ELF's e_machine (elf(5)) by the names of uname(1)."""


@dataclass(frozen=True, slots=True)
class RemoteFacts:
    """Facts of one host from ``playbooks/facts.yml``."""

    host: HostFacts
    machine: str
    """Architecture in the notation of ``uname -m``."""
    programs: Mapping[str, str | None]
    """Paths of the servers on the host; None for missing ones."""
    loadgen: str
    """Path of tuner-loadgen, existing or to be copied."""
    loadgen_sha256: str
    """SHA-256 of that file; empty if it is missing."""


class Connections:
    """The channels to the hosts of one study, with one shared SSH connection each.

    Args:
        inventory: the hosts.
        hosts: hosts to connect to; None: those of a study.
    """

    def __init__(self, inventory: Inventory, hosts: Sequence[Host] | None = None) -> None:
        # The name is short, because a socket's path is limited to some 100 characters (unix(7)).
        _sweep_sockets()
        self._folder = Path(tempfile.mkdtemp(prefix=f"{_SOCKETS}{os.getpid()}-"))
        reached = inventory.in_use if hosts is None else hosts
        self._agents = {host.name: Agent(host, self.path(host)) for host in reached}

    @property
    def settings(self) -> Mapping[str, str]:
        """Ansible's settings that put its sockets here, so that its connections end with these."""
        return {"ANSIBLE_SSH_CONTROL_PATH_DIR": str(self._folder / "a")}

    def path(self, host: Host) -> str:
        """Socket of the shared connection to a host."""
        return str(self._folder / hashlib.sha256(host.name.encode()).hexdigest()[:8])

    def agent(self, host: Host) -> Agent:
        """Return the agent on a host."""
        return self._agents[host.name]

    def close(self) -> None:
        """Close all connections, including Ansible's."""
        for agent in self._agents.values():
            agent.close()
        _end_connections(self._folder)


def _end_connections(folder: Path) -> None:
    for socket in (folder / "a").glob("*"):
        command = ["ssh", "-o", f"ControlPath={socket}", "-O", "exit", "all"]
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(command, capture_output=True, check=False, timeout=5)
    shutil.rmtree(folder, ignore_errors=True)


def _sweep_sockets() -> None:
    """Remove sockets of killed tuners; their own connections have ended."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_SOCKETS}*"):
        pid = folder.name.removeprefix(_SOCKETS).partition("-")[0]
        with contextlib.suppress(OSError):
            mine = folder.lstat().st_uid == os.geteuid()
            if mine and pid.isdigit() and not _lives(int(pid)):
                _end_connections(folder)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def read_facts(playbooks: Playbooks, hosts: Sequence[Host]) -> Mapping[str, RemoteFacts]:
    """Return the facts of the hosts by name, in one Ansible run.

    Raises:
        HostError: one of them cannot be reached.
    """
    wanted = {"tuner_hosts": pattern(hosts), "tuner_programs": list(SERVER_NAMES)}
    found = playbooks.run("facts.yml", wanted)
    return {name: _facts(result) for name, result in found.items()}


def look(playbooks: Playbooks, host: Host, names: Collection[str]) -> KernelState:
    """Return the kernel settings of a host.

    Raises:
        DefinitionError: none of the settings can be changed there.
        HostError: it cannot be reached.
    """
    wanted = {"tuner_hosts": pattern([host]), "tuner_kernel_names": names_to_look_at(names)}
    return seen(playbooks.run("look.yml", wanted)[host.name]["seen"])


def provision(
    playbooks: Playbooks,
    *,
    servers: Sequence[Host],
    hosts: Sequence[Host],
    loadgen: Path,
    program: str,
) -> None:
    """Install the server's package and tuner-loadgen where they are missing.

    Raises:
        HostError: the installation failed; the message is Ansible's.
    """
    playbooks.run(
        "provision.yml",
        {
            "tuner_servers": pattern(servers),
            "tuner_loadgen_hosts": pattern(hosts),
            "tuner_loadgen_source": str(loadgen),
            "tuner_program": program,
            "tuner_package": program,
        },
    )


def pattern(hosts: Sequence[Host]) -> str:
    """Return Ansible's pattern for these hosts, and no others."""
    return host_pattern(host.name for host in hosts)


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def refuse_machine(binary: Path, host: str, machine: str) -> None:
    """Raise HostError unless the program runs on a host of that architecture.

    Raises:
        HostError: it was built for another one.
    """
    header = binary.read_bytes()[:20]
    built_for = _MACHINES.get(int.from_bytes(header[18:20], "little"), "")
    if header[:4] == b"\x7fELF" and built_for and built_for != machine:
        raise HostError(
            f"{binary} is built for {built_for}, and {host} is {machine}; build the generator for"
            " it (cargo build --release --target) and name it with TUNER_LOADGEN"
        )


class RemoteGeneratorHost:
    """A generator on another host: see ``tuner.generators.place.GeneratorHost``.

    Args:
        host: where it runs.
        agent: channel for files there.
        control_path: socket of the shared connection.
        binary: path of tuner-loadgen there.
        watches_server: whether the server is on the same host.
    """

    def __init__(
        self, host: Host, agent: Agent, control_path: str, binary: str, *, watches_server: bool
    ) -> None:
        self._host = host
        self._agent = agent
        self._control_path = control_path
        self._binary = binary
        self._watches_server = watches_server

    @property
    def watches_server(self) -> bool:
        """Implement ``GeneratorHost.watches_server``."""
        return self._watches_server

    def command(self, *arguments: str) -> list[str]:
        """Implement ``GeneratorHost.command``."""
        words = ("setsid", "--wait", "sh", "-c", _PREFERRED, "sh", self._binary, *arguments)
        return self._host.command(*words, control_path=self._control_path)

    @contextlib.contextmanager
    def folder(self) -> Iterator[str]:
        """Implement ``GeneratorHost.folder``."""
        with self._agent.folder() as path:
            yield path

    def put(self, folder: str, name: str, content: bytes) -> str:
        """Implement ``GeneratorHost.put``."""
        path = f"{folder}/{name}"
        self._agent.put(path, content)
        return path

    def finds(self, path: Path, folder: str) -> str:
        """Implement ``GeneratorHost.finds``."""
        return self.put(folder, path.name, path.read_bytes())

    def taken(self, path: str) -> bytes:
        """Implement ``GeneratorHost.taken``."""
        return self._agent.take(path)


def _facts(result: Mapping[str, Any]) -> RemoteFacts:
    found = result["facts"]
    return RemoteFacts(
        host=host_facts(found),
        machine=found["machine"],
        programs=found["programs"],
        loadgen=found["file"],
        loadgen_sha256=found["file_sha256"],
    )
