"""Notes on processors: each names what disturbs, and a remedy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.machine.machines import machine
from tuner.app.cpu_notes import cpu_notes, generator_notes
from tuner.machine.placement import WantedCpus, place
from tuner.machine.topology import Cpu, Interrupt, Quota, Topology, flat

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
        (SIBLINGS, ["takes often a third of the server's speed"]),
        (replace(PLAIN, governor="powersave"), ["governor is powersave,", "cpupower"]),
        (
            replace(PLAIN, governor="powersave", energy_preference="balance_power"),
            ["powersave (balance_power)"],
        ),
        (replace(PLAIN, turbo=True), ["turbo is on", "intel_pstate/no_turbo", "cpufreq/boost"]),
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
        replace(PLAIN, turbo=False),
    ],
)
def test_settings_that_keep_the_frequency_need_no_note(topology: Topology) -> None:
    """Intel's driver calls its own governor powersave and has preferences."""
    assert notes(topology) == []


def test_the_note_on_siblings_has_the_measured_loss() -> None:
    """In place of the usual one."""
    (note,) = cpu_notes(SIBLINGS, place(SIBLINGS, backend=False), speed_lost=0.3142)
    assert "takes 31%, as measured now, of the server's speed" in note
    assert "a third" not in note


def test_cpus_that_the_user_left_idle_need_no_note() -> None:
    """Naming the server's CPUs is the remedy itself."""
    found, wanted = machine("xeon-2-sockets").topology, WantedCpus(server=(1, 2))
    assert cpu_notes(found, place(found, backend=False, wanted=wanted), wanted=wanted) == []


def test_big_and_small_cores_together_have_a_note() -> None:
    """The rules avoid them; the user may name them."""
    found, wanted = machine("arm-10-big-10-small").topology, WantedCpus(server=(4, 5))
    (note,) = cpu_notes(found, place(found, backend=False, wanted=wanted), wanted=wanted)
    assert "big and small cores (small: 4)" in note


def with_card(topology: Topology, *interrupts: Interrupt) -> Topology:
    """Return a host with a network card."""
    return replace(topology, interrupts=interrupts)


def test_a_card_that_interrupts_the_generator_has_a_note() -> None:
    """The remedy moves its interrupts to a core that is idle in the same memory node."""
    found = with_card(
        machine("xeon-2-sockets").topology,
        Interrupt("eth0", 120, (0,), 90.0),
        Interrupt("eth0", 121, (1,), 5000.0),
        Interrupt("eth0", 122, (0, 2), 20.0),
    )
    wanted = WantedCpus(server=(1, 2, 3))
    (note,) = cpu_notes(found, place(found, backend=False, wanted=wanted), wanted=wanted)
    assert "interrupts 120,122 of the network card eth0 (110/s on average since the boot)" in note
    assert "generator's CPU 0" in note
    assert "for irq in 120 122; do echo 4-7 > /proc/irq/$irq/smp_affinity_list; done" in note


def test_rare_interrupts_do_not_matter_next_to_the_server() -> None:
    """The load does not go over the card there."""
    assert notes(with_card(PLAIN, Interrupt("eth0", 39, (0,), 99.0))) == []
    assert notes(with_card(PLAIN, Interrupt("eth0", 39, (1,), 5000.0))) == []


def test_without_an_idle_core_interrupts_stay() -> None:
    """On two cores they would only disturb the server."""
    (note,) = notes(with_card(PLAIN, Interrupt("eth0", 39, (0,), 100.0)))
    assert "interrupt 39 of the network card eth0" in note
    assert "no core is idle" in note
    assert "smp_affinity" not in note


def test_on_a_generators_own_host_each_interrupt_matters() -> None:
    """The answers arrive there as interrupts, however quiet it was so far."""
    found = with_card(flat((0, 1, 2)), Interrupt("eth0", 39, (0, 1, 2), 0.1))
    (note,) = generator_notes(found, (0,))
    assert "for irq in 39; do echo 1-2 >" in note
    (alone,) = generator_notes(replace(found, allowed=(0,)), (0,))
    assert "no other core" in alone
    assert generator_notes(with_card(PLAIN, Interrupt("eth0", 39, (1,), 900.0)), (0,)) == []


def test_a_generators_own_host_has_its_other_notes() -> None:
    """Quota, frequency and irqbalance disturb it as they disturb a server."""
    found = replace(PLAIN, governor="powersave", irqbalance=True, quota=Quota("/load", 1.5))
    words = ("/load has a CPU quota", "powersave", "irqbalance runs")
    assert all(word in note for word, note in zip(words, generator_notes(found, (0,)), strict=True))
