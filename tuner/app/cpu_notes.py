"""Notes on what the processors of a host do to a measurement, each with a remedy."""

from __future__ import annotations

from collections.abc import Collection

from tuner.app.interrupt_notes import card_notes, irqbalance_note
from tuner.machine.facts import CoreSplit
from tuner.machine.placement import BY_RULES, WantedCpus, shared_core
from tuner.machine.topology import Topology
from tuner.words.drawing import condensed

_STEADY = "performance"
"""Governor, or energy preference of a driver with its own governor, at full frequency."""


def cpu_notes(
    topology: Topology,
    cores: CoreSplit,
    *,
    generator: bool = True,
    wanted: WantedCpus = BY_RULES,
    speed_lost: float | None = None,
) -> list[str]:
    """Return notes on the CPUs of the serving host.

    Args:
        topology: topology of the host.
        cores: the split of its CPUs.
        generator: whether the generator runs there, too.
        wanted: CPUs that the user named.
        speed_lost: measured share of its speed that the server loses next to a spinning thread.
    """
    return [
        note
        for note in (
            _siblings(topology, cores, speed_lost) if generator else "",
            "" if wanted.server else _idle_nodes(topology, cores, generator=generator),
            _kinds(topology, cores),
            _threads(topology, cores),
            _quota(topology),
            *_frequency(topology),
            irqbalance_note(topology),
            *(
                card_notes(topology, cores.generator, cores.serving, carries_load=False)
                if generator
                else ()
            ),
        )
        if note
    ]


def generator_notes(topology: Topology, cpus: Collection[int]) -> list[str]:
    """Return notes on the host of a generator on which nothing is served.

    Args:
        topology: topology of the host.
        cpus: CPUs of the generator.
    """
    notes = (_quota(topology), *_frequency(topology), irqbalance_note(topology))
    return [*filter(None, notes), *card_notes(topology, cpus, carries_load=True)]


def _siblings(topology: Topology, cores: CoreSplit, speed_lost: float | None) -> str:
    """Return a note on a generator that shares a physical core with the server or the backend."""
    core = shared_core(topology, cores)
    if not core:
        return ""
    lost = "often a third" if speed_lost is None else f"{speed_lost:.0%}, as measured now,"
    return (
        f"generator and server run on two threads of one core (CPUs {condensed(core)}): the"
        f" generator spins, which takes {lost} of the server's speed, so its capacity is too low"
        " and its latencies are too long; all configurations have the same disadvantage. Use a"
        " machine with two physical cores, or another host for the generator (--inventory)"
    )


def _idle_nodes(topology: Topology, cores: CoreSplit, *, generator: bool) -> str:
    """Return a note on memory nodes or sockets that nothing uses."""
    running = cores.serving | set(cores.generator if generator else ())
    used = {cpu for core in topology.cores if running & set(core) for cpu in core}
    small, isolated = topology.small, set(topology.isolated)
    idle = set(topology.allowed) - used - small - isolated
    if not idle or topology.quota:
        return ""
    return (
        f"CPUs {condensed(idle)} are idle: generator and server stay in one memory node or socket;"
        " name the server's CPUs (--server-cpus) if it needs more"
    )


def _kinds(topology: Topology, cores: CoreSplit) -> str:
    small = topology.small
    if small.isdisjoint(cores.server) or small.issuperset(cores.server):
        return ""
    return (
        f"the server runs on big and small cores (small: {condensed(small & set(cores.server))}):"
        " latencies depend on the core that answers; name cores of one kind (--server-cpus)"
    )


def _threads(topology: Topology, cores: CoreSplit) -> str:
    """Return a note on server CPUs that are threads of the same core."""
    count = len(topology.cores_of(cores.server))
    if count == len(cores.server) or count < 1:
        return ""
    return (
        f"the server's {len(cores.server)} CPUs are threads of {count} cores, which slow each"
        " other: a core with one busy thread has little left for the others, so at 70 % of the CPU"
        " time it is closer to its limit, and windows differ more. For less noise switch threads"
        " off (echo off > /sys/devices/system/cpu/smt/control)"
    )


def _quota(topology: Topology) -> str:
    quota = topology.quota
    if quota is None:
        return ""
    return (
        f"the control group {quota.group} has a CPU quota of {quota.cpus:g} CPUs for all of its"
        " programs: windows in which it throttles them do not count; measure without a quota"
        " (Docker: without --cpus; Kubernetes: without limits.cpu), on CPUs of its own (cpuset)"
    )


def _frequency(topology: Topology) -> list[str]:
    """Return notes on what changes the CPUs' frequency within a study."""
    return [*filter(None, (_governor(topology), _turbo(topology)))]


def _governor(topology: Topology) -> str:
    governor = topology.governor
    if not governor or _STEADY in {governor, topology.energy_preference}:
        return ""
    preference = topology.energy_preference
    shown = f"{governor} ({preference})" if preference else governor
    return (
        f"the CPUs' frequency governor is {shown}, so their speed depends on the load; for steady"
        " windows: cpupower frequency-set -g performance"
    )


def _turbo(topology: Topology) -> str:
    if not topology.turbo:
        return ""
    return (
        "turbo is on, so the CPUs' speed depends on their temperature and on how many of them are"
        " busy. Slices meet the same speed, windows may not; for steady windows:"
        " echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo"
        " (other drivers: echo 0 > /sys/devices/system/cpu/cpufreq/boost)"
    )
