"""Running a third-party load generator for one window, with the CPU time of both sides.

wrk2 and h2load take all input on the command line and report at their end, so one window is one
process. It runs on the generator's CPUs, with a time limit.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.errors import InstrumentError

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_KEPT_WORDS = 500


class HungProgramError(InstrumentError):
    """A program that exceeded its time limit and was ended."""


@dataclass(frozen=True, slots=True)
class CompletedProgram:
    """A program that ran to its end, with any exit code."""

    code: int
    out: str
    err: str
    started_unix_s: float
    elapsed_s: float
    cpu_s: float
    """CPU time of the program with all its threads."""
    server_cpu_s: float | None
    """CPU time of the server's processes during the run; None if unreadable."""
    server_rss_bytes: int | None
    steal_s: float
    """Time that the hypervisor took from any CPU during the run (proc(5), /proc/stat)."""

    @property
    def words(self) -> str:
        """End of its error output, or else of its output."""
        return (self.err.strip() or self.out.strip())[-_KEPT_WORDS:] or f"exit code {self.code}"


def find(name: str, hint: str) -> Path:
    """Return the program on the PATH.

    Raises:
        InstrumentError: it is missing; ``hint`` is the way to install it.
    """
    found = shutil.which(name)
    if found is None:
        raise InstrumentError(f"--load {name}: there is no {name} on the PATH; {hint}")
    return Path(found)


def run(
    command: Sequence[str],
    *,
    cpus: Sequence[int],
    pids: Sequence[int],
    patience_s: float,
    folder: Path,
) -> CompletedProgram:
    """Run a program on some CPUs to its end.

    Args:
        command: program and arguments.
        cpus: CPUs for the program.
        pids: the server's processes, for their CPU time.
        patience_s: time limit.
        folder: working folder.

    Raises:
        HungProgramError: it exceeded its time limit.
        InstrumentError: it cannot be started.
    """
    steal, own, servers = _stolen_s(), _children_cpu_s(), _cpu_s(pids)
    started_unix_s, begun = time.time(), time.monotonic()
    try:
        with _on(cpus):
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=folder,
                text=True,
                errors="replace",
            )
    except OSError as error:
        raise InstrumentError(f"{command[0]} cannot be started: {error}") from error
    with process:
        try:
            out, err = process.communicate(timeout=patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
            raise HungProgramError(
                f"{command[0]} was ended: it did not end within {patience_s:.0f} s"
            ) from None
        except BaseException:
            process.kill()
            raise
    elapsed_s = time.monotonic() - begun
    after = _cpu_s(pids)
    return CompletedProgram(
        code=process.returncode,
        out=out,
        err=err,
        started_unix_s=started_unix_s,
        elapsed_s=elapsed_s,
        cpu_s=_children_cpu_s() - own,
        server_cpu_s=None if servers is None or after is None else max(0.0, after - servers),
        server_rss_bytes=_rss_bytes(pids),
        steal_s=_stolen_s() - steal,
    )


@contextlib.contextmanager
def _on(cpus: Sequence[int]) -> Iterator[None]:
    """Confine the processes started inside to these CPUs (sched_setaffinity(2))."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _cpu_s(pids: Sequence[int]) -> float | None:
    """Return user and system time of processes, fields 14 and 15 of /proc/PID/stat (proc(5))."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1]
        except OSError:
            return None
        total += sum(map(int, fields.split()[11:13]))
    return total / _TICKS_PER_S if pids else None


def _rss_bytes(pids: Sequence[int]) -> int | None:
    total = 0
    for pid in pids:
        try:
            total += int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
        except OSError:
            return None
    return total * _PAGE_BYTES if pids else None


def _stolen_s() -> float:
    with contextlib.suppress(OSError, IndexError, ValueError):
        first = Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0]
        return int(first.split()[8]) / _TICKS_PER_S
    return 0.0
