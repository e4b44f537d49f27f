"""A host's topology as text, with the programs that run on its CPUs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tuner.machine.facts import CoreSplit
from tuner.machine.topology import Cpu, Topology
from tuner.stats.words import counted

_STRIDE = 3
"""Least length of an arithmetic sequence that is written in short."""
_LONG = 60
"""Length from which on idle CPUs are counted instead of listed."""


def drawn(topology: Topology, cores: CoreSplit) -> list[str]:
    """Return a line about the host, one per memory node with its programs, and limits.

    Nodes without any program share a line, so 128 CPUs fit on a screen.
    """
    lines = [_summary(topology)]
    idle: dict[str, list[int]] = {}
    for place, cpus in _places(topology).items():
        parts = _programs(cpus, cores)
        if parts:
            lines.append(f"{place}: {', '.join(parts)}")
        else:
            idle[place] = cpus
    if idle:
        unused = [cpu for cpus in idle.values() for cpu in cpus]
        shown = next(iter(idle)) if len(idle) == 1 else f"{len(idle)} others"
        text = condensed(unused)
        lines.append(f"{shown}: idle {text if len(text) < _LONG else counted(len(unused), 'CPU')}")
    return [*lines, *_limits(topology)]


def drawn_host(topology: Topology) -> str:
    """Return a line about a host: CPUs, cores, sockets, memory nodes, caches."""
    return _summary(topology)


def condensed(cpus: Iterable[int]) -> str:
    """Return CPUs in short, ``0-3,8,12..28``: the latter is every fourth from 8 on."""
    left, words = sorted(set(cpus)), []
    while left:
        step = left[1] - left[0] if len(left) > 1 else 1
        count = 1
        while count < len(left) and left[count] - left[count - 1] == step:
            count += 1
        if step > 1 and count < _STRIDE:
            count = 1
        run, left = left[:count], left[count:]
        if count == 1:
            words.append(f"{run[0]}")
        elif step == 1:
            words.append(f"{run[0]}-{run[-1]}")
        else:
            words.append(f"{run[0]},{run[1]}..{run[-1]}")
    return ",".join(words)


def _summary(topology: Topology) -> str:
    ids = [cpu.id for cpu in topology.cpus]
    whole = topology.cores_of(ids)
    parts = [counted(len(ids), "CPU"), counted(len(whole), "core")]
    if topology.threads_per_core > 1:
        parts[-1] += f" of up to {topology.threads_per_core} threads"
    for name, found in (
        ("socket", {cpu.package for cpu in topology.cpus}),
        ("memory node", {cpu.node for cpu in topology.cpus}),
        ("last-level cache", {cpu.cache for cpu in topology.cpus}),
    ):
        if None not in found:
            parts.append(counted(len(found), name))
    if topology.small:
        parts.append(f"small cores: {condensed(topology.small)}")
    return ", ".join(parts)


def _places(topology: Topology) -> Mapping[str, list[int]]:
    """Return the CPUs by memory node, or by socket where nodes are unknown."""
    found: dict[str, list[int]] = {}
    for cpu in sorted(topology.cpus, key=_where):
        name = "CPUs"
        if cpu.node is not None:
            name = f"node {cpu.node}"
        elif cpu.package is not None:
            name = f"socket {cpu.package}"
        found.setdefault(name, []).append(cpu.id)
    return found


def _where(cpu: Cpu) -> tuple[int, int, int]:
    return (-1 if cpu.node is None else cpu.node, cpu.package or 0, cpu.id)


def _programs(cpus: Collection[int], cores: CoreSplit) -> list[str]:
    """Return what runs on some CPUs, and which of them are idle; empty if all are."""
    backend = () if cores.backend_apart else cores.backend
    programs = {"generator": cores.generator, "server": cores.server, "backend": backend}
    parts = [
        f"{name} {condensed(here)}"
        for name, theirs in programs.items()
        if (here := set(theirs) & set(cpus))
    ]
    left = set(cpus).difference(*programs.values())
    return [*parts, *([f"idle {condensed(left)}"] if left else [])] if parts else []


def _limits(topology: Topology) -> list[str]:
    """Return what keeps programs off CPUs, and the frequency settings."""
    denied = {cpu.id for cpu in topology.cpus} - set(topology.allowed)
    lines = []
    if denied:
        lines.append(f"not available to tuner (cpuset or affinity): {condensed(denied)}")
    if topology.offline:
        lines.append(f"offline: {condensed(topology.offline)}")
    if topology.isolated:
        lines.append(f"isolated from the scheduler: {condensed(topology.isolated)}")
    if topology.quota:
        lines.append(f"quota: {topology.quota.cpus:g} CPUs for {topology.quota.group}")
    turbo = {None: "", True: "turbo on", False: "turbo off"}[topology.turbo]
    preference = topology.energy_preference and f"preference {topology.energy_preference}"
    governor = topology.governor and f"governor {topology.governor}"
    frequency = ", ".join(filter(None, (governor, preference, turbo)))
    return [*lines, *([f"frequency: {frequency}"] if frequency else [])]
