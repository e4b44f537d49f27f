"""The preflight before the first deployment: resolve the host, bind the space, check."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

from tuner.app import notes
from tuner.app.bind import StudySpace, bind, published_notes
from tuner.app.check import check, check_search
from tuner.app.cpu_notes import cpu_notes
from tuner.app.premises import Premises
from tuner.app.resolve import Resolved, resolve
from tuner.definition.sampler_names import check_code
from tuner.definition.study import StudyDefinition
from tuner.errors import DefinitionError
from tuner.generators.generator import LoadGenerator, SharesLoad, WatchesStalls
from tuner.goals.goals import Goals
from tuner.hosts.ansible import KernelLoan
from tuner.hosts.host_locks import HostLocks
from tuner.hosts.proc import reports_waits
from tuner.judge.plan import Design
from tuner.machine.facts import CoreSplit, HostFacts, ServerFacts
from tuner.machine.idle import POLL, refusal_to_poll
from tuner.measurement.stalls import KEEP
from tuner.own.server import OwnServer
from tuner.search.samplers import SamplerChoice, choose_sampler
from tuner.servers import catalog
from tuner.servers.server import Server
from tuner.space.configuration import Configuration
from tuner.space.kernel import KernelState
from tuner.space.space import Space
from tuner.workload.workload import Workload


@dataclass(frozen=True, slots=True)
class Preflight:
    """The facts of a study before the first deployment."""

    definition: StudyDefinition
    premises: Premises
    host: HostFacts
    server: ServerFacts
    cores: CoreSplit
    workload: Workload
    space: Space
    goals: Goals
    baseline: Configuration
    others: tuple[Configuration, ...]
    """Further baselines in the same blocks."""
    generator: LoadGenerator
    notes: tuple[str, ...]
    backend: ServerFacts | None = None
    """Server behind a proxy, of the same kind for every server under test."""
    kernel: KernelState | None = None
    """Original kernel settings, if they are part of the configuration."""
    own: OwnServer | None = None
    """The user's own server, if its configuration is given."""
    sampler: SamplerChoice | None = None
    """Sampler that makes the search's proposals; None for tuner's own search."""
    polls: bool = False
    """True if idle CPUs of the serving host poll in the windows instead of halting."""

    @property
    def adapter(self) -> Server:
        """Adapter of the server under test."""
        return self.own or catalog.server(self.server.name)

    @property
    def design(self) -> Design:
        """Design of the confirmation."""
        definition = self.definition
        return Design(definition.finalists, definition.sequential, len(definition.others))

    @property
    def leaves_out_stalls(self) -> bool:
        """True if latencies exclude requests that stalls touch."""
        reported = self.generator.instrument.tells_stalls and not self.cores.shared
        return reported and self.definition.stalls != KEEP


@dataclass(frozen=True, slots=True)
class Searching:
    """A search that a preflight prepares."""

    code: str = ""
    """Class of a sampler that the user names now; no other is imported."""
    required: bool = True
    """False if a server with nothing to search keeps its baseline."""


def preflight(
    definition: StudyDefinition,
    workload: Workload | None = None,
    *,
    turn: HostLocks | None = None,
    watch: bool = True,
    searching: Searching | None = None,
) -> Preflight:
    """Check everything that can be checked before the start.

    Args:
        definition: definition of the study.
        workload: adapted workload, in place of the definition's.
        turn: locks of the study, which take the cores of other hosts; None if it does not start.
        watch: whether to watch the host for stalls, which takes two seconds.
        searching: the search to prepare; None if the study only measures.

    Raises:
        DefinitionError: the definition is inconsistent, or its sampler cannot be used.
        HostError, InstrumentError: server or generator are missing.
    """
    sampler = None
    if searching is not None:
        check_code(definition.sampler, searching.code, definition.name)
        sampler = choose_sampler(definition.sampler)
    found = resolve(definition, workload, turn=turn)
    bound = bind(found)
    generator = found.premises.generator(found.definition.load, found.cores)
    check(found, bound, generator)
    refusal = _refusal_to_poll(found)
    if searching is not None and searching.required:
        check_search(bound.space, definition.allow)
    return Preflight(
        definition=found.definition,
        premises=found.premises,
        host=found.host,
        server=found.server,
        cores=found.cores,
        workload=found.workload,
        space=bound.space,
        goals=found.definition.goals,
        baseline=bound.baseline,
        others=bound.others,
        generator=generator,
        notes=_notes(found, bound, generator, refusal, watch=watch),
        backend=found.premises.detect_backend(found.server) if found.workload.backend else None,
        kernel=bound.kernel,
        own=bound.own,
        sampler=sampler,
        polls=refusal == "",
    )


