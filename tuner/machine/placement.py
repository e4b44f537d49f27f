"""Which CPUs generator, server and backend get: the rules of docs/placement.md."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from tuner.errors import DefinitionError
from tuner.machine.facts import CoreSplit
from tuner.machine.topology import Topology, cpu_ranges, flat

Core = tuple[int, ...]
"""CPUs of one physical core."""

_LEAST_NODE = 4
"""Physical cores of a memory node or socket that are enough for a whole study: one for the
generator, two for the server, one for the backend."""
_LEAST_BIG = 2
"""Big cores that are enough: one for the generator, one for the server."""
_RESERVE = 1.2
"""Generator cores in proportion to those that are just enough."""
_LEAST_APART = 3
"""Fewest cores next to the generator's with which the backend gets cores of its own."""


@dataclass(frozen=True, slots=True)
class WantedCpus:
    """CPUs that the user names; empty ones are chosen by the rules."""

    generator: tuple[int, ...] = ()
    server: tuple[int, ...] = ()
    backend: tuple[int, ...] = ()


BY_RULES = WantedCpus()


def split_cores(cpus: Sequence[int], *, backend: bool) -> CoreSplit:
    """Split CPUs of unknown topology, each a core of its own."""
    return place(flat(cpus), backend=backend)


def place(topology: Topology, *, backend: bool, wanted: WantedCpus = BY_RULES) -> CoreSplit:
    """Split the CPUs of one host between generator, server and, if there is one, backend.

    Args:
        topology: topology of the host.
        backend: whether there is a backend on this host.
        wanted: CPUs that the user names.

    Raises:
        DefinitionError: the named CPUs leave none for the others, or two of them overlap.
    """
    _refuse(topology, wanted)
    named = {*wanted.generator, *wanted.server, *wanted.backend}
    free = [core for core in topology.cores if named.isdisjoint(core)]
    if not named and len(free) == 1:
        return _one_core(free[0], backend=backend)
    pool, isolated = _pool(topology, free, near=named)
    generator = wanted.generator
    if not generator:
        core = [*isolated, *pool, ()][0]
        generator, pool = core[:1], [each for each in pool if each != core]
    server, behind = wanted.server, wanted.backend
    pool = _within_quota(topology, pool, len(generator))
    if not server:
        pool, chosen = _apart(pool, backend=backend and not behind)
        server, behind = _cpus(pool), behind or chosen
    elif backend and not behind:
        behind = _cpus(pool)
    if not generator or not server:
        raise DefinitionError(
            f"leaves no core of its own for the {'server' if generator else 'generator'}; available"
            f" are the CPUs {cpu_ranges(topology.allowed)}",
            path=_option(wanted),
        )
    return CoreSplit(generator, server, (behind or server) if backend else (), shared=False)


def shared_core(topology: Topology, split: CoreSplit) -> tuple[int, ...]:
    """Return the CPUs of a physical core that runs generator and server, or generator and backend.

    It is empty if there is none. A single CPU that runs everything does not count.
    """
    if split.shared:
        return ()
    mine, theirs = set(split.generator), split.serving
    cores = topology.cores_of(mine | theirs)
    return next((core for core in cores if mine & set(core) and theirs & set(core)), ())


