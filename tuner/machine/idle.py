"""The choice between idle CPUs that poll and idle CPUs that halt."""

from __future__ import annotations

from typing import Literal, get_args

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
