"""The choice between idle CPUs that poll and idle CPUs that halt."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal, get_args

from tuner.machine.facts import CoreSplit

IdleCpus = Literal["auto", "poll", "halt"]
"""By the host, polling, or as the host has it."""
IDLE_CPUS: tuple[IdleCpus, ...] = get_args(IdleCpus)
AUTO, POLL, HALT = IDLE_CPUS
UNKNOWN_OR_NONE = frozenset({"none", "unknown"})
"""Virtualisations of hosts without a known hypervisor."""


def should_poll(wanted: IdleCpus, virtualisation: str) -> bool:
    """Return whether idle CPUs should poll: by default on a virtual host.

    A virtual CPU that halts gives its core to the hypervisor's other guests, and waits for its turn
    at each wake-up. Such waits depend on the configuration, because a server that needs less CPU
    time halts more often. A physical core loses nothing when it halts, and polling would slow its
    hyperthread.

    Args:
        wanted: the user's choice.
        virtualisation: the host's (`HostFacts.virtualisation`).
    """
    if wanted == AUTO:
        return virtualisation not in UNKNOWN_OR_NONE
    return wanted == POLL


def refusal_to_poll(
    wanted: IdleCpus,
    virtualisation: str,
    cores: CoreSplit,
    asked: Callable[[Collection[int]], str],
) -> str | None:
    """Return why a server's idle CPUs cannot poll; empty if they can, None if they should halt.

    They halt on a core that the generator fills.

    Args:
        wanted: the user's choice.
        virtualisation: the host's (`HostFacts.virtualisation`).
        cores: cores of the study.
        asked: returns why CPUs of the serving host cannot poll; empty if they can.
    """
    if cores.shared or not should_poll(wanted, virtualisation):
        return None
    return asked(cores.server)
