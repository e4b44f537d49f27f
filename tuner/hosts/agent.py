"""The client of ``playbooks/files/tuner_agent.py``: requests to a host between two windows."""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.errors import HostError, UnreachableError
from tuner.hosts import (
    access,
    ansible_temporary,
    cgroups,
    idle_polling,
    interrupts,
    kernel_files,
    local,
    locks,
    log_end,
    overlaid,
    proc,
    sysfs,
)
from tuner.hosts.inventory import Host
from tuner.hosts.locks import LockAttempt, LockHolder
from tuner.machine.topology import Topology, topology_of
from tuner.measurement.clocks import ClockReading
from tuner.paths import data_dir

_BOOT = (
    "import sys,types\n"
    "for name, size in {parts}:\n"
    " module = sys.modules.setdefault(name, types.ModuleType(name))\n"
    " exec(compile(sys.stdin.buffer.read(size), name, 'exec'), vars(module))"
)
"""Loader of modules under their own names; the last one is the program."""
_PATIENCE_S = 30.0
"""Time limit for an answer; after it the connection counts as dead."""
_VALIDATION_S = 70.0
"""Time limit for a validator, which may resolve names and open many files."""
_FIRST_PORT, _LAST_PORT = 18_080, 28_000
"""Ports below Linux's default range of ephemeral ports, which clients use."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Use of all processes of a program, at one instant."""

    pids: tuple[int, ...]
    cpu_s: float
    """CPU time since their start, s."""
    rss_bytes: int
    """Resident memory; shared pages count for each process."""


