"""The rules of docs/placement.md, on real machines and on random ones."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.machine.machines import NAMES, machine
from tuner.errors import DefinitionError
from tuner.machine.facts import CoreSplit
from tuner.machine.placement import (
    WantedCpus,
    cores_needed,
    generator_cpus,
    place,
    place_backend,
    place_generator,
    place_server,
    split_cores,
)
from tuner.machine.topology import Cpu, Quota, Topology, cpu_ranges, flat, parse_cpus

HYPER = Topology(tuple(Cpu(cpu, cpu % 4) for cpu in range(8)), tuple(range(8)))
"""4 cores with 2 threads, numbered as usual: 0 and 4 are siblings."""


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Return any machine: threads, nodes, sockets, small and isolated cores, cpusets."""
    threads = draw(st.sampled_from([1, 2, 4, 8]))
    count = draw(st.integers(1, 24))
    nodes, packages = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    known = draw(st.booleans())
    small = draw(st.sets(st.integers(0, count - 1)))
    spread = draw(st.booleans())
    cpus = []
    for core in range(count):
        ids = [core + count * i if spread else core * threads + i for i in range(threads)]
        node = core * nodes // count
        cpus += [
            Cpu(
                id=cpu,
                core=ids[0],
                package=node * packages // nodes,
                node=node if known else None,
                cache=None if draw(st.integers(0, 9)) == 0 else ids[0] // 4 * 4,
                capacity=400 if core in small else 1024,
            )
            for cpu in ids
        ]
    online = sorted(cpu.id for cpu in cpus)
    allowed = draw(st.sets(st.sampled_from(online), min_size=1))
    isolated = draw(st.sets(st.sampled_from(online), max_size=4))
    quota = draw(st.none() | st.floats(0.1, 40))
    return Topology(
        tuple(sorted(cpus, key=lambda cpu: cpu.id)),
        tuple(sorted(allowed)),
        isolated=tuple(sorted(isolated)),
        quota=None if quota is None else Quota("/x", quota),
    )


@given(topologies(), st.booleans())
def test_the_rules_hold_on_any_machine(topology: Topology, backend: bool) -> None:
    """Generator and server never share a physical core when there are two."""
    split = place(topology, backend=backend)
    core = {cpu.id: cpu.core for cpu in topology.cpus}
    assert set(split.generator) | set(split.server) | set(split.backend) <= set(topology.allowed)
    assert (bool(split.generator), bool(split.server), bool(split.backend)) == (True, True, backend)
    assert split.shared == (len(topology.allowed) == 1)
    if len(topology.cores) > 1:
        serving = {core[cpu] for cpu in (*split.server, *split.backend)}
        assert serving.isdisjoint(core[cpu] for cpu in split.generator)
        assert len(split.generator) == 1
    if set(split.backend) != set(split.server):
        assert {core[c] for c in split.backend}.isdisjoint(core[c] for c in split.server)


@given(topologies())
def test_a_quota_is_enough_for_all_that_run(topology: Topology) -> None:
    """Generator, server and backend have as many CPUs as the quota, and at least one each."""
    split = place(topology, backend=True)
    if topology.quota is not None and len(topology.cores) > 1:
        used = {*split.generator, *split.server, *split.backend}
        assert len(used) <= max(2, int(topology.quota.cpus))


@given(topologies())
def test_one_node_or_socket_is_used_if_it_is_large_enough(topology: Topology) -> None:
    """With four cores in a node nothing runs outside of one."""
    isolated = set(topology.isolated)
    usable = [core for core in topology.cores if isolated.isdisjoint(core)]
    sizes = [
        sum(topology.nodes_of(core) == (node,) for core in usable)
        for node in topology.nodes_of(topology.allowed)
    ]
    split = place(topology, backend=True)
    if usable and max(sizes, default=0) >= 4:
        assert len(topology.nodes_of({*split.server, *split.backend})) == 1


