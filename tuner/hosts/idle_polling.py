"""Idle CPUs that poll instead of halting.

Linux halts no CPU while a process demands a wake-up latency of 0 µs, through the device
``/dev/cpu_dma_latency`` (Documentation/power/pm_qos_interface.rst). The demand applies to all CPUs.
It ends when the file is closed, so also if the process is killed.

The agent runs this file on other hosts, so it needs only the standard library of Python 3.8.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tuner.hosts.kernel_files import text_of

_DEVICE = "dev/cpu_dma_latency"
_POLLING = "POLL"
"""Name of the idle state without a halt (drivers/cpuidle/poll_state.c)."""


@contextmanager
def polling(root: str = "/") -> Iterator[None]:
    """Let idle CPUs poll.

    Raises:
        OSError: the kernel does not offer it, or this account may not.
    """
    with Path(root, _DEVICE).open("wb", buffering=0) as stream:
        stream.write(struct.pack("=i", 0))
        yield


def refusal(cpus: Iterable[int], root: str = "/") -> str:
    """Return why these CPUs cannot poll while they are idle; empty if they can."""
    for cpu in cpus:
        # Without a driver for idle states (a guest without cpuidle), a CPU halts in any case.
        state = Path(root, f"sys/devices/system/cpu/cpu{cpu}/cpuidle/state0")
        if text_of(state / "name").strip() != _POLLING or text_of(state / "disable").strip() == "1":
            return f"the kernel has no idle state for CPU {cpu} that polls"
    try:
        with polling(root):
            return ""
    except PermissionError as error:
        return f"/{_DEVICE}: {error.strerror}; run as root"
    except OSError as error:
        return f"/{_DEVICE}: {error.strerror}"
