"""The agent that serves tuner on a host between two windows, over one SSH channel.

Read a line of JSON, answer with a line of JSON: files, clocks, ports, commands, and what the
host's cores and the server's processes did meanwhile. During a window nothing is written to the
channel: stalls and samples are kept in memory until they are asked for, because a byte that SSH
encrypts is work on the host under test.

Sent as source through the channel itself, behind the modules that it imports from ``tuner.hosts``,
and run by the Python there, 3.8 or newer, with the standard library alone. When the channel ends,
what it started and made is taken away.
"""

from __future__ import annotations

import base64
import contextlib
import glob
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from json import dumps, loads

from tuner_processes import environment_of, runs_of, the_run_of

from tuner.hosts.access import is_enterable, is_readable
from tuner.hosts.ansible_temporary import sweep
from tuner.hosts.idle_polling import polling, refusal
from tuner.hosts.locks import LockHolder, Locks, take_cores
from tuner.hosts.log_end import log_end
from tuner.hosts.overlaid import run_overlaid
from tuner.hosts.proc import counters
from tuner.hosts.sysfs import topology

PERIOD_S = 0.05
"""Interval between readings of the server's processes; 20 per second cost some 2 ms of CPU."""
KEPT = 100_000
"""Limit for samples and stalls in memory; the oldest are dropped first."""
ORPHAN_S = 5
"""Time that an agent gets to clean up before it is killed."""
SAID = 1 << 20
"""Limit for the output of a command, characters; enough for a whole configuration."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Sampler(threading.Thread):
    """CPU time and memory of some processes, again and again, with the monotonic clock."""

    def __init__(self):
        super().__init__(daemon=True)
        self.pids: tuple[int, ...] = ()
        self.samples: deque[object] = deque(maxlen=KEPT)

    def run(self):
        """Sample until the process ends."""
        while True:
            pids = self.pids
            if pids:
                now = time.monotonic_ns()
                read = [(pid, cpu_ns(pid), rss_bytes(pid)) for pid in pids]
                there = [row for row in read if None not in row]
                cpu = {pid: used for pid, used, _ in there}
                rss = {pid: resident for pid, _, resident in there}
                self.samples.append((now, cpu, rss))
            time.sleep(PERIOD_S)


class Ticker(threading.Thread):
    """``tuner-loadgen ticker`` on this host; its lines are kept here."""

    def __init__(self, command):
        super().__init__(daemon=True)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines, words = self.process.stdout, self.process.stderr
        assert self.lines is not None  # noqa: S101 - Popen was given pipes
        assert words is not None  # noqa: S101 - likewise
        first = self.lines.readline()
        if not first:
            raise RuntimeError(words.read().strip() or "the ticker said nothing")
        self.header = loads(first)
        self.stalls: deque[object] = deque(maxlen=KEPT)
        self.resolution_us = self.header["resolution_us"]
        self.steal_s = {}

    def run(self):
        """Keep lines until the ticker ends."""
        for line in self.lines or ():
            reported = loads(line)
            if reported["type"] == "stall":
                self.stalls.append(reported["monotonic_ns"])
            elif reported["type"] == "clock":
                self.steal_s = reported["steal_s"]
                if reported["resolution_us"] is not None:
                    self.resolution_us = max(self.resolution_us, reported["resolution_us"])


def cpu_ns(pid):
    """CPU time of a process by its own clock (clock_getcpuclockid(3)); None if it is gone."""
    try:
        return time.clock_gettime_ns((~pid << 3) | 2)
    except OSError:
        return None


def rss_bytes(pid):
    """Resident memory of a process; None if it is gone."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as stream:
            return int(stream.read().split()[1]) * PAGE_BYTES
    except OSError:
        return None


def agents_of(tuner):
    """Return the ids of this account's agents that serve a tuner."""
    found = []
    for pid in runs_of(sys.executable, tuner):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{pid}").st_uid == os.geteuid():
                found.append(pid)
    return found


def drain(kept):
    """All that was kept, which is then forgotten."""
    reported = []
    with contextlib.suppress(IndexError):
        while True:
            reported.append(kept.popleft())
    return reported


