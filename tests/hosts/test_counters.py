"""The kernel's counters, read from /proc: this process's own, and made-up ones."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tuner.hosts.agent import Agent
from tuner.hosts.counters import RemoteCounters, read
from tuner.hosts.inventory import Host
from tuner.hosts.proc import reports_waits


def test_this_process_is_seen_to_work() -> None:
    """CPU time grows with work; memory, threads and descriptors are there."""
    before = read([os.getpid()])
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    after = read([os.getpid()])
    first, last = before.processes[os.getpid()], after.processes[os.getpid()]
    assert last.user_s + last.system_s > first.user_s + first.system_s
    assert 0 < last.memory_bytes <= last.peak_bytes
    assert last.threads >= 1
    assert last.descriptors is not None
    assert last.descriptors > 2
    assert after.at_s > before.at_s


def test_a_process_that_is_gone_is_left_out(tmp_path: Path) -> None:
    """A process that is gone, or whose counters cannot be read, is left out."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text("7 (odd) S")
    assert read([7, 8], proc=tmp_path).processes == {}


def test_fields_count_from_behind_the_name(tmp_path: Path) -> None:
    """A process may call itself anything; threads' switches are summed up."""
    folder = tmp_path / "7"
    for task in ("7", "9"):
        (folder / "task" / task).mkdir(parents=True)
        (folder / "task" / task / "status").write_text(
            "voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t1\n"
        )
    (folder / "stat").write_text("7 (a) b (c) S 1 1 1 0 -1 0 0 0 0 0 150 50 0 0 20 0 2 0\n")
    (folder / "status").write_text("Name:\ta) b\nVmHWM:\t  20 kB\nVmRSS:\t  10 kB\n")
    found = read([7], proc=tmp_path).processes[7]
    ticks = os.sysconf("SC_CLK_TCK")
    assert (found.user_s, found.system_s) == (150 / ticks, 50 / ticks)
    assert (found.memory_bytes, found.peak_bytes) == (10_240, 20_480)
    assert (found.waits, found.preemptions, found.threads) == (10, 2, 2)
    assert (found.read_bytes, found.descriptors) == (None, None)
    assert found.queued_s is None, "a kernel without schedstat tells nothing"
    for task, waited_ns in (("7", 1_500_000_000), ("9", 500_000_000)):
        (folder / "task" / task / "schedstat").write_text(f"900 {waited_ns} 12\n")
    assert read([7], proc=tmp_path).processes[7].queued_s == 2.0


@pytest.mark.skipif(not reports_waits(), reason="this kernel has no schedstat")
def test_two_processes_on_one_core_wait_for_each_other() -> None:
    """By the kernel's own count: each waited while the other one ran."""
    core = min(os.sched_getaffinity(0))
    program = (
        f"import os, time; os.sched_setaffinity(0, [{core}]); print(1, flush=True); input()\n"
        "while time.process_time() < 0.5: pass\n"
        "print(2, flush=True); input()"
    )
    with contextlib.ExitStack() as stack:
        both = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", program],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for _ in range(2)
        ]

        def all_say(words: str, after: str = "") -> None:
            for process in both:
                assert process.stdin is not None
                process.stdin.write(after)
                process.stdin.flush()
            for process in both:
                assert process.stdout is not None
                assert process.stdout.readline() == words

        all_say("1\n")
        pids = [process.pid for process in both]
        before = read(pids).processes
        all_say("2\n", "\n")
        after = read(pids).processes
        waited_s = [(after[p].queued_s or 0.0) - (before[p].queued_s or 0.0) for p in pids]
        assert sum(waited_s) > 0.2
        for process in both:
            process.kill()


def test_all_interfaces_are_summed_up(tmp_path: Path) -> None:
    """Loopback is one of them: what a local server sends goes through it."""
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "dev").write_text(
        "Inter-|   Receive |  Transmit\n face |bytes packets|bytes\n"
        "    lo: 100 1 0 0 0 0 0 0 100 1 0 0 0 0 0 0\n"
        "  eth0: 30 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n"
    )
    (tmp_path / "loadavg").write_text("0.25 0.10 0.05 1/100 4242\n")
    host = read([], proc=tmp_path).host
    assert (host.received_bytes, host.sent_bytes, host.load) == (130, 107, 0.25)


@contextlib.contextmanager
def sleepers(count: int) -> Iterator[list[int]]:
    """Yield the ids of processes that do nothing."""
    with contextlib.ExitStack() as stack:
        every = [stack.enter_context(subprocess.Popen(["sleep", "60"])) for _ in range(count)]
        yield [process.pid for process in every]
        for process in every:
            process.kill()


def test_a_backend_has_ids_of_its_own() -> None:
    """On another host the same number is another process, so its processes are kept apart."""
    with sleepers(2) as (server, backend):
        found = read([server], [backend])
    assert found.processes.keys() == {server}
    assert found.behind.keys() == {backend}


def test_processes_that_a_server_has_started_are_read_too() -> None:
    """Servers add some under load; they are known by their parent."""
    with sleepers(1) as (child,):
        found = read([os.getpid()]).processes
    assert {os.getpid(), child} <= found.keys()
    assert found[child].parent == os.getpid()
    assert found[child].cpus == found[child].main_cpus == tuple(sorted(os.sched_getaffinity(0)))


def test_another_host_is_asked_the_same(tmp_path: Path) -> None:
    """Through the agent, as over SSH: fields and processes are those that are read here."""
    agent = Agent(Host("here", {"ansible_connection": "local"}), str(tmp_path / "socket"))
    try:
        with sleepers(2) as (server, backend):
            found = RemoteCounters(agent, agent)([server], [backend])
            here = read([server], [backend])
    finally:
        agent.close()
    assert found.processes.keys() == here.processes.keys()
    assert found.behind.keys() == here.behind.keys()
    there = found.processes[server]
    assert there.descriptors
    assert (there.cpus, there.main_cpus, there.ran_s) == (
        here.processes[server].cpus,
        here.processes[server].main_cpus,
        here.processes[server].ran_s,
    )
    assert (there.queued_s is None) is not reports_waits()
    assert found.host.sent_bytes <= here.host.sent_bytes
    assert found.done is not None
    assert here.begun is not None
    assert found.done.at_s <= here.begun.at_s
    assert found.done.free_s.keys() == here.begun.free_s.keys()
