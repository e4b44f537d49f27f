"""Idle CPUs that poll: what the kernel must offer, and what it does then."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from tuner.hosts.agent import Agent
from tuner.hosts.idle_polling import polling, refusal
from tuner.hosts.inventory import Host

CPU = max(os.sched_getaffinity(0))
polls = pytest.mark.skipif(bool(refusal([CPU])), reason=refusal([CPU]) or "they can")


def host(root: Path, name: str, *, disabled: bool = False) -> str:
    """Return the root of a host with a first idle state of that name on CPU 3."""
    state = root / "sys/devices/system/cpu/cpu3/cpuidle/state0"
    state.mkdir(parents=True)
    (state / "name").write_text(f"{name}\n")
    (state / "disable").write_text(f"{int(disabled)}\n")
    (root / "dev").mkdir()
    (root / "dev/cpu_dma_latency").touch()
    return str(root)


def demanded_us() -> int:
    """Return the lowest latency that anybody demands, as the kernel reports it."""
    descriptor = os.open("/dev/cpu_dma_latency", os.O_RDONLY)
    try:
        (found,) = struct.unpack("=i", os.read(descriptor, 4))
    finally:
        os.close(descriptor)
    return int(found)


def is_held() -> bool:
    """Return whether this process holds a demand. Other tests may hold some at the same time."""
    files = Path("/proc/self/fd").iterdir()
    return any(f.is_symlink() and str(f.readlink()) == "/dev/cpu_dma_latency" for f in files)


def test_the_kernel_is_asked_for_no_latency(tmp_path: Path) -> None:
    """The demand is a signed integer of four bytes, in the kernel's own order."""
    root = host(tmp_path, "POLL")
    assert refusal([3], root) == ""
    with polling(root):
        pass
    assert (tmp_path / "dev/cpu_dma_latency").read_bytes() == bytes(4)


def test_a_cpu_without_a_state_that_polls_halts_in_any_case(tmp_path: Path) -> None:
    """On ARM the first state waits for an interrupt, and a guest may have no states at all."""
    root = host(tmp_path, "WFI")
    assert refusal([3], root) == "the kernel has no idle state for CPU 3 that polls"
    assert refusal([4], root) == "the kernel has no idle state for CPU 4 that polls"


def test_a_state_that_is_switched_off_does_not_count(tmp_path: Path) -> None:
    """The administrator may have done so."""
    assert refusal([3], host(tmp_path, "POLL", disabled=True))


def test_a_missing_device_is_named(tmp_path: Path) -> None:
    """As in a container without it."""
    root = host(tmp_path, "POLL")
    (tmp_path / "dev/cpu_dma_latency").unlink()
    (tmp_path / "dev").rmdir()
    assert refusal([3], root) == "/dev/cpu_dma_latency: No such file or directory"


@polls
def test_idle_cpus_poll_until_the_demand_is_closed() -> None:
    """The kernel has it at once, and drops it with the file."""
    assert not is_held()
    with polling():
        assert is_held()
        assert demanded_us() == 0
    assert not is_held()


@polls
def test_another_host_polls_while_its_agent_is_asked_to() -> None:
    """A lost channel ends the agent, and the kernel then drops its demand."""
    agent = Agent(Host("here", {"ansible_connection": "local"}), "")
    try:
        assert agent.refusal_to_poll([CPU]) == ""
        with agent.polling():
            assert demanded_us() == 0
            assert not is_held()
    finally:
        agent.close()
