"""The drawing of a topology: one screen, and every CPU exactly once."""

from __future__ import annotations

import re

import pytest

from tests.machine.machines import NAMES, machine
from tuner.machine.placement import place
from tuner.machine.topology import Quota, Topology, flat
from tuner.words.drawing import condensed, drawn


def test_two_cores_are_two_lines() -> None:
    """The usual small machine."""
    found = flat((0, 1))
    assert drawn(found, place(found, backend=False)) == [
        "2 CPUs, 2 cores",
        "CPUs: generator 0, server 1",
    ]


def test_two_sockets_with_threads_show_who_runs_where() -> None:
    """The generator's sibling stays idle, as does the other node."""
    known = machine("epyc-2-sockets-16-caches")
    assert drawn(known.topology, known.proxied) == [
        "96 CPUs, 48 cores of up to 2 threads, 2 sockets, 8 memory nodes, 16 last-level caches",
        "node 0: generator 0, server 1-4,49-52, backend 5,53, idle 48",
        "7 others: idle 6-47,54-95",
        "frequency: governor performance, turbo on",
    ]


def test_limits_have_lines_of_their_own() -> None:
    """Offline, isolated and forbidden CPUs, and the quota."""
    found = Topology(flat(range(8)).cpus, (0, 1, 2, 3), (8, 9), (3,), Quota("/shop", 2.5))
    assert drawn(found, place(found, backend=False))[2:] == [
        "not available to tuner (cpuset or affinity): 4-7",
        "offline: 8-9",
        "isolated from the scheduler: 3",
        "quota: 2.5 CPUs for /shop",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_every_machine_fits_on_a_screen(name: str) -> None:
    """At most 16 lines of at most 120 characters, whatever the numbering."""
    known = machine(name)
    for split in (known.alone, known.proxied):
        lines = drawn(known.topology, split)
        assert len(lines) <= 16
        assert max(map(len, lines)) <= 120
        roles = set(re.findall(r"(generator|server|backend) [0-9]", "\n".join(lines)))
        assert roles == {"generator", "server", *(("backend",) if split.backend else ())}


@pytest.mark.parametrize(
    ("cpus", "text"),
    [
        ((), ""),
        ((5,), "5"),
        ((0, 1, 2, 8), "0-2,8"),
        ((0, 2), "0,2"),
        ((0, 4, 8, 12, 13), "0,4..12,13"),
        ((0, 2, 4, 5, 6), "0,2..4,5-6"),
    ],
)
def test_cpus_are_written_in_short(cpus: tuple[int, ...], text: str) -> None:
    """Ranges, and sequences of equal steps."""
    assert condensed(cpus) == text