class Agent:
    """A channel to one host, opened at the first request.

    Args:
        host: the host.
        control_path: socket of the shared SSH connection.
    """

    def __init__(self, host: Host, control_path: str) -> None:
        self._host = host
        self._control_path = control_path
        self._process: subprocess.Popen[bytes] | None = None
        self._cores: tuple[tuple[int, ...], LockHolder] | None = None

    def ask(
        self, what: str, patience_s: float = _PATIENCE_S, **arguments: object
    ) -> dict[str, Any]:
        """Send one request and return its answer.

        Raises:
            HostError: the host is gone, does not answer in time, or reports an error.
        """
        process = self._running()
        assert process.stdin is not None  # noqa: S101 - Popen was given pipes
        assert process.stdout is not None  # noqa: S101 - likewise
        # SSH notices a dead peer, but not a silent one, so a watchdog is needed.
        watchdog = threading.Timer(patience_s, process.kill)
        watchdog.start()
        try:
            process.stdin.write(json.dumps({"what": what, **arguments}).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError as error:
            raise UnreachableError(
                f"the connection to {self._host.name} was lost: {self._last_words()}"
            ) from error
        finally:
            watchdog.cancel()
        if not line:
            raise UnreachableError(
                f"the connection to {self._host.name} was lost: {self._last_words()}"
            )
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise HostError(f"{self._host.name}: {what}: {answer['error']}")
        return answer

    def topology(self) -> Topology:
        """Return the topology of the host's processors."""
        return topology_of(self.ask("topology"))

    def run_command(
        self,
        command: Sequence[str],
        stdin: str | None = None,
        patience_s: float = _PATIENCE_S,
        *,
        environment: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> tuple[int, str, str]:
        """Run a command there; return exit code, standard output and standard error."""
        answer = self.ask(
            "run",
            patience_s,
            command=list(command),
            given=stdin,
            timeout_s=patience_s * 0.9,
            environment=None if environment is None else dict(environment),
            cwd=cwd,
        )
        return answer["code"], answer["out"], answer["err"]

    def overlaid(
        self, contents: Mapping[str, bytes], command: Sequence[str], program: str = ""
    ) -> dict[str, Any]:
        """Run a command there with other contents in some files; see ``tuner.hosts.overlaid``.

        Args:
            contents: contents by absolute path.
            command: program and arguments.
            program: program of the service's process (``PROGRAM run``); the command gets its
                account and environment. Empty: those of the agent.

        Raises:
            HostError: not exactly one process runs the program.
        """
        encoded = {path: base64.b64encode(text).decode() for path, text in contents.items()}
        given = {"contents": encoded, "command": list(command), "program": program}
        return self.ask("overlaid", _VALIDATION_S, **given)

    def usage(self, program: str) -> Usage:
        """Return the use of all processes of a program there.

        Raises:
            HostError: the host is gone.
        """
        answer = self.ask("usage", program=program)
        return Usage(tuple(answer["pids"]), answer["cpu_ns"] / 1e9, answer["rss_bytes"])

    def which(self, name: str) -> str | None:
        """Return the path of a program there; None if missing."""
        found: str | None = self.ask("which", name=name)["path"]
        return found

    def put(self, path: str, content: bytes) -> None:
        """Write a file."""
        self.ask("put", path=path, content=base64.b64encode(content).decode())

    def take(self, path: str) -> bytes:
        """Read and remove a file."""
        return base64.b64decode(self.ask("take", path=path)["content"])

    @contextlib.contextmanager
    def folder(self) -> Iterator[str]:
        """Create a folder, and remove it at the end."""
        path: str = self.ask("folder")["path"]
        try:
            yield path
        finally:
            # If the channel broke, the agent has removed it.
            with contextlib.suppress(HostError):
                self.ask("remove", path=path)

    def read(self, path: str) -> bytes:
        """Return a file's content.

        Raises:
            OSError: it cannot be read.
        """
        answer = self.ask("read", path=path)
        if "refused" in answer:
            raise OSError(*answer["refused"], path)
        return base64.b64decode(answer["content"])

    def log_end(self, path: str) -> bytes:
        """Call ``tuner.hosts.log_end`` there."""
        return base64.b64decode(self.ask("log_end", path=path)["content"])

    def matches(self, pattern: str) -> list[str]:
        """Return the files of a name or a pattern, sorted as glob(3) does."""
        return list(self.ask("matches", pattern=pattern)["paths"])

    def is_enterable(self, path: str) -> bool:
        """Return whether the account of the instances may enter a folder there."""
        return bool(self.ask("enterable", path=path)["may"])

    def is_readable(self, path: str) -> bool:
        """Return whether the account of the instances may read a file there."""
        return bool(self.ask("readable", path=path)["may"])

    def free_ports(self, address: str, count: int) -> Sequence[int]:
        """Return consecutive ports of an address without listeners.

        Raises:
            HostError: there are none in tuner's range, or the address is not the host's.
        """
        first = self.ask("ports", address=address, first=_FIRST_PORT, last=_LAST_PORT, count=count)[
            "first"
        ]
        if first is None:
            raise HostError(
                f"no {count} consecutive free ports between {_FIRST_PORT} and {_LAST_PORT} on"
                f" {self._host.name}; is {address} an address of its own? tuner_address in the"
                " inventory names the one to listen on"
            )
        return range(first, first + count)

    def take_cores(self, cpus: Collection[int], mine: LockHolder) -> LockAttempt:
        """Call ``tuner.hosts.locks.take_cores`` there; the locks last as long as the channel.

        If a connection breaks silently, its agent stays on the host with its locks until the
        host's SSH server notices (TCP keepalive: two hours). The agents of a tuner that has ended
        on this machine are therefore ended first.
        """
        taken = self._take_cores(cpus, mine)
        if taken.cpu >= 0 and local.has_ended_here(taken.holder.tuner):
            self.ask("end_agents_of", tuner=taken.holder.tuner)
            taken = self._take_cores(cpus, mine)
        return taken

    def _take_cores(self, cpus: Collection[int], mine: LockHolder) -> LockAttempt:
        answer = self.ask("take_cores", cpus=sorted(cpus), mine=list(mine))
        self._cores = (tuple(cpus), mine) if answer["cpu"] < 0 else None
        return LockAttempt(answer["cpu"], LockHolder(*answer["holder"]), tuple(answer["unusable"]))

    def refusal_to_poll(self, cpus: Collection[int]) -> str:
        """Call ``tuner.hosts.idle_polling.refusal`` there."""
        reason: str = self.ask("refusal_to_poll", cpus=sorted(cpus))["reason"]
        return reason

    @contextlib.contextmanager
    def polling(self) -> Iterator[None]:
        """Let idle CPUs of the host poll.

        Raises:
            HostError: the host is gone, or does not allow it any more.
        """
        self.ask("poll")
        try:
            yield
        finally:
            # If the channel broke, the agent's end has ended it.
            with contextlib.suppress(HostError):
                self.ask("halt")

    def clocks(self) -> dict[str, ClockReading]:
        """Read its clocks ``monotonic_ns`` and ``unix_ns``, each between two instants of ours."""
        asked_ns = time.monotonic_ns()
        answer = self.ask("clock")
        answered_ns = time.monotonic_ns()
        return {
            name: ClockReading(asked_ns, theirs, answered_ns) for name, theirs in answer.items()
        }

    def close(self) -> None:
        """Close the channel; the agent then stops and removes all of its own."""
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                # The other end may have closed already.
                try:
                    stream.close()
                except OSError:
                    continue
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stderr is not None:
            process.stderr.close()

    def _running(self) -> subprocess.Popen[bytes]:
        """Return the channel, reopened if it broke, because the host may be back."""
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        playbooks = data_dir("playbooks")
        sources = {
            access.__name__: Path(access.__file__).read_bytes(),
            ansible_temporary.__name__: Path(ansible_temporary.__file__).read_bytes(),
            locks.__name__: Path(locks.__file__).read_bytes(),
            log_end.__name__: Path(log_end.__file__).read_bytes(),
            overlaid.__name__: Path(overlaid.__file__).read_bytes(),
            kernel_files.__name__: Path(kernel_files.__file__).read_bytes(),
            cgroups.__name__: Path(cgroups.__file__).read_bytes(),
            proc.__name__: Path(proc.__file__).read_bytes(),
            interrupts.__name__: Path(interrupts.__file__).read_bytes(),
            idle_polling.__name__: Path(idle_polling.__file__).read_bytes(),
            sysfs.__name__: Path(sysfs.__file__).read_bytes(),
            "tuner_processes": (playbooks / "module_utils" / "tuner_processes.py").read_bytes(),
            "__main__": (playbooks / "files" / "tuner_agent.py").read_bytes(),
        }
        parts = [(name, len(source)) for name, source in sources.items()]
        words = (self._host.python, "-uc", _BOOT.format(parts=parts), local.this_tuner())
        command = self._host.command(*words, control_path=self._control_path, master=True)
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # Ctrl-C is for tuner alone: it needs the channel for cleaning up.
                start_new_session=True,
            )
        except OSError as error:
            raise HostError(f"{command[0]} cannot be started: {error}") from error
        self._process = process
        try:
            assert process.stdin is not None  # noqa: S101 - Popen was given pipes
            process.stdin.write(b"".join(sources.values()))
            process.stdin.flush()
        except OSError as error:
            raise UnreachableError(
                f"{self._host.name} cannot be reached: {self._last_words()}"
            ) from error
        if self._cores is not None:
            self._take_cores_again(*self._cores)
        return process

    def _take_cores_again(self, cpus: Collection[int], mine: LockHolder) -> None:
        """Take the cores that the lost channel held.

        Raises:
            HostError: another study took them.
        """
        self._cores = None
        taken = self.take_cores(cpus, mine)
        if taken.cpu >= 0:
            self.close()
            self._cores = (tuple(cpus), mine)
            raise HostError(
                f"core {taken.cpu} of {self._host.name} is in use by {taken.holder.words} since"
                " the connection was lost"
            )

    def _last_words(self) -> str:
        process = self._process
        if process is None or process.stderr is None:
            return "no message"
        process.kill()
        words = process.stderr.read().decode(errors="replace").strip()
        self.close()
        return words or "no message (ended after a silence?)"
