"""The processor's topology as plain data, read from /sys: see sysfs-devices-system-cpu (kernel).

The agent runs this file on other hosts, so it needs only the standard library of Python 3.8. Files
that are missing leave their figure unknown and never fail: containers, virtual machines and other
architectures have few of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tuner.hosts.cgroups import cpuset, quota
from tuner.hosts.interrupts import network_interrupts
from tuner.hosts.kernel_files import entries_of, text_of

_CPU = "sys/devices/system/cpu"
_NODE = "sys/devices/system/node"
_ATOM = "sys/devices/cpu_atom/cpus"
"""Small cores of hybrid Intel processors (kernel, perf's man page on hybrid events)."""


def topology(root: str = "/") -> dict[str, Any]:
    """Return the topology under the names of ``tuner.machine.topology.Topology``.

    Args:
        root: folder that holds ``proc`` and ``sys``; another one in tests.
    """
    top, proc = Path(root) / _CPU, Path(root) / "proc"
    online = cpu_list(text_of(top / "online")) or _folders(top)
    allowed = cpu_list(_status(proc / "self" / "status", "Cpus_allowed_list"))
    if not online:
        online = allowed or list(range(os.cpu_count() or 1))
    allowed = sorted(set(allowed) & set(online)) or online
    isolated = cpu_list(text_of(top / "isolated"))
    # Every process begins on the other CPUs, and may move to the isolated ones of its CPU set
    # (Documentation/admin-guide/kernel-parameters.txt, isolcpus). A user's own choice stays.
    if set(allowed) == set(online) - set(isolated):
        allowed = sorted({*allowed, *(set(cpu_list(cpuset(root))) & set(isolated))})
    nodes = _nodes(Path(root) / _NODE)
    atoms = cpu_list(text_of(Path(root) / _ATOM))
    capacities = _capacities(top, online)
    known = set(cpu_list(text_of(top / "present"))) | set(_folders(top, every=True))
    return {
        "cpus": [
            {
                **_shape(top, cpu, set(online)),
                "node": nodes.get(cpu),
                "capacity": capacities.get(cpu),
                "atom": cpu in atoms,
            }
            for cpu in online
        ],
        "offline": sorted(known - set(online)),
        "allowed": allowed,
        "isolated": isolated,
        "quota": quota(root),
        "governor": _common(top, online, "scaling_governor"),
        "energy_preference": _common(top, online, "energy_performance_preference"),
        "turbo": _turbo(top),
        "irqbalance": _runs(proc, "irqbalance"),
        "interrupts": [
            {**each, "cpus": cpu_list(each["cpus"])} for each in network_interrupts(root)
        ],
    }


def cpu_list(text: str) -> list[int]:
    """Return the CPUs of a list such as ``0-3,8``; empty if it is none."""
    found: set[int] = set()
    for part in text.strip().split(","):
        bounds = re.match(r"^(\d{1,6})(?:-(\d{1,6}))?(?::(\d+)/(\d+))?$", part.strip())
        if bounds:
            first, last = int(bounds.group(1)), int(bounds.group(2) or bounds.group(1))
            found.update(range(first, last + 1))
    return sorted(found)


def _shape(top: Path, cpu: int, online: set[int]) -> dict[str, Any]:
    """Return what the CPU's own folder says about its place."""
    parts = _folder(top, cpu) / "topology"
    siblings = _shared(parts, "thread_siblings") or _shared(parts, "core_cpus")
    return {
        "id": cpu,
        "core": min({cpu}.union(siblings) & online),
        "package": _known(_number(parts / "physical_package_id")),
        "cache": _last_cache(_folder(top, cpu) / "cache", cpu, online),
    }


def _capacities(top: Path, cpus: Iterable[int]) -> dict[int, int]:
    """Return the speed of each CPU relative to the fastest one, which has 1024.

    Where the kernel has no capacities, on x86 before 6.12, the nominal frequencies of Intel's
    driver distinguish big and small cores. Highest frequencies do not: favoured cores have others.
    """
    found = {cpu: _number(_folder(top, cpu) / "cpu_capacity") for cpu in cpus}
    if not any(found.values()):
        name = "cpufreq/base_frequency"
        found = {cpu: _number(_folder(top, cpu) / name) for cpu in cpus}
    known = {cpu: value for cpu, value in found.items() if value}
    return {cpu: round(1024 * value / max(known.values())) for cpu, value in known.items()}


def _last_cache(folder: Path, cpu: int, online: set[int]) -> int | None:
    """Return the lowest CPU of those that share a CPU's last cache; None if it is unknown."""
    found: tuple[int, list[int]] = (0, [])
    for name in _names(folder):
        index = folder / name
        level = _number(index / "level") or 0
        shared = [each for each in _shared(index, "shared_cpu") if each in online]
        # Some kernels list a cache without its own CPU: then it is unknown.
        if level > found[0] and cpu in shared:
            found = level, shared
    return min(found[1]) if found[0] > 1 else None


def _shared(folder: Path, name: str) -> list[int]:
    """Return the CPUs of one of the kernel's ``NAME_list`` files."""
    return _either(folder, name + "_list", (name + "_map", name))


def _either(folder: Path, listed: str, masks: Iterable[str]) -> list[int]:
    """Return the CPUs of a list, or of the mask that older kernels have alone."""
    found = cpu_list(text_of(folder / listed))
    if found:
        return found
    for mask in masks:
        text = text_of(folder / mask).strip().replace(",", "")
        if re.match(r"^[0-9a-fA-F]+$", text):
            bits = int(text, 16)
            return [bit for bit in range(bits.bit_length()) if bits >> bit & 1]
    return []


def _nodes(top: Path) -> dict[int, int]:
    """Return the memory node of each CPU."""
    found: dict[int, int] = {}
    for name in _names(top):
        node = re.match(r"^node(\d+)$", name)
        if node:
            for cpu in _either(top / name, "cpulist", ("cpumap",)):
                found.setdefault(cpu, int(node.group(1)))
    return found


def _folders(top: Path, *, every: bool = False) -> list[int]:
    """Return the CPUs that have a folder; without ``every`` only those that are not offline."""
    found = []
    for name in _names(top):
        number = re.match(r"^cpu(\d+)$", name)
        if number and (every or text_of(top / name / "online").strip() != "0"):
            found.append(int(number.group(1)))
    return sorted(found)


def _common(top: Path, cpus: Iterable[int], name: str) -> str:
    """Return the values of a frequency setting over all CPUs, such as ``performance``."""
    texts = {text_of(_folder(top, cpu) / "cpufreq" / name).strip() for cpu in cpus}
    return ", ".join(sorted(texts - {""}))


def _turbo(top: Path) -> bool | None:
    """Return whether frequencies above the nominal one are allowed; None if it is unknown."""
    disabled = _number(top / "intel_pstate" / "no_turbo")
    if disabled is not None:
        return not disabled
    boost = _number(top / "cpufreq" / "boost")
    return None if boost is None else bool(boost)


def _runs(proc: Path, program: str) -> bool:
    """Return whether a program runs."""
    return any(
        text_of(proc / name / "comm").strip() == program for name in _names(proc) if name.isdigit()
    )


def _status(path: Path, name: str) -> str:
    """Return one line ``name: value`` of a file."""
    for line in text_of(path).splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value.strip()
    return ""


def _known(number: int | None) -> int | None:
    """Return an id; kernels write -1 for an unknown one."""
    return None if number is None or number < 0 else number


def _number(path: Path) -> int | None:
    text = text_of(path).strip()
    return int(text) if re.match(r"^-?\d{1,18}$", text) else None


def _folder(top: Path, cpu: int) -> Path:
    return top / f"cpu{cpu}"


def _names(folder: Path) -> list[str]:
    return [each.name for each in entries_of(folder)]
