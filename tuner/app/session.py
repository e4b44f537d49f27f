"""From a study's definition to a bench: preflight, lab, ports.

With ``tuner.app.premises`` the only place where adapters are made and put together.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from tuner import __version__
from tuner.app import connections, notes, own_server, signing
from tuner.app.in_place import LentService
from tuner.app.premises import Lab, Premises, open_premises
from tuner.app.progress import TerminalProgress
from tuner.app.turn import current_turn
from tuner.app.writing import writing_results
from tuner.definition.published import carried_over
from tuner.definition.study import PUBLISHED, StudyDefinition
from tuner.errors import DefinitionError, HostError
from tuner.goals.goals import Goals
from tuner.hosts.ansible import KernelLoan
from tuner.hosts.deployer import InstanceSpec
from tuner.hosts.proc import reports_waits
from tuner.judge.forecast import Forecast, forecast
from tuner.judge.plan import Design
from tuner.load.generator import LoadGenerator
from tuner.machine.facts import CoreSplit, HostFacts, ServerFacts
from tuner.measurement.stalls import KEEP, StallRule
from tuner.own.server import InPlaceServer
from tuner.paths import temporaries_in
from tuner.phases.bench import Bench
from tuner.phases.study import SATURATION_GATES, StudySpec
from tuner.record.model import ConfigurationRecord, StudyHost
from tuner.render.reach import edges
from tuner.render.render import EXPORT, export_placement
from tuner.servers import backend as lab_backend
from tuner.servers import catalog
from tuner.servers.certificate import make_certificate
from tuner.servers.ground import TargetGround
from tuner.servers.server import Server
from tuner.space.configuration import Configuration
from tuner.space.facts import space_facts
from tuner.space.kernel import (
    BUILT_IN,
    LAYER,
    KernelState,
    checked,
    joined,
    open_files,
    server_part,
    setting_of,
    settings_of,
)
from tuner.space.parameter import OWN
from tuner.space.space import BASELINES, Space, bind_space
from tuner.store.storage import Say, no_message, scrubbed, without_secret
from tuner.store.store import Header, Store, sqlite_url
from tuner.words.terminal import wrapped
from tuner.workload.site import generate
from tuner.workload.workload import Workload, load_workload

STUDIES = Path("studies")
"""Folder of results, in the folder where tuner is called."""


@dataclass(frozen=True, slots=True)
class Preflight:
    """Everything known before the first deployment."""

    definition: StudyDefinition
    premises: Premises
    host: HostFacts
    server: ServerFacts
    cores: CoreSplit
    workload: Workload
    space: Space
    goals: Goals
    baseline: Configuration
    beside: tuple[Configuration, ...]
    """Further baselines, confirmed in the same blocks."""
    generator: LoadGenerator
    notes: tuple[str, ...]
    backend: ServerFacts | None = None
    """Server behind a proxy, the same kind whichever server is under test."""
    kernel: KernelState | None = None
    """Kernel settings as found, where they are part of the configuration."""
    own: Server | None = None
    """The user's own server, where its configuration is given."""

    @property
    def adapter(self) -> Server:
        """Adapter of the server under test."""
        return self.own or catalog.server(self.server.name)

    @property
    def leaves_out_stalls(self) -> bool:
        """True if latencies leave out what stalls of the host touch."""
        told = self.generator.instrument.tells_stalls and not self.cores.shared
        return told and self.definition.stalls != KEEP


