"""A look at the hosts of an inventory before a study: nothing is installed or started there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.app.cpu_notes import cpu_notes, generator_notes
from tuner.errors import TunerError
from tuner.hosts import remote
from tuner.hosts.agent import Agent
from tuner.hosts.inventory import Host, Inventory, read_inventory
from tuner.machine.facts import CoreSplit
from tuner.machine.placement import place, place_generator, place_server
from tuner.machine.topology import Topology, cpu_ranges
from tuner.measurement.clocks import narrowest
from tuner.paths import loadgen_binary
from tuner.words.drawing import drawn_host

_READINGS = 8
"""Readings of a clock, of which the narrowest counts."""


@dataclass(frozen=True, slots=True)
class HostLook:
    """The facts of one host that decide whether a study can use it."""

    name: str
    words: str
    is_fit: bool
    notes: Sequence[str] = ()
    """Notes on disturbances there, each with a remedy."""


def look_at_fleet(path: str) -> list[HostLook]:
    """Return the hosts that a study with this inventory uses, each with its role.

    Raises:
        DefinitionError: the inventory cannot be read.
    """
    hosts = read_inventory(path)
    connections = remote.Connections(hosts)
    try:
        return [_looked_at(hosts, host, connections.agent(host)) for host in hosts.in_use]
    finally:
        connections.close()


def _looked_at(hosts: Inventory, host: Host, agent: Agent) -> HostLook:
    try:
        topology = agent.topology()
        words = [_role(hosts, host), *_facts(hosts, host, agent, topology)]
    except TunerError as error:
        return HostLook(host.name, f"{_role(hosts, host)}: {error}", is_fit=False)
    return HostLook(host.name, "; ".join(words), is_fit=True, notes=_notes(hosts, host, topology))


def _notes(hosts: Inventory, host: Host, topology: Topology) -> Sequence[str]:
    """Return notes on the CPUs of a host, as a study with a server of its own has them."""
    generates = host.name in {each.name for each in hosts.generators}
    if host.name != hosts.target.name:
        return generator_notes(topology, place_generator(topology)) if generates else ()
    if generates:
        return cpu_notes(topology, place(topology, backend=False))
    server, _ = place_server(topology, backend=False)
    return cpu_notes(topology, CoreSplit((), server, (), shared=False), generator=False)


def _role(hosts: Inventory, host: Host) -> str:
    roles = []
    if host.name == hosts.target.name:
        roles.append("target")
    names = [generator.name for generator in hosts.generators]
    if host.name in names:
        count = len(names)
        roles.append(
            f"generator {names.index(host.name) + 1} of {count}" if count > 1 else "generator"
        )
    if hosts.backends and host.name == hosts.backend.name:
        roles.append("backend")
    return ", ".join(roles)


def _facts(hosts: Inventory, host: Host, agent: Agent, topology: Topology) -> Sequence[str]:
    """Return the facts that decide whether a study can use the host.

    Raises:
        HostError, InstrumentError: it cannot.
    """
    _, machine, _ = agent.run_command(["uname", "-m"])
    remote.refuse_machine(loadgen_binary(), host.name, machine.strip())
    found = [drawn_host(topology), machine.strip()]
    if host.name in {generator.name for generator in hosts.generators}:
        found.append(f"load from the CPUs {cpu_ranges(place_generator(topology))}")
        if len(hosts.generators) > 1:
            read = [agent.clocks()["monotonic_ns"] for _ in range(_READINGS)]
            error_ns = narrowest(read).offset.error_ns
            found.append(f"clock known within {error_ns / 1e3:,.0f} µs")
    return found
