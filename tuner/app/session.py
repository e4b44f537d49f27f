"""From a preflight to a bench: record, lab, ports.

Only this module and ``tuner.app.premises`` create and combine adapters.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tuner import __version__
from tuner.app import signing
from tuner.app.lent_service import LentService
from tuner.app.preflight import Preflight, kernel_loan, service_lease_s
from tuner.app.premises import Lab
from tuner.app.progress import RunProgress
from tuner.app.writing import writing_results
from tuner.errors import DefinitionError, HostError
from tuner.generators.generator import members_of
from tuner.generators.native import NativeGenerator
from tuner.hosts.deployer import InstanceSpec
from tuner.measurement.stalls import CYCLES, SPANS
from tuner.own.server import InPlaceServer
from tuner.paths import STUDIES, has_record, recorded_studies, temporaries_in
from tuner.phases.bench import Bench
from tuner.phases.study import SATURATION_GATES, StudySpec
from tuner.record.file import read_record
from tuner.record.model import ConfigurationRecord, Record, StudyHost
from tuner.render.render import export_placement
from tuner.servers import backend as lab_backend
from tuner.servers import native_backend
from tuner.servers.certificate import make_certificate
from tuner.servers.ground import TargetGround
from tuner.servers.server import ExportsMore
from tuner.space.configuration import Configuration
from tuner.space.kernel import (
    open_files,
    server_part,
    settings_of,
)
from tuner.space.parameter import units_of
from tuner.store.storage import Say, no_message, scrubbed, without_secret
from tuner.store.store import Header, Store, sqlite_url
from tuner.workload.site import generate


@dataclass(frozen=True, slots=True)
class ReadyLab:
    """A lab in which instances can be started."""

    found: Preflight
    """The preflight with a workload that trusts the lab's certificate."""
    lab: Lab
    ground: TargetGround
    backend_pids: tuple[int, ...]
    """Processes of the backends."""


@contextlib.contextmanager
def open_bench(
    found: Preflight,
    folder: Path,
    progress: RunProgress,
    store: Store,
    others: Sequence[Preflight] = (),
) -> Iterator[tuple[Bench, StudySpec]]:
    """Yield the bench of a study, and always remove its lab at the end.

    It can deploy configurations of ``found``'s space, and of the spaces of ``others``, also with
    another program of the same server.
    """
    if isinstance(found.own, InPlaceServer):
        lease_s, service = service_lease_s(found.definition), found.premises.service()
        with service.lent(folder, found.server.name, found.own.socket, lease_s) as lent:
            for configuration in (found.baseline, *found.others):
                store.add_configuration(describe(found, configuration))
            bench = _bench(found, lent, lent.ground(found.server.binary), progress, store)
            yield replace(bench, exclusive=True), _spec(found)
        return
    with ready_lab(found, folder, others) as ready:
        # Not in create_store, because a study may have been killed in between.
        for configuration in (found.baseline, *found.others):
            store.add_configuration(describe(found, configuration))
        bench = _bench(ready.found, ready.lab, ready.ground, progress, store, others=others)
        yield replace(bench, backend_pids=ready.backend_pids), _spec(ready.found)


@contextlib.contextmanager
def ready_lab(
    found: Preflight, folder: Path, others: Sequence[Preflight] = ()
) -> Iterator[ReadyLab]:
    """Yield a lab with the site and the backends of its workloads, and remove it at the end.

    Args:
        found: preflight of the study.
        folder: folder of the study.
        others: preflights of further servers in the same lab.

    Raises:
        HostError: a backend does not start.
    """
    loan = kernel_loan(found.definition) if found.kernel else None
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
        site: dict[str, bytes] = {}
        for each in (*others, found):
            site |= generate(each.workload)
        lab.deployer.publish(site)
        ground, backend_pids = _with_backend(found, others, lab, ground)
        found, ground = _with_certificate(found, ground, lab.work)
        yield ReadyLab(found, lab, ground, backend_pids)


def instance_of(
    known: Preflight, ground: TargetGround, folder: str, configuration: Configuration, port: int
) -> InstanceSpec:
    """Return the instance of a configuration.

    Args:
        known: preflight of its server.
        ground: layout of the host, with the program that its account can run.
        folder: name of its folder.
        configuration: the configuration.
        port: port of the instance.
    """
    # A file server has no upstreams, even if other servers have backends.
    ground = ground if known.workload.backend else replace(ground, upstreams=())
    own_part = server_part(configuration)
    return replace(
        known.adapter.instance(folder, own_part, known.space, ground, port),
        kernel=settings_of(configuration, known.kernel),
        open_files=open_files(configuration),
    )