def _refusal_to_poll(found: Resolved) -> str | None:
    """Return why idle CPUs cannot poll; empty if they can, and None if they should halt.

    They also halt next to users of a service.

    Raises:
        DefinitionError: they cannot, and the user demands it.
    """
    definition, premises = found.definition, found.premises
    if definition.in_place:
        return None
    wanted, host = definition.idle_cpus, found.host
    refusal = refusal_to_poll(wanted, host.virtualisation, found.cores, premises.refusal_to_poll)
    if refusal and wanted == POLL:
        raise DefinitionError(
            f"idle CPUs cannot poll: {refusal}; leave it out, and they halt", path="--idle-cpus"
        )
    return refusal


def _notes(
    found: Resolved,
    bound: StudySpace,
    generator: LoadGenerator,
    refusal: str | None,
    *,
    watch: bool,
) -> tuple[str, ...]:
    definition, space = found.definition, bound.space
    lease_s = kernel_loan(definition).lease_s
    # The host is watched as it will be measured.
    with found.premises.polling() if watch and refusal == "" else nullcontext():
        host_notes = notes.preflight_notes(
            found.host,
            found.cores,
            found.workload,
            generator,
            space,
            goals=definition.goals,
            watch=watch,
        )
    return (
        *bound.notes,
        *published_notes(definition, space),
        *host_notes,
        *cpu_notes(
            found.host.layout,
            found.cores,
            generator=found.premises.generates_there,
            wanted=definition.cpus,
            speed_lost=_speed_lost(found, generator) if watch else None,
        ),
        *found.premises.generator_notes(found.cores),
        *_shared_load(generator),
        *([notes.kernel_note(space, lease_s)] if bound.kernel is not None else []),
        *([notes.in_place_note(service_lease_s(definition))] if definition.in_place else []),
        *([] if definition.inventory or reports_waits() else [notes.NO_SCHEDSTAT]),
        *([notes.KEPT_STALLS] if definition.stalls == KEEP else []),
        *([notes.halting_note(refusal)] if refusal else []),
    )


def _speed_lost(found: Resolved, generator: LoadGenerator) -> float | None:
    """Return the share of speed that the server loses next to the generator; None: not measured."""
    if found.definition.inventory or not isinstance(generator, WatchesStalls):
        return None
    return notes.speed_lost_to_generator(generator, found.host.layout, found.cores)


def _shared_load(generator: LoadGenerator) -> list[str]:
    """Return a note on several generators, all of which are fit for it.

    Raises:
        InstrumentError: the clock or the program of one cannot be used.
    """
    if not isinstance(generator, SharesLoad) or not generator.members:
        return []
    return [notes.shared_load_note(generator.members, generator.clock_error_ns())]


def kernel_loan(definition: StudyDefinition) -> KernelLoan:
    """Return the loan of kernel settings, for three times the study's longest window."""
    return KernelLoan(lease_s=max(300.0, definition.time_s / 20))


def service_lease_s(definition: StudyDefinition) -> float:
    """Return a shorter lease, because users of the service get the tried configuration."""
    return max(60.0, definition.time_s / 20)
