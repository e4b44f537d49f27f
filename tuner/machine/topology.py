"""The topology of a host's processors as plain data; ``tuner.hosts.sysfs`` reads it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_BIG = 0.8
"""Least capacity of a big core, relative to the fastest. Favoured cores of one kind differ by less,
and small cores have at most three quarters (718 of 1024 in an Nvidia GB10)."""


@dataclass(frozen=True, slots=True)
class Cpu:
    """One logical CPU, which is a thread of a physical core."""

    id: int
    core: int
    """Lowest CPU of its physical core."""
    package: int | None = None
    """Id of the socket; None where the kernel does not say, likewise for the next three."""
    node: int | None = None
    """Memory node."""
    cache: int | None = None
    """Lowest CPU of those that share its last-level cache."""
    capacity: int | None = None
    """Speed relative to the fastest CPU, which has 1024."""
    atom: bool = False
    """True if the kernel lists it among the small cores of a hybrid Intel processor."""


@dataclass(frozen=True, slots=True)
class Quota:
    """A CPU quota of a control group."""

    group: str
    """Path of the control group."""
    cpus: float
    """CPU time that the group may use per time, in CPUs."""


@dataclass(frozen=True, slots=True)
class Interrupt:
    """An interrupt of a network card."""

    device: str
    """Name of the card, such as ``eth0``."""
    irq: int
    cpus: tuple[int, ...]
    """CPUs that handle it."""
    per_s: float
    """Mean rate since the boot, interrupts per second."""


@dataclass(frozen=True, slots=True)
class Topology:
    """The CPUs of a host, and what limits their use."""

    cpus: tuple[Cpu, ...]
    """CPUs that are online, by id."""
    allowed: tuple[int, ...]
    """CPUs that this process may use."""
    offline: tuple[int, ...] = ()
    isolated: tuple[int, ...] = ()
    """CPUs without the scheduler's load balancing (``isolcpus``)."""
    quota: Quota | None = None
    """Smallest quota above this process; None without one."""
    governor: str = ""
    """Frequency governor, several with commas; empty: unknown."""
    energy_preference: str = ""
    """Energy preference of the frequency driver; empty: unknown."""
    turbo: bool | None = None
    """True if frequencies above the nominal one are allowed; None: unknown."""
    irqbalance: bool = False
    """True if irqbalance runs, which moves interrupts between CPUs."""
    interrupts: tuple[Interrupt, ...] = ()
    """Interrupts of network cards that have had one since the boot."""

    @property
    def cores(self) -> tuple[tuple[int, ...], ...]:
        """The allowed CPUs by physical core, in the order of their first CPUs."""
        return self.cores_of(self.allowed)

    @property
    def threads_per_core(self) -> int:
        """Largest number of threads of a physical core."""
        return max((len(core) for core in self.cores_of(cpu.id for cpu in self.cpus)), default=1)

    @property
    def small(self) -> frozenset[int]:
        """Small cores of a processor that has big ones too."""
        most = max((cpu.capacity or 0 for cpu in self.cpus), default=0)
        slow = {cpu.id for cpu in self.cpus if cpu.capacity and cpu.capacity < _BIG * most}
        return frozenset(slow | {cpu.id for cpu in self.cpus if cpu.atom})

    def cores_of(self, cpus: Iterable[int]) -> tuple[tuple[int, ...], ...]:
        """Return CPUs by physical core."""
        core = {cpu.id: cpu.core for cpu in self.cpus}
        found: dict[int, list[int]] = {}
        for cpu in sorted(cpus):
            found.setdefault(core.get(cpu, cpu), []).append(cpu)
        return tuple(sorted(map(tuple, found.values())))

    def nodes_of(self, cpus: Iterable[int]) -> tuple[int, ...]:
        """Return the memory nodes of some CPUs; empty if they are unknown."""
        wanted = set(cpus)
        nodes = {cpu.node for cpu in self.cpus if cpu.id in wanted}
        return tuple(sorted(node for node in nodes if node is not None))


def flat(cpus: Sequence[int]) -> Topology:
    """Return a topology in which every CPU is a core of its own."""
    ids = tuple(sorted(cpus))
    return Topology(tuple(Cpu(cpu, cpu) for cpu in ids), ids)


def topology_of(found: Mapping[str, Any]) -> Topology:
    """Return the topology from the result of ``tuner.hosts.sysfs``."""
    quota = found["quota"]
    return Topology(
        cpus=tuple(Cpu(**cpu) for cpu in found["cpus"]),
        allowed=tuple(found["allowed"]),
        offline=tuple(found["offline"]),
        isolated=tuple(found["isolated"]),
        quota=Quota(**quota) if quota else None,
        governor=found["governor"],
        energy_preference=found["energy_preference"],
        turbo=found["turbo"],
        irqbalance=found["irqbalance"],
        interrupts=tuple(
            Interrupt(**{**each, "cpus": tuple(each["cpus"])}) for each in found["interrupts"]
        ),
    )


def parse_cpus(text: str) -> tuple[int, ...]:
    """Return the CPUs of a text such as ``0-3,8``.

    Raises:
        ValueError: the text is not a list of CPUs; the message has the allowed form.
    """
    found: set[int] = set()
    for part in text.split(","):
        bounds = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", part.strip())
        if bounds is None or int(bounds[2] or bounds[1]) < int(bounds[1]):
            raise ValueError("allowed: CPUs and ranges of them, such as 0-3,8")
        found.update(range(int(bounds[1]), int(bounds[2] or bounds[1]) + 1))
    return tuple(sorted(found))


def cpu_ranges(cpus: Iterable[int]) -> str:
    """Return CPUs as the kernel writes them: ``0-3,8``."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and runs[-1][-1] == cpu - 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(f"{run[0]}-{run[-1]}" if run[1:] else str(run[0]) for run in runs)
