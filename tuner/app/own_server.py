"""The user's own server in a preflight: reading, checking, and adapting it."""

from __future__ import annotations

from dataclasses import replace

from tuner.app.premises import Premises
from tuner.definition.study import StudyDefinition
from tuner.errors import DefinitionError
from tuner.lint.check import lint_own
from tuner.lint.finding import lint_facts
from tuner.machine.facts import HostFacts, ServerFacts
from tuner.own.catalog import READERS
from tuner.own.server import OwnConfiguration, OwnOptions, OwnServer
from tuner.servers import catalog
from tuner.space.space import Space
from tuner.workload.workload import Workload


def completed(definition: StudyDefinition, workload: Workload) -> StudyDefinition:
    """Return the definition with the configuration that a study in place tunes by default.

    Raises:
        DefinitionError: the study must not name a user's configuration, or lacks one.
    """
    check(definition, workload)
    if not definition.in_place or definition.config:
        return definition
    return replace(definition, config=catalog.server(definition.server).usual_place.path)


def check(definition: StudyDefinition, workload: Workload) -> None:
    """Raise DefinitionError if a study must not name a user's configuration, or lacks one.

    Raises:
        DefinitionError: an error with the option.
    """
    if definition.in_place:
        _check_in_place(definition, workload)
        return
    if workload.speaks_grpc:
        _check_grpc(definition, workload)
    if not definition.config:
        if workload.own_site and definition.server not in READERS:
            raise DefinitionError(
                f"workload {workload.name!r} requests files of your own server, and tuner does not"
                f" read the configuration of {definition.server} yet; name a workload that brings"
                " its content, such as --workload static or proxy",
                path="--workload",
            )
        if workload.own_site:
            usual = catalog.server(definition.server).usual_place.path
            raise DefinitionError(
                f"workload {workload.name!r} requests files of your own server; name its"
                f" configuration: --config {usual}",
                path="--workload",
            )
        return
    if definition.server not in READERS:
        raise DefinitionError(
            f"supports {', '.join(READERS)}, not yet {definition.server}; leave out --config to"
            " tune from the template",
            path="--config",
        )


def _check_grpc(definition: StudyDefinition, workload: Workload) -> None:
    able = [name for name, reader in READERS.items() if reader.passes_grpc]
    if definition.server not in able or not definition.config:
        ways = (
            f"--server {name} --config {catalog.server(name).usual_place.path}" for name in able
        )
        raise DefinitionError(
            f"workload {workload.name!r} requests gRPC, which only a configuration of your own"
            f" passes on; name it: {' or '.join(ways)}",
            path="--workload",
        )


def _check_in_place(definition: StudyDefinition, workload: Workload) -> None:
    if not definition.inventory:
        raise DefinitionError(
            "tunes the service of one host with load from another host; name both hosts with"
            " --inventory hosts.yml",
            path="--in-place",
        )
    able = [name for name, reader in READERS.items() if reader.tunes_in_place]
    if definition.server not in able:
        raise DefinitionError(
            f"supports {' and '.join(able)}, not yet {definition.server}; leave it out to tune in"
            " the lab, with a workload that brings its content, such as --workload static or proxy",
            path="--in-place",
        )
    if not workload.own_site:
        raise DefinitionError(
            f"workload {workload.name!r} comes with its own content, but a service in place serves"
            " its own; name a workload with `site: own` (docs/workloads.md; `tuner workload"
            " from-log` writes one from an access log)",
            path="--workload",
        )
    if workload.backend is not None:
        raise DefinitionError(
            "a service in place uses its own backends; remove `backend` from the workload",
            path="--workload",
        )


def reading_program(definition: StudyDefinition, server: ServerFacts) -> ServerFacts:
    """Return the program that reads and validates the user's configuration.

    The target validates a language that tuner reads itself. A language that only the server's
    program reads, with its files and environment, needs the program of this machine.

    Args:
        definition: definition of the study.
        server: facts of the serving program.

    Raises:
        HostError: another host serves, and the program is missing on this machine.
    """
    here = definition.in_place or not definition.inventory
    if not definition.config or here or not READERS[server.name].reads_with_program:
        return server
    return catalog.server(server.name).detect()


def read(
    definition: StudyDefinition,
    workload: Workload,
    server: ServerFacts,
    premises: Premises,
) -> OwnConfiguration | None:
    """Return the study's own configuration; None without one.

    Args:
        definition: definition of the study.
        workload: what is asked.
        server: facts of the reading program.
        premises: hosts of the study.

    Raises:
        DefinitionError: an error with the user's file and line, or the option.
    """
    if not definition.config:
        return None
    reader, given = READERS[server.name], wishes(definition)
    if definition.in_place:
        return reader.read_in_place(given, workload, premises.service(), server.binary)
    return reader.read(given, workload, premises.target, server.binary)


def wishes(definition: StudyDefinition) -> OwnOptions:
    """Return the options about the user's own configuration."""
    return OwnOptions(
        definition.config,
        server_name=definition.server_name,
        root=definition.root,
        prefix=definition.prefix,
        env_file=definition.env_file,
        keep_upstreams=definition.keep_upstreams,
    )


def adapted(
    own: OwnConfiguration | None,
    space: Space,
    server: ServerFacts,
    reads: ServerFacts,
    host: HostFacts,
) -> tuple[OwnServer | None, tuple[str, ...]]:
    """Return the adapter of the user's server, with notes on what differs in the lab.

    Args:
        own: the parsed configuration.
        space: space of the study.
        server: facts of the serving program.
        reads: the program that reads it, see ``reading_program``.
        host: facts of the serving host.

    Raises:
        DefinitionError: the server refuses it, or it has no tunable parameter.
    """
    if own is None:
        return None, ()
    made, notes = own.adapt(space, reads)
    if reads.version != server.version:
        words = f"{server.name} {reads.version} of this machine reads your configuration"
        notes = (*notes, f"{words}, and {server.version} serves it")
    wrong = (
        f"{found.where}: wrong: {found.what}; {found.remedy} ({found.link})"
        for found in lint_own(server.name, own, lint_facts(host, server))
        if found.severity == "wrong"
    )
    return made, (*notes, *wrong)