class Agent:
    """The requests that it answers, one method each."""

    def __init__(self):
        self.folders = []
        self.ticker = None
        self.idle = contextlib.ExitStack()
        self.locks = Locks()
        self.sampler = Sampler()
        self.sampler.start()

    def clock(self):
        """Both clocks: the monotonic one, and the one since 1970."""
        return {"monotonic_ns": time.monotonic_ns(), "unix_ns": time.time_ns()}

    def service(self, program):
        """The environment of the service that runs a program; of none, or of several, why."""
        try:
            return {"environment": environment_of(the_run_of(program))}
        except LookupError as error:
            return {"refused": str(error)}

    def run(self, command, given=None, timeout_s=60, environment=None, cwd=None):
        """Run a command to its end."""
        done = subprocess.run(
            command,
            input=given,
            env=environment,
            cwd=cwd,
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
        return {"code": done.returncode, "out": done.stdout[-SAID:], "err": done.stderr[-SAID:]}

    def overlaid(self, contents, command, program):
        """Run a command that sees other contents in some files, as the service's process is."""
        like = the_run_of(program) if program else 0
        environment = environment_of(like) if like else None
        if environment is not None:
            # systemd's, who would take the command for the service.
            environment.pop("NOTIFY_SOCKET", None)
        texts = {path: base64.b64decode(content) for path, content in contents.items()}
        return run_overlaid(texts, command, like=like, environment=environment)

    def usage(self, program):
        """CPU time and resident memory of all processes that run a program."""
        path = self.which(program)["path"] or program
        pids = [pid for pid in runs_of(path) if cpu_ns(pid) is not None]
        cpu = sum(cpu_ns(pid) or 0 for pid in pids)
        return {"pids": pids, "cpu_ns": cpu, "rss_bytes": sum(rss_bytes(pid) or 0 for pid in pids)}

    def which(self, name):
        """Where a program is, the folders of administrators among them."""
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])
        return {"path": shutil.which(name, path=path)}

    def folder(self):
        """A new folder for files, removed when the channel ends."""
        self.folders.append(tempfile.mkdtemp(prefix="tuner-"))
        return {"path": self.folders[-1]}

    def remove(self, path):
        """Remove a folder that this agent made."""
        self.folders.remove(path)
        shutil.rmtree(path, ignore_errors=True)
        return {}

    def put(self, path, content):
        """Write a file, and the folders that it lies in."""
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(base64.b64decode(content))
        return {}

    def take(self, path):
        """Read a file and remove it."""
        with open(path, "rb") as stream:
            content = stream.read()
        os.unlink(path)
        return {"content": base64.b64encode(content).decode()}

    def read(self, path):
        """A file's content; of one that cannot be read, why."""
        try:
            with open(path, "rb") as stream:
                return {"content": base64.b64encode(stream.read()).decode()}
        except OSError as error:
            return {"refused": [error.errno, error.strerror]}

    def log_end(self, path):
        """The last lines of a log; nothing if there is none."""
        return {"content": base64.b64encode(log_end(path)).decode()}

    def enterable(self, path):
        """Return whether the account of the instances may enter a folder."""
        return {"may": is_enterable(path)}

    def readable(self, path):
        """Return whether the account of the instances may read a file."""
        return {"may": is_readable(path)}

    def matches(self, pattern):
        """The files of a name or a pattern, sorted."""
        if glob.has_magic(pattern):
            return {"paths": sorted(glob.glob(pattern))}
        return {"paths": [pattern] if os.path.isfile(pattern) else []}

    def ports(self, address, first, last, count):
        """So many consecutive ports on which nothing listens."""
        while first + count <= last:
            taken = [port for port in range(first, first + count) if not is_free(address, port)]
            if not taken:
                return {"first": first}
            first = taken[-1] + 1
        return {"first": None}

    def take_cores(self, cpus, mine):
        """Take the locks of these cores, until this process ends."""
        taken = take_cores(self.locks, cpus, LockHolder(*mine))
        return {"cpu": taken.cpu, "holder": taken.holder, "unusable": taken.unusable}

    def end_agents_of(self, tuner):
        """End the agents of a tuner that has ended, which a broken channel left here.

        An agent is known by its command line, which other accounts cannot change, unlike a lock's
        text.
        """
        for number in (signal.SIGTERM, signal.SIGKILL):
            # Looked up again each time: the id of a process that ended may have a new owner.
            for pid in agents_of(tuner):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            until = time.monotonic() + ORPHAN_S
            while agents_of(tuner) and time.monotonic() < until:
                time.sleep(0.02)
        return {}

    def watch(self, command):
        """Start the ticker."""
        self.ticker = Ticker(command)
        self.ticker.start()
        return self.ticker.header

    def refusal_to_poll(self, cpus):
        """Return why idle CPUs here cannot poll; empty if they can."""
        return {"reason": refusal(cpus)}

    def poll(self):
        """Let idle CPUs poll until `halt`, or the end of the channel."""
        self.idle.enter_context(polling())
        return {}

    def halt(self):
        """Let idle CPUs halt again."""
        self.idle.close()
        return {}

    def follow(self, pids):
        """Sample these processes from now on."""
        self.sampler.pids = tuple(pids)
        return {}

    def counters(self, pids):
        """Return the kernel's counters of these processes and of the host."""
        return counters(pids)

    def topology(self):
        """The processor's topology, as far as the kernel shows it."""
        return topology()

    def window(self):
        """Return samples and stalls since the last call."""
        return {
            "samples": drain(self.sampler.samples),
            "stalls": drain(self.ticker.stalls) if self.ticker else [],
            "resolution_us": self.ticker.resolution_us if self.ticker else 0.0,
            "steal_s": sum(self.ticker.steal_s.values()) if self.ticker else 0.0,
            "ticks": self.ticker is not None and self.ticker.process.poll() is None,
        }

    def end(self):
        """Take away what was started and made."""
        if self.ticker is not None:
            self.ticker.process.kill()
            self.ticker.process.wait()
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)


def is_free(address, port):
    """Return whether nothing listens there."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def serve(source, sink):
    """Answer requests until there are no more."""
    agent = Agent()
    try:
        for line in source:
            try:
                asked = loads(line)
                answer = getattr(agent, asked.pop("what"))(**asked)
            except Exception as error:  # noqa: BLE001 - the client gets any error
                answer = {"error": f"{type(error).__name__}: {error}"}
            sink.write(dumps(answer) + "\n")
            sink.flush()
    finally:
        agent.end()


if __name__ == "__main__":
    # A hang-up is the end of the channel, not of the cleaning up after it.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    sweep()
    serve(sys.stdin, sys.stdout)