def preflight(
    definition: StudyDefinition, workload: Workload | None = None, *, watch: bool = True
) -> Preflight:
    """Look at everything that can be wrong before anything is started.

    Args:
        definition: of the study.
        workload: in place of the one that the definition names, which it was made of.
        watch: whether to watch the host for stalls, which takes two seconds.

    Raises:
        DefinitionError: the definition does not fit together.
        HostError, InstrumentError: server or generator are missing.
    """
    workload = workload or load_workload(definition.workload)
    if definition.connections is not None:
        workload = replace(workload, connections=definition.connections)
    definition = own_server.completed(definition, workload)
    connections.check(definition, workload)
    premises = open_premises(
        definition.inventory, serves=definition.server if definition.in_place else ""
    )
    host = premises.host
    adapter = catalog.server(definition.server)
    found = premises.detect(adapter)
    reads = own_server.reading_program(definition, found)
    mine = own_server.read(definition, workload, reads, premises)
    workload = mine.workload if mine else workload
    cores = premises.cores(backend=workload.backend is not None)
    turn = current_turn()
    if turn is not None:
        premises.take_cores(turn, cores)
    facts = space_facts(host, found, workload, len(cores.server))
    space = bind_space(definition.space, facts, definition.force)
    if space.server != definition.server:
        raise DefinitionError(
            f"{definition.space!r} is a space of {space.server}, the study's server is"
            f" {definition.server}",
            path="--space",
        )
    own, own_notes = own_server.adapted(mine, space, found, reads, host)
    space = own.bound.space if own else space
    kernel = None
    if definition.layer:
        name = BUILT_IN if definition.layer == LAYER else definition.layer
        layer = checked(bind_space(name, facts))
        kernel = premises.kernel([setting_of(p.name) for p in layer.parameters])
        space = joined(space, layer, kernel)
    space.searched(definition.allow)
    baseline, *beside = read_baselines(definition, space)
    if own is None:
        # Rendered for nothing, so that a space that does not fit the workload is found out, and
        # a template of the user's own by which values reach too far.
        upstreams = EXPORT.upstreams if workload.backend else ()
        placement = replace(EXPORT, upstreams=upstreams)
        for configuration in (baseline, *edges(space, baseline)):
            adapter.export_text(server_part(configuration), space, placement)
    refusal = adapter.refuses(found, workload.wire)
    if refusal:
        raise DefinitionError(refusal, path="--workload")
    generator = premises.generator(definition.load, cores)
    for objective in definition.goals.objectives:
        refusal = generator.refuses(workload, objective.mode)
        if refusal:
            raise DefinitionError(f"{definition.load} {refusal}", path="--load")
    return Preflight(
        definition=definition,
        premises=premises,
        host=host,
        server=found,
        cores=cores,
        workload=workload,
        space=space,
        goals=definition.goals,
        baseline=baseline,
        beside=tuple(beside),
        generator=generator,
        notes=(
            *own_notes,
            *published_notes(definition, space),
            *notes.preflight_notes(host, cores, workload, generator, space, watch=watch),
            *(() if kernel is None else (notes.kernel_note(space, _loan(definition).lease_s),)),
            *([notes.in_place_note(_lease_s(definition))] if definition.in_place else []),
            *([] if definition.inventory or reports_waits() else [notes.NO_SCHEDSTAT]),
            *([notes.KEPT_STALLS] if definition.stalls == KEEP else []),
        ),
        backend=premises.detect_backend(found) if workload.backend else None,
        kernel=kernel,
        own=own,
    )


def read_baselines(definition: StudyDefinition, space: Space) -> list[Configuration]:
    """Return the study's baseline, then those beside it.

    Raises:
        DefinitionError: two of them are one configuration on this server.
    """
    names = [definition.baseline, *definition.beside]
    found = [read_configuration(name, space, definition.published) for name in names]
    for place, configuration in enumerate(found):
        first = found.index(configuration)
        if first < place:
            raise DefinitionError(
                f"{names[first]} and {names[place]} are the same configuration here"
                f" ({configuration.digest}); leave one of them out",
                path="--baseline",
            )
    return found


def read_configuration(name_or_path: str, space: Space, published: str = "") -> Configuration:
    """Return a named baseline, or a configuration's YAML file.

    Args:
        name_or_path: ``stock``, ``distro``, ``hand``, ``published``, or a file.
        space: bound to this host and server.
        published: the file that the study publishes.
    """
    if name_or_path in (*BASELINES, OWN):
        return space.baseline(name_or_path)
    if name_or_path == PUBLISHED:
        if not published:
            raise DefinitionError(
                "this study names no published configuration; write its file under 'published'"
            )
        return carried_over(Path(published), space)[0]
    return space.read_configuration(name_or_path)


def published_notes(definition: StudyDefinition, space: Space) -> tuple[str, ...]:
    """Return notes on published settings that the baseline of that name lacks."""
    if PUBLISHED not in (definition.baseline, *definition.beside):
        return ()
    _, lost = carried_over(Path(definition.published), space)
    return tuple(f"not carried over from the published configuration: {text}" for text in lost)


def announce(found: Preflight, folder: Path, *, what: str, search: bool = True) -> None:
    """Say what will happen, on what, for how long, before it starts."""
    definition, cores = found.definition, found.cores
    searched = [p.name for p in found.space.searched(definition.allow)]
    server, host, workload = found.server, found.host, found.workload
    backend = f", backend {_ids(cores.backend)}" if cores.backend else ""
    rows = {
        what: f"{server.name} {server.version}, objective {found.goals.words}",
        "workload": f"{workload.name}: {workload.summary} ({workload.wire.words})",
        "host": f"{host.cpu_model}, {len(host.cpus)} cores, {host.distribution}, {host.kernel}",
        "cores": f"generator {_ids(cores.generator)}, server {_ids(cores.server)}{backend}",
        "limits": f"{host.file_limit:,} open files, somaxconn {host.somaxconn:,}",
        "baseline": ", ".join(
            f"{name} ({configuration.digest})"
            for name, configuration in zip(
                (definition.baseline, *definition.beside),
                (found.baseline, *found.beside),
                strict=True,
            )
        ),
        "search": f"{len(searched)} parameters of {found.space.name}: {', '.join(searched)}",
        "time": f"{_forecast(found, search=search).words}; results in {folder}/",
    }
    if not search:
        del rows["search"]
    if found.premises.words:
        rows["fleet"] = found.premises.words
    rows.update({f"note {i}": note for i, note in enumerate(found.notes, 1)})
    for title, text in rows.items():
        first, *rest = wrapped(text, 11, 11)
        click.echo(f"{title:<10} {first}", err=True)
        for line in rest:
            click.echo(line, err=True)


