"""Topologies of real machines, as facts and as the files in which a kernel shows them.

A file in ``topologies/`` has one machine. A list such as ``0-3,8`` has CPUs, several with blanks
are groups (the CPUs of a core, of a cache), and ``3=0-7`` names a group. ``alone`` and ``proxied``
are the placements without and with a backend.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tuner.machine.facts import CoreSplit
from tuner.machine.topology import Cpu, Topology, cpu_ranges, parse_cpus

FOLDER = Path(__file__).parent / "topologies"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


@dataclass(frozen=True, slots=True)
class Machine:
    """A real machine, and where its programs go."""

    topology: Topology
    alone: CoreSplit
    proxied: CoreSplit


def machine(name: str) -> Machine:
    """Return the machine of a file."""
    lines = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    facts = dict(line.split(": ", 1) for line in lines if not line.startswith("#"))
    online = parse_cpus(facts["online"])
    cores = {cpu: min(group) for group in groups(facts.get("cores")) for cpu in group}
    packages = {cpu: i for i, group in enumerate(groups(facts.get("packages"))) for cpu in group}
    caches = {cpu: min(group) for group in groups(facts.get("caches")) for cpu in group}
    nodes, capacities = named(facts.get("nodes")), named(facts.get("capacities"))
    cpus = (
        Cpu(
            id=cpu,
            core=cores.get(cpu, cpu),
            package=packages.get(cpu),
            node=nodes.get(cpu),
            cache=caches.get(cpu),
            capacity=capacities.get(cpu),
        )
        for cpu in online
    )
    topology = Topology(
        tuple(cpus),
        parse_cpus(facts.get("allowed", facts["online"])),
        offline=parse_cpus(facts["offline"]) if "offline" in facts else (),
        governor=facts.get("governor", ""),
        turbo={"yes": True, "no": False}.get(facts.get("turbo", "")),
    )
    return Machine(topology, split(facts["alone"]), split(facts["proxied"]))


def groups(text: str | None) -> list[tuple[int, ...]]:
    """Return groups of CPUs."""
    return [parse_cpus(part) for part in (text or "").split()]


def named(text: str | None) -> dict[int, int]:
    """Return the name of each CPU's group."""
    parts = [part.split("=") for part in (text or "").split()]
    return {cpu: int(name) for name, cpus in parts for cpu in parse_cpus(cpus)}


def split(text: str) -> CoreSplit:
    """Return a placement such as ``generator 0, server 1-3``."""
    words = [part.split() for part in text.split(", ")]
    cpus = {part[0]: parse_cpus(part[1]) for part in words if len(part) > 1}
    return CoreSplit(
        cpus["generator"], cpus["server"], cpus.get("backend", ()), shared=["shared"] in words
    )


def laid_out(topology: Topology, root: Path, *, masks: bool = False) -> None:
    """Write the files in which a kernel shows a topology.

    Args:
        topology: the topology.
        root: the folder for ``proc`` and ``sys``.
        masks: whether to write masks in place of lists, as old kernels do.
    """

    def shared(folder: str, name: str, cpus: Iterable[int]) -> dict[str, str]:
        if not masks:
            return {f"{folder}/{name}_list": cpu_ranges(cpus)}
        mask = f"{sum(1 << cpu for cpu in cpus):x}"
        pieces = [mask[max(0, end - 8) : end] for end in range(len(mask), 0, -8)]
        name = name + "_map" if name == "shared_cpu" else name
        return {f"{folder}/{name}": ",".join(reversed(pieces))}

    sys, files = "sys/devices/system", dict[str, str]()
    ids = [cpu.id for cpu in topology.cpus]
    core = {cpu: group for group in topology.cores_of(ids) for cpu in group}
    for cpu in topology.cpus:
        folder = f"{sys}/cpu/cpu{cpu.id}"
        files |= shared(f"{folder}/topology", "thread_siblings", core[cpu.id])
        package = -1 if cpu.package is None else cpu.package
        files[f"{folder}/topology/physical_package_id"] = str(package)
        if cpu.cache is not None:
            sharing = [other.id for other in topology.cpus if other.cache == cpu.cache]
            files |= shared(f"{folder}/cache/index3", "shared_cpu", sharing)
            files[f"{folder}/cache/index3/level"] = "3"
        if cpu.capacity is not None:
            files[f"{folder}/cpu_capacity"] = str(cpu.capacity)
        if topology.governor:
            files[f"{folder}/cpufreq/scaling_governor"] = topology.governor
    for node in {cpu.node for cpu in topology.cpus if cpu.node is not None}:
        inside = [cpu.id for cpu in topology.cpus if cpu.node == node]
        files[f"{sys}/node/node{node}/cpulist"] = cpu_ranges(inside)
    files[f"{sys}/cpu/online"] = cpu_ranges(ids)
    files[f"{sys}/cpu/present"] = cpu_ranges([*ids, *topology.offline])
    files[f"{sys}/cpu/isolated"] = cpu_ranges(topology.isolated)
    if topology.turbo is not None:
        files[f"{sys}/cpu/intel_pstate/no_turbo"] = str(int(not topology.turbo))
    files["proc/self/status"] = f"Name:\tx\nCpus_allowed_list:\t{cpu_ranges(topology.allowed)}"
    write(root, files)


def write(root: Path, files: Mapping[str, str]) -> None:
    """Write files as the kernel does, with a line feed at the end."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n", encoding="utf-8")