def create_store(
    found: Preflight,
    folder: Path,
    first: StudyHost | None = None,
    say: Say = no_message,
    *,
    asked: Mapping[str, object] | None = None,
    command: str = "",
    begin: Callable[[Store], None] | None = None,
) -> Store:
    """Create the record of a new study.

    Args:
        found: preflight of the study.
        folder: folder of its results.
        first: first host of a shared study.
        say: printer of a message when the storage does not answer.
        asked: options of the command, to find the study when it resumes.
        command: command line or call that began it.
        begin: writes what the command needs to resume the study.
    """

    def begin_signed(store: Store) -> None:
        if begin is not None:
            begin(store)
        signing.begin(store)

    with writing_results(folder):
        folder.mkdir(parents=True, exist_ok=True)
    definition = found.definition
    kept = definition.as_dict()
    if definition.storage is not None:
        kept["storage"] = without_secret(definition.storage)
    return Store.create(
        definition.storage or sqlite_url(folder),
        Header(
            name=definition.name,
            definition=kept,
            tuner_version=__version__,
            command=scrubbed(command),
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
        begin=begin_signed,
    )


def open_store(name: str, storage: str | None, *, writing: bool = True) -> Store:
    """Return the record of an existing study.

    Args:
        name: name of the study.
        storage: value of ``--storage``.
        writing: whether the caller may change the storage.

    Raises:
        DefinitionError: the folder has no such study.
        StoreError: the record cannot be read.
    """
    folder = STUDIES / name
    if storage is None and not has_record(folder):
        known = [folder.name for folder in recorded_studies()]
        here = f"existing studies: {', '.join(known)}" if known else "it has no studies yet"
        raise DefinitionError(f"no study called {name!r} in {STUDIES}/; {here}", path="NAME")
    return Store.open(storage or sqlite_url(folder), name, writing=writing)


def open_record(name: str, storage: str | None) -> Record:
    """Return the record of a study, or of an exported file (``record.json.gz``).

    Args:
        name: name of the study, or path of the file.
        storage: value of ``--storage``.

    Raises:
        DefinitionError: the folder has no such study.
        StoreError: the record cannot be read.
    """
    if is_file_name(name):
        return read_record(Path(name))
    return open_store(name, storage, writing=False).record()


def is_file_name(name: str) -> bool:
    """Return whether a name means an exported record, not a study."""
    return name.endswith((".json.gz", ".json"))


def describe(found: Preflight, configuration: Configuration) -> ConfigurationRecord:
    """Return a configuration with its exported text."""
    placement = export_placement(found.workload.wire)
    adapter = found.adapter
    own = server_part(configuration)
    more: Mapping[str, str] = {}
    if isinstance(adapter, ExportsMore):
        more = adapter.export_files(own, found.space, found.server, placement)
    return ConfigurationRecord(
        found.space.name,
        configuration.digest,
        configuration.values,
        adapter.export_text(own, found.space, placement),
        adapter.file_name,
        more,
        settings_of(configuration, found.kernel),
        found.space.inactive(configuration),
        units_of(found.space.parameters),
    )


def free_name(wanted: str) -> str:
    """Return a name without a study, made of the wanted one and a number if necessary."""
    name, number = wanted, 1
    while (STUDIES / name).exists():
        number += 1
        name = f"{wanted}-{number}"
    return name


def _bench(
    found: Preflight,
    lab: Lab | LentService,
    ground: TargetGround,
    progress: RunProgress,
    store: Store,
    *,
    others: Sequence[Preflight] = (),
) -> Bench:
    # Of several programs of one server, the first one's is the bench's own.
    by_space = {known.space.name: known for known in (*reversed(others), found)}
    by_program = {known.server.binary: known for known in (*reversed(others), found)}
    programs = {program: lab.runnable(program) for program in by_program}

    def make(folder: str, configuration: Configuration, port: int) -> InstanceSpec:
        return make_of(by_space[configuration.space], folder, configuration, port)

    def make_of(
        known: Preflight, folder: str, configuration: Configuration, port: int
    ) -> InstanceSpec:
        at = replace(ground, binary=programs[known.server.binary])
        return instance_of(known, at, folder, configuration, port)

    several = bool(members_of(found.generator))
    # Busy cycles of several generators would be longer by the error of their clocks, and at a high
    # rate never end. Spans need their instants to a fraction of a millisecond only.
    rule = SPANS if several else CYCLES
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
        rule=rule if found.leaves_out_stalls else None,
        gates=SATURATION_GATES,
        seed=found.definition.seed,
        clock=time.time,
        pause=time.sleep,
        others=found.others,
        read_counters=lab.read_counters,
        read_log=lab.read_log,
        address=lab.address,
        exclusive=found.kernel is not None,
        # Their turns would differ by the same error.
        slices=not several,
        polling=found.premises.polling if found.polls else None,
        freezes=isinstance(found.generator, NativeGenerator),
        code=dict(store.record().code),
        makers={program: partial(make_of, known) for program, known in by_program.items()},
    )


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
        design=found.design,
        ablate=definition.ablate == "auto",
        sampler=found.sampler,
    )


def _with_backend(
    found: Preflight, others: Sequence[Preflight], lab: Lab, ground: TargetGround
) -> tuple[TargetGround, tuple[int, ...]]:
    """Return the ground with the workload's backends, and their processes.

    A backend over HTTP is an Nginx; all other protocols have one backend of ``tuner-loadgen``.
    """
    backends = [each.workload.backend for each in (found, *others) if each.workload.backend]
    protocols = {protocol for backend in backends for protocol in backend.protocols}
    if not protocols:
        return ground, ()
    http = backends[0].count if "http" in protocols else 0
    is_native = protocols != {"http"}
    ports = lab.backend_ports(http + is_native)
    behind = replace(ground, binary=(found.backend or found.server).binary)
    specs = [
        lab_backend.instance(found.workload, behind, port, i)
        for i, port in enumerate(ports[:http], 1)
    ]
    if is_native:
        native = replace(ground, binary=lab.native_backend())
        specs.append(native_backend.instance(found.workload, native, ports[-1]))
    states = lab.deployer.deploy_backends(specs)
    for name, state in states.items():
        if state.state != "live":
            raise HostError(f"the {name} does not start: {state.message}")
    pids = tuple(pid for state in states.values() for pid in state.pids)
    addresses = tuple(f"{ground.backend_address}:{port}" for port in ports)
    at = addresses[-1] if is_native else ""
    return replace(ground, upstreams=addresses[:http], native_backend=at), pids


def _with_certificate(
    found: Preflight, ground: TargetGround, work: Path
) -> tuple[Preflight, TargetGround]:
    """Return both with the lab's own certificate; the generator trusts it by default."""
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