def _forecast(found: Preflight, *, search: bool) -> Forecast:
    definition = found.definition
    return forecast(
        definition.time_s,
        found.goals,
        _design(definition),
        rate_per_s=definition.rate_per_s,
        exclusive=found.kernel is not None or bool(definition.in_place),
        search=search,
    )


def _design(definition: StudyDefinition) -> Design:
    return Design(definition.finalists, definition.sequential, len(definition.beside))


@contextlib.contextmanager
def open_bench(
    found: Preflight,
    folder: Path,
    progress: TerminalProgress,
    store: Store,
    others: Sequence[Preflight] = (),
) -> Iterator[tuple[Bench, StudySpec]]:
    """The lab of a study, always taken down at the end.

    Configurations of the spaces of ``others`` can be deployed too, along with those of ``found``.
    """
    if isinstance(found.own, InPlaceServer):
        lease_s, service = _lease_s(found.definition), found.premises.service()
        with service.lent(folder, found.server.name, found.own.socket, lease_s) as seat:
            for configuration in (found.baseline, *found.beside):
                store.add_configuration(describe(found, configuration))
            bench = _bench(found, seat, seat.ground(found.server.binary), progress, store)
            yield replace(bench, exclusive=True), _spec(found)
        return
    loan = _loan(found.definition) if found.kernel else None
    with found.premises.lab(folder, loan) as lab, temporaries_in(lab.work):
        ground = TargetGround(
            binary=found.server.binary,
            instances_dir=lab.deployer.instances_dir,
            backends_dir=lab.deployer.backends_dir,
            site_dir=lab.deployer.site_dir,
            cpus=found.cores.server,
            backend_cpus=found.cores.backend,
            upstreams=(),
            address=lab.address,
            backend_address=lab.backend_address,
        )
        lab.deployer.publish(generate(found.workload))
        ground, backend = _with_backend(found, lab, ground)
        found, ground = _with_certificate(found, ground, lab.work)
        # Here and not where the record begins: a study may have been killed in between.
        for configuration in (found.baseline, *found.beside):
            store.add_configuration(describe(found, configuration))
        bench = _bench(found, lab, ground, progress, store, others=others)
        yield replace(bench, backend_pids=backend), _spec(found)


def create_store(
    found: Preflight,
    folder: Path,
    first: StudyHost | None = None,
    say: Say = no_message,
    *,
    asked: Mapping[str, object] | None = None,
) -> Store:
    """Begin the record of a new study.

    Args:
        found: what it is of.
        folder: of its results.
        first: the first of several hosts that share it.
        say: called when the storage does not answer.
        asked: the options of a command that makes several studies, of which this is one.
    """
    with writing_results(folder):
        folder.mkdir(parents=True, exist_ok=True)
    definition = found.definition
    kept = definition.as_dict()
    if definition.storage is not None:
        kept["storage"] = without_secret(definition.storage)
    store = Store.create(
        definition.storage or sqlite_url(folder),
        Header(
            name=definition.name,
            definition=kept,
            tuner_version=__version__,
            command=scrubbed(shlex.join(["tuner", *sys.argv[1:]])),
            generator=found.generator.name,
            host=found.host,
            server=found.server,
            cores=found.cores,
            notes=found.notes,
            started_unix_s=time.time(),
            baseline=found.baseline.digest,
            objective=definition.goals.first.text,
            instrument=found.generator.instrument,
            home=first.name if first else "",
            asked=asked or {},
        ),
        say=say,
        first=first,
    )
    signing.begin(store)
    return store


def open_store(name: str, storage: str | None, *, writing: bool = True) -> Store:
    """Return the record of an existing study.

    Args:
        name: of the study.
        storage: as given by ``--storage``.
        writing: without it nothing is changed in the storage.

    Raises:
        DefinitionError: there is no such study in this folder.
        StoreError: its record cannot be read.
    """
    folder = STUDIES / name
    if storage is None and not (folder / "record.db").is_file():
        known = sorted(path.parent.name for path in STUDIES.glob("*/record.db"))
        here = f"here are: {', '.join(known)}" if known else "there is none yet"
        raise DefinitionError(f"no study called {name!r} in {STUDIES}/; {here}", path="NAME")
    return Store.open(storage or sqlite_url(folder), name, writing=writing)


