"""Notes on processors: each names what disturbs, and a remedy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.machine.machines import machine
from tuner.app.cpu_notes import cpu_notes
from tuner.machine.placement import WantedCpus, place
from tuner.machine.topology import Cpu, Quota, Topology, flat

PLAIN = flat((0, 1))
SIBLINGS = Topology((Cpu(0, 0), Cpu(1, 0)), (0, 1))


def notes(topology: Topology, *, backend: bool = False) -> list[str]:
    """Return the notes on a host with the placement by the rules."""
    return cpu_notes(topology, place(topology, backend=backend))


def test_two_whole_cores_need_no_note() -> None:
    """Nor does a single CPU, which has a note of its own."""
    assert notes(PLAIN) == []
    assert notes(PLAIN, backend=True) == []
    assert notes(flat((3,))) == []


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        (SIBLINGS, ["two threads of one core (CPUs 0-1)", "capacity is too low", "--inventory"]),
        (replace(PLAIN, governor="powersave"), ["governor is powersave,", "cpupower"]),
        (
            replace(PLAIN, governor="powersave", energy_preference="balance_power"),
            ["powersave (balance_power)"],
        ),
        (replace(PLAIN, irqbalance=True), ["systemctl stop irqbalance"]),
        (replace(PLAIN, quota=Quota("/shop", 0.5)), ["/shop", "0.5 CPUs", "do not count"]),
        (machine("desktop-4-cores").topology, ["6 CPUs are threads of 3 cores", "smt/control"]),
        (machine("xeon-2-sockets").topology, ["CPUs 8-15 are idle", "--server-cpus"]),
    ],
)
def test_what_disturbs_is_named_with_a_remedy(topology: Topology, words: list[str]) -> None:
    """One note for each."""
    found = notes(topology)
    assert any(all(word in note for word in words) for note in found), found


@pytest.mark.parametrize(
    "topology",
    [
        replace(PLAIN, governor="performance"),
        replace(PLAIN, governor="powersave", energy_preference="performance"),
        replace(PLAIN, turbo=True),
    ],
)
def test_settings_that_keep_the_frequency_need_no_note(topology: Topology) -> None:
    """Intel's driver calls its own governor powersave and has preferences."""
    assert notes(topology) == []


def test_cpus_that_the_user_left_idle_need_no_note() -> None:
    """Naming the server's CPUs is the remedy itself."""
    found, wanted = machine("xeon-2-sockets").topology, WantedCpus(server=(1, 2))
    assert cpu_notes(found, place(found, backend=False, wanted=wanted), wanted=wanted) == []


def test_big_and_small_cores_together_have_a_note() -> None:
    """The rules avoid them; the user may name them."""
    found, wanted = machine("arm-10-big-10-small").topology, WantedCpus(server=(4, 5))
    (note,) = cpu_notes(found, place(found, backend=False, wanted=wanted), wanted=wanted)
    assert "big and small cores (small: 4)" in note