def place_server(
    topology: Topology, *, backend: bool, wanted: WantedCpus = BY_RULES
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the CPUs of server and backend on a host without the generator.

    Args:
        topology: topology of the host.
        backend: whether the backend runs there, too.
        wanted: CPUs that the user names.

    Raises:
        DefinitionError: the named CPUs leave none for the server, or are not allowed there.
    """
    server = replace(wanted, generator=())
    _refuse(topology, server)
    if wanted.server and (wanted.backend or not backend):
        return wanted.server, wanted.backend if backend else ()
    named = {*wanted.server, *wanted.backend}
    free = [core for core in topology.cores if named.isdisjoint(core)]
    if wanted.server:
        return wanted.server, _cpus(free) or wanted.server
    pool = _within_quota(topology, free, 0)
    pool, behind = _apart(pool, backend=backend and not wanted.backend)
    if not pool:
        raise DefinitionError("leaves no CPU for the server", path=_option(server))
    return _cpus(pool), (wanted.backend or behind or _cpus(pool)) if backend else ()


def place_generator(topology: Topology, wanted: WantedCpus = BY_RULES) -> tuple[int, ...]:
    """Return the CPUs of a generator on a host of its own.

    Raises:
        DefinitionError: the named CPUs are not available there.
    """
    _refuse(topology, WantedCpus(generator=wanted.generator))
    return wanted.generator or generator_cpus(topology, 1, apart=True)


def generator_cpus(topology: Topology, cores: int, *, apart: bool) -> tuple[int, ...]:
    """Return one CPU of each of several cores for a generator; fewer on a small host.

    Args:
        topology: topology of its host.
        cores: wanted number of physical cores.
        apart: whether the server runs on another host; otherwise half of the cores are its own.
    """
    pool, isolated = _pool(topology, topology.cores, near=())
    free = [*isolated, *pool]
    most = len(free)
    if topology.quota is not None:
        most = min(most, math.floor(topology.quota.cpus))
    if not apart:
        most //= 2
    return tuple(sorted(core[0] for core in free[: min(cores, max(1, most))]))


def cores_needed(split: CoreSplit, busy_share: float, *, apart: bool) -> int:
    """Return the number of generator cores with which the server becomes the limit.

    n cores of the generator kept a share b of s server CPUs busy, so each needs b·s/n of them at
    the other side. With both on one host, every core that the generator gets is taken from the
    server. A reserve is included, because the measured share is that of a few seconds.

    Args:
        split: the split at the measurement, with the generator as its limit.
        busy_share: busy share of the server's CPUs there, above 0.
        apart: whether the two run on different hosts.
    """
    now, server = len(split.generator), len(split.server)
    per_core = busy_share * server / now
    fair = server / per_core if apart else (now + server) / (1 + per_core)
    return max(now + 1, math.ceil(_RESERVE * fair))


def place_backend(topology: Topology, wanted: WantedCpus = BY_RULES) -> tuple[int, ...]:
    """Return the CPUs of a backend on a host of its own.

    Raises:
        DefinitionError: the named CPUs are not available there.
    """
    _refuse(topology, WantedCpus(backend=wanted.backend))
    return wanted.backend or topology.allowed


def _one_core(core: Core, *, backend: bool) -> CoreSplit:
    """Split one physical core: its threads are apart, and a single CPU is shared."""
    server = core[1:] or core
    return CoreSplit(core[:1], server, server if backend else (), shared=len(core) == 1)


def _within_quota(topology: Topology, pool: Sequence[Core], spinning: int) -> list[Core]:
    """Return as many cores as a CPU quota keeps busy next to the generator, at least one CPU.

    Args:
        topology: topology of the host.
        pool: the cores to choose from.
        spinning: CPUs of the generator under the same quota, of which it uses all the time.
    """
    if topology.quota is None:
        return list(pool)
    left, found = max(1, math.floor(topology.quota.cpus) - spinning), []
    for core in pool:
        if left > 0:
            found.append(core[:left])
            left -= len(core)
    return found


def _pool(
    topology: Topology, cores: Sequence[Core], near: Collection[int]
) -> tuple[list[Core], list[Core]]:
    """Return the physical cores to use, neighbours sharing a cache, and the isolated ones.

    Args:
        topology: topology of the host.
        cores: its free physical cores.
        near: CPUs that the user named.
    """
    isolated = [core for core in cores if not set(topology.isolated).isdisjoint(core)]
    pool = [core for core in cores if core not in isolated]
    if not pool:
        pool, isolated = isolated, []
    inside = _domain(topology, pool, near)
    isolated.sort(key=lambda core: not inside.issuperset(core))
    pool = [core for core in pool if inside.issuperset(core)]
    big = [core for core in pool if topology.small.isdisjoint(core)]
    if len(big) >= _LEAST_BIG:
        pool = big
    cache = {cpu.id: cpu.id if cpu.cache is None else cpu.cache for cpu in topology.cpus}
    return sorted(pool, key=lambda core: (cache[core[0]], core)), isolated


def _domain(topology: Topology, cores: Sequence[Core], near: Collection[int]) -> set[int]:
    """Return the CPUs of one memory node, of one socket if a node is too small, or else all.

    Args:
        topology: topology of the host.
        cores: cores to choose from.
        near: CPUs that the user named; their node or socket is taken.
    """
    everything = set(_cpus(cores))
    known = {cpu.id: cpu for cpu in topology.cpus}
    for level in ("node", "package"):
        places = {cpu: getattr(known[cpu], level) for cpu in everything | set(near)}
        if None in places.values():
            continue
        groups: dict[int, list[Core]] = {}
        for core in cores:
            groups.setdefault(places[core[0]], []).append(core)
        if near:
            wanted = {places[cpu] for cpu in near}
            found = [core for place in sorted(wanted & groups.keys()) for core in groups[place]]
        else:
            found = max(groups.values(), key=len, default=[])
        if len(found) >= (1 if near else _LEAST_NODE):
            return set(_cpus(found))
    return everything


def _apart(pool: Sequence[Core], *, backend: bool) -> tuple[list[Core], tuple[int, ...]]:
    """Return the server's cores and the backend's CPUs; without CPUs it shares the server's."""
    if not backend or len(pool) < _LEAST_APART:
        return list(pool), ()
    share = len(pool) // 3
    return list(pool[:-share]), _cpus(pool[-share:])


def _refuse(topology: Topology, wanted: WantedCpus) -> None:
    """Raise DefinitionError for named CPUs that do not exist, or that two programs would share."""
    for name in ("generator", "server", "backend"):
        cpus: tuple[int, ...] = getattr(wanted, name)
        missing = set(cpus) - set(topology.allowed)
        if missing:
            raise DefinitionError(
                f"CPU {cpu_ranges(missing)} is not available to tuner there; available are"
                f" {cpu_ranges(topology.allowed)}",
                path=f"--{name}-cpus",
            )
    both = set(wanted.generator) & {*wanted.server, *wanted.backend}
    if both:
        raise DefinitionError(
            f"the generator cannot share CPU {cpu_ranges(both)} with server or backend, because it"
            " spins; name others",
            path="--generator-cpus",
        )


def _option(wanted: WantedCpus) -> str:
    """Return the first option that named CPUs."""
    names = ("generator", "server", "backend")
    given = [name for name in names if getattr(wanted, name)]
    return f"--{given[0]}-cpus" if given else "placement"


def _cpus(cores: Sequence[Core]) -> tuple[int, ...]:
    return tuple(sorted(cpu for core in cores for cpu in core))
