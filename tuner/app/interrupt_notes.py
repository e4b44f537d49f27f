"""Notes on interrupts of network cards that take time from a generator's core."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tuner.machine.topology import Interrupt, Topology, cpu_ranges
from tuner.words.drawing import condensed

_OFTEN_PER_S = 100.0
"""Least mean rate that matters if the load uses no card, as next to the server. An
interrupt takes a core for some microseconds, so rarer ones take less than a thousandth of it."""


def irqbalance_note(topology: Topology) -> str:
    """Return a note on a program that moves interrupts; empty without it."""
    if not topology.irqbalance:
        return ""
    return (
        "irqbalance runs and moves interrupts between CPUs, also during a window; stop it for the"
        " study: systemctl stop irqbalance"
    )


def card_notes(
    topology: Topology,
    generator: Collection[int],
    used: Collection[int] = (),
    *,
    carries_load: bool,
) -> list[str]:
    """Return a note on each network card with interrupts on the generator's CPUs.

    Args:
        topology: topology of the generator's host.
        generator: CPUs of the generator.
        used: CPUs of server and backend, if they run there, too.
        carries_load: whether the load leaves the host, so that each card in use may carry it.
    """
    notes = []
    for device, interrupts in _by_device(topology, generator).items():
        per_s = sum(each.per_s for each in interrupts)
        noun = "interrupts" if interrupts[1:] else "interrupt"
        if carries_load or per_s >= _OFTEN_PER_S:
            numbers = [each.irq for each in interrupts]
            here = condensed({cpu for each in interrupts for cpu in each.cpus} & set(generator))
            notes.append(
                f"{noun} {cpu_ranges(numbers)} of the network card {device} ({per_s:,.0f}/s on"
                f" average since the boot) may run on the generator's CPU {here} and take time from"
                f" it; {_remedy(topology, generator, used, numbers)}"
            )
    return notes


def _by_device(topology: Topology, generator: Collection[int]) -> Mapping[str, list[Interrupt]]:
    """Return the interrupts on the generator's CPUs by card."""
    found: dict[str, list[Interrupt]] = {}
    for each in topology.interrupts:
        if not set(generator).isdisjoint(each.cpus):
            found.setdefault(each.device, []).append(each)
    return found


def _remedy(
    topology: Topology, generator: Collection[int], used: Collection[int], numbers: Collection[int]
) -> str:
    """Return the command that moves interrupts to idle cores, or what to do without one."""
    busy = {*generator, *used}
    idle = [core for core in topology.cores if busy.isdisjoint(core)]
    if not idle and not used:
        return "the host has no other core for them"
    if not idle:
        less = ", or leave a core for them (--server-cpus)" if topology.cores_of(used)[1:] else ""
        return f"no core is idle, so keep the network quiet during the study{less}"
    near = topology.nodes_of(generator)
    nearest = [core for core in idle if topology.nodes_of(core) == near] or idle
    to = cpu_ranges(core[0] for core in nearest)
    listed = " ".join(map(str, numbers))
    return (
        f"move {'them' if len(numbers) > 1 else 'it'} to idle cores: for irq in {listed}; do echo"
        f" {to} > /proc/irq/$irq/smp_affinity_list; done"
    )
