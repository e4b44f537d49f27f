"""Other programs on a server's core, found with real processes and the kernel's own counters."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tuner.hosts.counters import read
from tuner.hosts.proc import reports_waits
from tuner.measurement.foreign import foreign_s

pytestmark = [
    # Real-time threads would disturb what is measured next to them.
    pytest.mark.integration,
    pytest.mark.skipif(not reports_waits(), reason="this kernel has no schedstat"),
]

CORE = min(os.sched_getaffinity(0))
THREADED = """
import hashlib, os, sys, threading, time

os.sched_setaffinity(0, [int(sys.argv[1])])
alone = sys.argv[3:] == ["alone"]
data, begin, end = b"x" * 65_536, threading.Event(), threading.Event()

def work():
    begin.wait()
    while alone or time.process_time() < 0.2:
        hashlib.sha256(data).digest()

def serve():
    if sys.argv[2] == "lasting":
        work()
    else:
        threading.Thread(target=work).start()
    end.wait()

if alone:
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
threads = [threading.Thread(target=serve, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()
print(flush=True)
input()
begin.set()
while time.process_time() < 0.2 or threading.active_count() > 4:
    time.sleep(0.001)
print(flush=True)
input()
"""
"""Threads that use 0.2 s of a core together, and wait for it; alone they go on until the end, so
that the core is never idle."""
LOOP = f"import os\nos.sched_setaffinity(0, [{CORE}])\nprint(flush=True)\nwhile True: pass"


@contextlib.contextmanager
def started(*arguments: str) -> Iterator[tuple[int, Callable[[], None]]]:
    """Start a Python program; yield its id, and a function that lets it go on to its next line."""
    command = [sys.executable, "-c", *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()

        def go_on() -> None:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            process.stdout.readline()

        yield process.pid, go_on
        process.kill()


def foreign_share(*kind: str) -> tuple[float, float]:
    """Return the share of the time that others had the core, and the waits, likewise."""
    with started(THREADED, str(CORE), *kind) as (server, go_on):
        before = read([server])
        go_on()
        after = read([server])
    span_s = after.at_s - before.at_s
    queued_s = [reading.processes[server].queued_s or 0.0 for reading in (before, after)]
    found_s = foreign_s(before, after, [server])
    assert found_s is not None
    return found_s / span_s, (queued_s[1] - queued_s[0]) / span_s


@pytest.mark.root
def test_threads_that_wait_for_each_other_have_the_core_alone() -> None:
    """With real-time priority nothing else gets the core, and the waits are the server's own."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        pytest.skip("real-time priority is not permitted here, and other programs may have a core")
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    with started(LOOP):
        found, waits = foreign_share("lasting", "alone")
    assert waits > 1
    assert found < 0.1


@pytest.mark.parametrize("kind", ["lasting", "ending"])
def test_a_loop_on_the_core_of_a_threaded_server_is_found(kind: str) -> None:
    """The loop has a part of the core, as each thread; threads that have ended change nothing."""
    with started(LOOP):
        found, _ = foreign_share(kind)
    assert found > 0.12
