"""The generators of an inventory: one, or several hosts that share a load."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from tuner.errors import DefinitionError
from tuner.generators.generator import LoadGenerator
from tuner.generators.native import NativeGenerator
from tuner.generators.share import WHOLE, Share
from tuner.generators.shared import Member, SharedGenerator
from tuner.generators.watched import WatchedGenerator
from tuner.hosts import remote
from tuner.hosts.inventory import Host, Inventory
from tuner.hosts.remote_watch import RemoteWatch
from tuner.machine.facts import CoreSplit
from tuner.machine.placement import generator_cpus, place_generator
from tuner.machine.topology import Topology
from tuner.measurement.clocks import ClockReading
from tuner.measurement.instrument import Load
from tuner.measurement.stalls import StallRule

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
"""Identity of a running kernel (random(4)), which its containers share."""


class FleetGenerators:
    """The hosts of an inventory that generate the load.

    Args:
        inventory: the hosts.
        connections: connections to them.
        facts: their facts, by name.
    """

    def __init__(
        self,
        inventory: Inventory,
        connections: remote.Connections,
        facts: Mapping[str, remote.RemoteFacts],
    ) -> None:
        self._inventory = inventory
        self._connections = connections
        self._facts = facts

    @property
    def generate_there(self) -> bool:
        """True if the only one is the target."""
        return self._inventory.generator.name == self._inventory.target.name

    def usable_cpus(self, cores: int) -> tuple[int, ...]:
        """Return CPUs that all of the hosts have, for a generator on this number of cores."""
        layouts = [self._layout(host) for host in self._inventory.generators]
        apart = not self.generate_there
        cpus = generator_cpus(layouts[0], cores, apart=apart)
        common = set(cpus).intersection(*(layout.allowed for layout in layouts))
        return tuple(cpu for cpu in cpus if cpu in common)

    def cpus_on(self, host: Host, cores: CoreSplit) -> tuple[int, ...]:
        """Return the CPUs of a generator: those of the first, or each host's by the rules."""
        first = self._inventory.generator
        if host == first or cores.generator != place_generator(self._layout(first)):
            return cores.generator
        return place_generator(self._layout(host))

    def _layout(self, host: Host) -> Topology:
        return self._facts[host.name].host.layout

    def open(self, load: Load, cores: CoreSplit) -> LoadGenerator:
        """Return the load generator: one, or several that share the load.

        Raises:
            InstrumentError: a program is missing.
            DefinitionError: this kind of load runs on this machine only.
        """
        if load != "native":
            raise DefinitionError(
                f"{load} runs on this machine only; leave out --inventory, or use --load native",
                path="--load",
            )
        hosts, rule = self._inventory, StallRule()
        if self.generate_there:
            return self._native(hosts.generator, cores)
        inner: NativeGenerator | SharedGenerator
        count = len(hosts.generators)
        if count > 1:
            crowded = self._crowded(cores)
            inner = SharedGenerator(
                [
                    self._member(host, cores, Share(place, count), crowded)
                    for place, host in enumerate(hosts.generators)
                ]
            )
        else:
            inner = self._native(hosts.generator, cores)
        agent = self._connections.agent(hosts.generator)
        ticker = [self._facts[hosts.target.name].loadgen, "ticker"]
        ticker += ["--cpus", ",".join(map(str, cores.server)), "--gap", f"{rule.gap_us:.0f}"]
        target = self._connections.agent(hosts.target)
        return WatchedGenerator(inner, RemoteWatch(target, agent, ticker, rule))

    def _crowded(self, cores: CoreSplit) -> frozenset[str]:
        """Return the generators that share a CPU, since their hosts are of one machine."""
        users: dict[tuple[bytes, int], list[str]] = {}
        for host in self._inventory.generators:
            machine = self._connections.agent(host).read(_BOOT_ID)
            for cpu in self.cpus_on(host, cores):
                users.setdefault((machine, cpu), []).append(host.name)
        return frozenset(name for names in users.values() if names[1:] for name in names)

    def _member(
        self, host: Host, cores: CoreSplit, share: Share, crowded: Collection[str]
    ) -> Member:
        agent = self._connections.agent(host)

        def read_clock() -> ClockReading:
            return agent.clocks()["monotonic_ns"]

        # Generators that spin on one CPU would keep each other from it for milliseconds.
        native = self._native(host, cores, share, spins=host.name not in crowded)
        return Member(host.name, native, read_clock)

    def _native(
        self, host: Host, cores: CoreSplit, share: Share = WHOLE, *, spins: bool = True
    ) -> NativeGenerator:
        there = self._facts[host.name].loadgen
        place = remote.RemoteGeneratorHost(
            host,
            self._connections.agent(host),
            self._connections.path(host),
            there,
            watches_server=host.name == self._inventory.target.name,
        )
        own = replace(cores, generator=self.cpus_on(host, cores))
        return NativeGenerator(Path(there), own, StallRule(), place, share, spins=spins)


def refuse_target_among(hosts: Inventory) -> None:
    """Raise DefinitionError if one of several generators is the target."""
    name = hosts.target.name
    if hosts.generators[1:] and name in {host.name for host in hosts.generators}:
        raise DefinitionError(
            f"{name} is the target and one of several generators, which it would disturb; leave it"
            " out of the group generators",
            path="--inventory",
        )
