"""The generator's cores on hosts of many, chosen by measurement on the simulated lab."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Outcome, Tuner
from tuner.app import this_machine
from tuner.hosts import local
from tuner.machine.topology import flat
from tuner.record.model import Record
from tuner.store.listing import open_all
from tuner.store.store import sqlite_url
from tuner.testing.lab import Effect, SimulatedGenerator, SimulatedHost

CPU_US = 2_000.0
"""CPU time of a request on the server; slow, so that few have to be simulated."""
PER_SERVER_CORE = 0.95 * 1e6 / CPU_US
PER_GENERATOR_CORE = 1_250.0
Machine = Callable[[int], None]
SHORT = ("--study", "static", "--time", "10s", "--name", "mine")
RUN = ("run", "static-https-ladder", "--server", "nginx", "--time", "30s", "--name", "mine")
OPTIMIZE = ("optimize", *SHORT, "--trials", "1")


@pytest.fixture
def machine(host: SimulatedHost, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """``machine(16)``: this host has 16 cores, and its programs are as fast as theirs."""
    facts = local.facts()

    def effect(_: object) -> Effect:
        return Effect(capacity_per_s=PER_SERVER_CORE * host.cores, cpu_us=CPU_US)

    def generator(_binary: Path, cores: Any, *_: object) -> SimulatedGenerator:
        host.cores = len(cores.server)
        host.generator_per_s = PER_GENERATOR_CORE * len(cores.generator)
        return SimulatedGenerator(host)

    def has(count: int) -> None:
        cpus = tuple(range(count))
        made = replace(facts, cpus=cpus, topology=flat(cpus))
        monkeypatch.setattr(local, "facts", lambda: made)

    host.truth = effect
    monkeypatch.setattr(this_machine, "NativeGenerator", generator)
    return has


def record(name: str = "mine") -> Record:
    """Return a study's record."""
    (store,) = open_all(sqlite_url(Path("studies") / name), writing=False)
    return store.record()


def sizes(done: Outcome) -> int:
    """Return how often a command found that the generator was the limit."""
    assert done.code == 0, done.err
    return done.err.count("the generator is the limit on")


@pytest.mark.parametrize(("cores", "wanted"), [(64, 22)])
def test_the_generator_gets_as_many_cores_as_saturate_the_server(
    tuner: Tuner, machine: Machine, cores: int, wanted: int
) -> None:
    """And the load point is the one at which the server's cores are busy for 70 %."""
    machine(cores)
    assert sizes(tuner(*OPTIMIZE)) == 1
    found = record()
    assert len(found.cores.generator) == wanted
    assert len(found.cores.server) == cores - wanted
    assert found.calibration is not None
    assert not found.calibration.generator_bound
    assert found.calibration.busy_share == pytest.approx(0.7, abs=0.03)
    assert any("the generator is the limit on 1 core" in note for note in found.notes)
    assert not list(Path("studies/mine").glob("generator-size*"))


def test_a_resumed_study_keeps_its_cores_and_measures_none_again(
    tuner: Tuner, machine: Machine, host: SimulatedHost
) -> None:
    """The chosen CPUs are part of its definition."""
    machine(16)
    host.faults = replace(host.faults, interrupted={30})
    assert tuner(*OPTIMIZE).code == 130
    before = record()
    assert before.definition["generator_cpus"] == "0-5"
    host.faults = replace(host.faults, interrupted=set())
    assert sizes(tuner("optimize", "--resume", "--name", "mine")) == 0
    assert record().cores == before.cores


def test_a_replication_on_the_same_host_has_the_same_cores(tuner: Tuner, machine: Machine) -> None:
    """The baseline has a worker for each core, and must be the same."""
    machine(16)
    pair = ("compare", "hand", "stock", "--study", "static", "--time", "10s", "--name", "mine")
    assert tuner(*pair).code == 0
    assert sizes(tuner("replicate", "mine", "--name", "again")) == 0
    first, second = record("mine"), record("again")
    assert second.cores == first.cores
    assert second.baseline == first.baseline


def cores_of_run() -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the CPUs of generator and server in the records of a run."""
    stores = open_all(sqlite_url(Path("studies/mine")), writing=False)
    found = [store.record().cores for store in stores]
    assert len(found) >= 2
    return {(cores.generator, cores.server) for cores in found}


def test_a_run_with_a_ladder_has_a_generator_for_it(
    tuner: Tuner, machine: Machine, host: SimulatedHost
) -> None:
    """All of its studies have the same CPUs, also after an interruption, and all choices."""
    machine(16)
    host.faults = replace(host.faults, interrupted={30})
    assert tuner(*RUN, "--idle-cpus", "halt").code == 130
    host.faults = replace(host.faults, interrupted=set())
    assert sizes(tuner("run", "static-https-ladder", "--resume", "--name", "mine")) == 0
    assert cores_of_run() == {(tuple(range(6)), tuple(range(6, 16)))}
    stores = open_all(sqlite_url(Path("studies/mine")), writing=False)
    assert {store.record().definition["idle_cpus"] for store in stores} == {"halt"}


def test_a_run_takes_the_cpus_that_are_named(tuner: Tuner, machine: Machine) -> None:
    """The generator then stays as it is."""
    machine(16)
    cpus = ("--generator-cpus", "0-1", "--server-cpus", "2-3")
    assert sizes(tuner(*RUN, *cpus)) == 0
    assert cores_of_run() == {((0, 1), (2, 3))}


def test_half_of_the_cores_are_the_most_and_the_report_says_so(
    tuner: Tuner, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is faster than any generator there: its capacity is not known."""
    monkeypatch.setattr("tests.cli.test_generator_size.PER_GENERATOR_CORE", 200.0)
    machine(8)
    assert sizes(tuner(*OPTIMIZE)) == 1
    found = record()
    assert len(found.cores.generator) == 4
    assert found.calibration is not None
    assert found.calibration.generator_bound
    assert "a host of its own (--inventory)" in Path("studies/mine/report.md").read_text()


@pytest.mark.parametrize(
    "given", [("--rate", "600"), ("--generator-cpus", "1"), ("--server-cpus", "2-5")]
)
def test_what_the_user_names_is_not_measured(
    tuner: Tuner, machine: Machine, given: tuple[str, ...]
) -> None:
    """A rate needs no capacity, and named CPUs are a choice."""
    machine(16)
    assert sizes(tuner("measure", *SHORT, *given)) == 0
    assert len(record().cores.generator) == 1


def test_two_cores_have_no_choice(tuner: Tuner, machine: Machine) -> None:
    """Nothing is measured, so that a study there takes no longer."""
    machine(2)
    assert sizes(tuner("measure", *SHORT)) == 0
    assert record().cores.generator == (0,)


def test_servers_are_compared_by_a_generator_that_is_enough_for_all(
    tuner: Tuner, machine: Machine
) -> None:
    """The chosen CPUs are the same for all arms, and kept for a resumption."""
    machine(16)
    done = tuner("compare", "nginx:stock", "nginx:hand", "--time", "30s", "--name", "mine")
    assert sizes(done) == 1
    found = record()
    assert len(found.cores.generator) == 6
    assert found.asked["options"]["generator_cpus"] == "0-5"  # type: ignore[index]
