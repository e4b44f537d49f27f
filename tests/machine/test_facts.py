"""Cores are split so that nobody measures their own instrument."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.machine.facts import CoreSplit, ServerFacts
from tuner.machine.placement import split_cores

CPUS = st.sets(st.integers(0, 127), min_size=2, max_size=32)


@given(CPUS, st.booleans())
def test_server_and_generator_never_share_a_core_when_there_are_two(
    cpus: set[int], backend: bool
) -> None:
    """Every CPU has a job, and the generator shares none with server or backend."""
    split = split_cores(sorted(cpus), backend=backend)
    assert not split.shared
    assert split.generator
    assert split.server
    assert not set(split.generator) & {*split.server, *split.backend}
    assert {*split.generator, *split.server, *split.backend} == cpus
    assert bool(split.backend) == backend


@pytest.mark.parametrize(
    ("cpus", "backend", "expected"),
    [
        ((3,), False, CoreSplit((3,), (3,), (), shared=True)),
        ((3,), True, CoreSplit((3,), (3,), (3,), shared=True)),
        ((0, 1), False, CoreSplit((0,), (1,), (), shared=False)),
        ((0, 1), True, CoreSplit((0,), (1,), (1,), shared=False)),
        ((4, 2, 0), True, CoreSplit((0,), (2, 4), (2, 4), shared=False)),
        ((0, 1, 2, 3), True, CoreSplit((0,), (1, 2), (3,), shared=False)),
        (tuple(range(8)), True, CoreSplit((0,), (1, 2, 3, 4, 5), (6, 7), shared=False)),
        (tuple(range(8)), False, CoreSplit((0,), tuple(range(1, 8)), (), shared=False)),
    ],
)
def test_who_gets_which_core(cpus: tuple[int, ...], backend: bool, expected: CoreSplit) -> None:
    """All share a single core; with few cores, the backend shares the server's."""
    assert split_cores(cpus, backend=backend) == expected


@pytest.mark.parametrize(
    ("split", "words"),
    [
        (CoreSplit((0,), (1,), (), shared=False), "generator 0, server 1"),
        (
            CoreSplit((0,), (2, 3, 4, 5), (6, 7), shared=False),
            "generator 0, server 2-5, backend 6-7",
        ),
        (CoreSplit((3,), (3,), (3,), shared=True), "3, shared by server and generator"),
    ],
)
def test_a_split_is_written_with_cpus_as_the_kernel_does(split: CoreSplit, words: str) -> None:
    """One way for the terminal and the report."""
    assert split.words == words


@pytest.mark.parametrize(
    ("version", "expected"),
    [("1.22.1", (1, 22, 1)), ("1.26", (1, 26)), ("2.8.4", (2, 8, 4))],
)
def test_versions_compare_as_numbers(version: str, expected: tuple[int, ...]) -> None:
    """1.9 is older than 1.22."""
    assert ServerFacts("nginx", "nginx", version, (), "").version_tuple == expected
    assert expected > (1, 9)