def check_larger(topology: Topology, cores: int) -> None:
    """Check the split with a generator on several cores."""
    generator = generator_cpus(topology, cores, apart=False)
    assert 1 <= len(generator) <= max(1, min(cores, len(topology.cores) // 2))
    if len(generator) == 1:
        assert generator == place(topology, backend=False).generator
        return
    split = place(topology, backend=True, wanted=WantedCpus(generator=generator))
    core = {cpu.id: cpu.core for cpu in topology.cpus}
    physical = {core[cpu] for cpu in generator}
    assert len(physical) == len(generator)
    assert split.generator == generator
    assert split.server
    assert physical.isdisjoint(core[cpu] for cpu in (*split.server, *split.backend))
    if topology.quota is not None:
        used = {*generator, *split.server, *split.backend}
        assert len(used) <= max(len(generator) + 1, int(topology.quota.cpus))


@given(topologies(), st.integers(1, 40))
def test_a_larger_generator_leaves_the_server_its_own_cores(topology: Topology, cores: int) -> None:
    """At most half of the physical cores, one thread of each; one core is that of the rules."""
    check_larger(topology, cores)


@pytest.mark.parametrize("name", NAMES)
def test_a_larger_generator_fits_real_machines(name: str) -> None:
    """Each file in topologies/, up to all of its cores."""
    for cores in (1, 2, 3, 8, 1_000):
        check_larger(machine(name).topology, cores)


@given(st.integers(2, 64), st.floats(0.05, 20.0))
def test_the_cores_needed_saturate_the_server(cores: int, speed: float) -> None:
    """By the arithmetic of speeds: a core of the generator loads ``speed`` cores of the server."""
    server = cores - 1
    assume(speed < 0.95 * server)  # Otherwise one core is enough.
    split = CoreSplit((0,), tuple(range(1, cores)), (), shared=False)
    needed = cores_needed(split, speed / server, apart=False)
    assert needed >= 2
    assert needed * speed >= cores - needed
    assert cores_needed(split, speed / server, apart=True) * speed >= server


@pytest.mark.parametrize("name", NAMES)
def test_real_machines_are_split_by_the_rules(name: str) -> None:
    """Each file in topologies/ has its placement, without and with a backend."""
    known = machine(name)
    assert place(known.topology, backend=False) == known.alone
    assert place(known.topology, backend=True) == known.proxied


def test_there_are_enough_real_machines() -> None:
    """Laptops, servers, phones, virtual machines and containers."""
    assert len(NAMES) >= 25


@pytest.mark.parametrize("count", [2, 3, 4, 8])
def test_cpus_of_unknown_topology_are_cores(count: int) -> None:
    """The first is the generator's, and all others serve."""
    cpus = tuple(range(count))
    assert split_cores(cpus, backend=False) == CoreSplit((0,), cpus[1:], (), shared=False)


def test_an_isolated_core_is_the_generators() -> None:
    """The scheduler does not balance there, so a server of many threads would use one CPU."""
    found = Topology(flat(range(6)).cpus, tuple(range(6)), isolated=(4, 5))
    assert place(found, backend=False) == CoreSplit((4,), (0, 1, 2, 3), (), shared=False)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (WantedCpus(server=(0, 4)), CoreSplit((1,), (0, 4), (2, 3, 6, 7), shared=False)),
        (WantedCpus(generator=(2, 3)), CoreSplit((2, 3), (0, 1, 4, 5), (0, 1, 4, 5), shared=False)),
        (WantedCpus(backend=(3,)), CoreSplit((0,), (1, 2, 5, 6), (3,), shared=False)),
        (WantedCpus((0,), (4,), (4,)), CoreSplit((0,), (4,), (4,), shared=False)),
    ],
)
def test_named_cpus_are_used_and_the_rest_follows_the_rules(
    wanted: WantedCpus, expected: CoreSplit
) -> None:
    """Names override; what is left over goes by whole cores that nobody named."""
    assert place(HYPER, backend=True, wanted=wanted) == expected


@pytest.mark.parametrize(
    ("wanted", "option", "words"),
    [
        (WantedCpus(server=(9,)), "--server-cpus", "CPU 9 is not available to tuner there"),
        (WantedCpus((0,), (0, 1)), "--generator-cpus", "cannot share CPU 0"),
        (WantedCpus(server=tuple(range(8))), "--server-cpus", "no core of its own for the gen"),
        (WantedCpus(generator=(0, 1, 2, 3)), "--generator-cpus", "its own for the server"),
    ],
)
def test_named_cpus_that_cannot_work_are_refused(
    wanted: WantedCpus, option: str, words: str
) -> None:
    """The message names the option and the available CPUs."""
    with pytest.raises(DefinitionError, match=words) as refused:
        place(HYPER, backend=False, wanted=wanted)
    assert refused.value.path == option


def test_on_hosts_of_their_own_nothing_is_divided() -> None:
    """A server has its host, a generator one thread of one core, a backend its host."""
    assert place_server(HYPER, backend=False) == (tuple(range(8)), ())
    assert place_server(HYPER, backend=True) == ((0, 1, 2, 4, 5, 6), (3, 7))
    assert place_generator(HYPER) == (0,)
    assert place_backend(HYPER) == tuple(range(8))
    named = WantedCpus((1,), (2,), (3,))
    assert place_server(HYPER, backend=True, wanted=named) == ((2,), (3,))
    assert place_server(HYPER, backend=True, wanted=WantedCpus(server=(2,)))[1] == (
        0,
        1,
        3,
        4,
        5,
        7,
    )
    assert place_generator(HYPER, named) == (1,)
    assert place_backend(HYPER, named) == (3,)


@given(st.sets(st.integers(0, 300), min_size=1))
def test_lists_of_cpus_are_read_as_they_are_written(cpus: set[int]) -> None:
    """Ranges are the kernel's."""
    assert parse_cpus(cpu_ranges(cpus)) == tuple(sorted(cpus))


@pytest.mark.parametrize("text", ["", "a", "1-", "3-1", "-1", "1;2", "1 2"])
def test_a_text_that_is_no_list_of_cpus_is_refused(text: str) -> None:
    """The message has an example."""
    with pytest.raises(ValueError, match="such as 0-3,8"):
        parse_cpus(text)