def describe(found: Preflight, configuration: Configuration) -> ConfigurationRecord:
    """Return a configuration with its text as it would be exported."""
    placement = export_placement(found.workload.wire)
    adapter = found.adapter
    own = server_part(configuration)
    return ConfigurationRecord(
        found.space.name,
        configuration.digest,
        configuration.values,
        adapter.export_text(own, found.space, placement),
        adapter.file_name,
        adapter.export_files(own, found.space, found.server, placement),
        settings_of(configuration, found.kernel),
        found.space.inactive(configuration),
    )


def free_name(wanted: str) -> str:
    """Return the name, with a number behind it if a study of that name is here already."""
    name, number = wanted, 1
    while (STUDIES / name).exists():
        number += 1
        name = f"{wanted}-{number}"
    return name


def _bench(
    found: Preflight,
    lab: Lab | LentService,
    ground: TargetGround,
    progress: TerminalProgress,
    store: Store,
    *,
    others: Sequence[Preflight] = (),
) -> Bench:
    by_space = {known.space.name: known for known in (found, *others)}

    def make(label: str, configuration: Configuration, port: int) -> InstanceSpec:
        known = by_space[configuration.space]
        # What serves files itself stands in front of nothing, though others may have backends.
        upstreams = ground.upstreams if known.workload.backend else ()
        beneath = replace(ground, binary=known.server.binary, upstreams=upstreams)
        return replace(
            known.adapter.instance(label, server_part(configuration), known.space, beneath, port),
            kernel=settings_of(configuration, known.kernel),
            open_files=open_files(configuration),
        )

    return Bench(
        deployer=lab.deployer,
        generator=found.generator,
        store=store,
        progress=progress,
        baseline=found.baseline,
        make_instance=make,
        describe=lambda configuration: describe(by_space[configuration.space], configuration),
        free_ports=lab.free_ports,
        workload=found.workload,
        goals=found.goals,
        rule=StallRule() if found.leaves_out_stalls else None,
        gates=SATURATION_GATES,
        seed=found.definition.seed,
        clock=time.time,
        pause=time.sleep,
        beside=found.beside,
        read_counters=lab.read_counters,
        read_log=lab.read_log,
        address=lab.address,
        exclusive=found.kernel is not None,
    )


def _loan(definition: StudyDefinition) -> KernelLoan:
    """Long enough for the longest window of the study, three times over."""
    return KernelLoan(lease_s=max(300.0, definition.time_s / 20))


def _lease_s(definition: StudyDefinition) -> float:
    """Return a shorter ``_loan``: meanwhile the service's users have what was being tried."""
    return max(60.0, definition.time_s / 20)


def _spec(found: Preflight) -> StudySpec:
    definition = found.definition
    return StudySpec(
        space=found.space,
        allow=definition.allow,
        known_good=(
            found.space.adopt(found.space.baseline("hand"), found.baseline, definition.allow),
        ),
        rate_per_s=definition.rate_per_s,
        time_s=definition.time_s,
        trials=definition.trials,
        effect=definition.effect,
        server_cores=len(found.cores.server),
        design=_design(definition),
    )


def _with_backend(
    found: Preflight, lab: Lab, ground: TargetGround
) -> tuple[TargetGround, tuple[int, ...]]:
    """Return the ground with the workload's backend, and its processes."""
    if found.workload.backend is None:
        return ground, ()
    behind = replace(ground, binary=(found.backend or found.server).binary)
    ports = lab.backend_ports(found.workload.backend.count)
    specs = [
        lab_backend.instance(found.workload, behind, port, i) for i, port in enumerate(ports, 1)
    ]
    states = lab.deployer.deploy_backends(specs)
    for name, state in states.items():
        if state.state != "live":
            raise HostError(f"the {name} does not start: {state.message}")
    pids = tuple(pid for state in states.values() for pid in state.pids)
    addresses = tuple(f"{ground.backend_address}:{port}" for port in ports)
    return replace(ground, upstreams=addresses), pids


def _with_certificate(
    found: Preflight, ground: TargetGround, work: Path
) -> tuple[Preflight, TargetGround]:
    """The lab's own certificate, which the generator trusts unless the workload names another."""
    wire = found.workload.wire
    ground = replace(ground, protocol=wire.protocol)
    if wire.tls is None:
        return found, ground
    made = make_certificate(wire.tls.server_name)
    work.mkdir(parents=True, exist_ok=True)
    ca = work.resolve() / "ca.pem"
    ca.write_text(made.ca, encoding="ascii")
    tls = replace(wire.tls, ca_file=wire.tls.ca_file or str(ca))
    workload = replace(found.workload, wire=replace(wire, tls=tls))
    return replace(found, workload=workload), replace(ground, certificate=made)


def _ids(cpus: tuple[int, ...]) -> str:
    return ",".join(map(str, cpus))
