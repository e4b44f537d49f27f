"""The first step of a preflight: the hosts of a study, and their facts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tuner.app import connections, own_server
from tuner.app.fleet import Fleet
from tuner.app.premises import Premises
from tuner.app.this_machine import ThisMachine
from tuner.definition.study import StudyDefinition
from tuner.hosts.host_locks import HostLocks
from tuner.hosts.inventory import read_inventory
from tuner.machine.facts import CoreSplit, HostFacts, ServerFacts
from tuner.own.server import OwnConfiguration
from tuner.servers import catalog
from tuner.workload.below import moved_below
from tuner.workload.workload import Workload, load_workload


@dataclass(frozen=True, slots=True)
class Resolved:
    """A study's hosts, server and workload."""

    definition: StudyDefinition
    """The definition with the server's defaults."""
    workload: Workload
    """The workload for this server."""
    premises: Premises
    server: ServerFacts
    reads: ServerFacts
    """Program that reads the user's own configuration; usually ``server``."""
    cores: CoreSplit
    own: OwnConfiguration | None
    """The user's own configuration, if given."""

    @property
    def host(self) -> HostFacts:
        """Facts of the serving host."""
        return self.premises.host


def resolve(
    definition: StudyDefinition,
    workload: Workload | None = None,
    *,
    turn: HostLocks | None = None,
) -> Resolved:
    """Find the hosts and the server, read the user's configuration, and take the cores.

    Args:
        definition: definition of the study.
        workload: adapted workload, in place of the definition's.
        turn: locks of the study, which take the cores of other hosts; None without a study.

    Raises:
        DefinitionError: the definition does not fit the hosts or the configuration.
        HostError: a host or the server is missing.
    """
    workload = workload or load_workload(definition.workload)
    if definition.connections is not None:
        workload = replace(workload, connections=definition.connections)
    workload = moved_below(definition.location, workload)
    definition = own_server.completed(definition, workload)
    connections.check(definition, workload)
    premises = _premises(definition)
    server = premises.detect(catalog.server(definition.server), definition.server_binary)
    reads = own_server.reading_program(definition, server)
    own = own_server.read(definition, workload, reads, premises)
    workload = own.workload if own else workload
    cores = premises.cores(backend=workload.backend is not None, wanted=definition.cpus)
    if turn is not None:
        premises.take_cores(turn, cores)
    return Resolved(definition, workload, premises, server, reads, cores, own)


def _premises(definition: StudyDefinition) -> Premises:
    """Return this machine, or the hosts of an inventory with their facts."""
    if not definition.inventory:
        return ThisMachine()
    # A service that is tuned in place must be there already.
    serves = definition.server if definition.in_place else ""
    return Fleet(read_inventory(definition.inventory), serves=serves)
