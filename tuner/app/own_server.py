"""The user's own server in a study's preflight: read, judged, and put behind the server's port."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tuner.app.premises import Premises
from tuner.definition.study import StudyDefinition
from tuner.errors import DefinitionError
from tuner.lint import caddy_rules, nginx_rules
from tuner.lint.finding import Finding, LintFacts, lint_facts
from tuner.machine.facts import HostFacts, ServerFacts
from tuner.own.caddy import in_place as caddy_in_place
from tuner.own.caddy import server as caddy
from tuner.own.caddy.home import LocalCaddyHome
from tuner.own.nginx import in_place as nginx_in_place
from tuner.own.nginx import server as nginx
from tuner.own.server import OwnConfiguration, OwnOptions, OwnServer
from tuner.servers import catalog
from tuner.space.space import Space
from tuner.workload.workload import Workload

READ = ("nginx", "caddy")
"""Servers whose configurations are read."""


def check(definition: StudyDefinition, workload: Workload) -> None:
    """Raise DefinitionError if a study must not name a user's configuration, or lacks one.

    Raises:
        DefinitionError: at the option.
    """
    if definition.in_place:
        _check_in_place(definition, workload)
        return
    if not definition.config:
        if workload.own_site:
            raise DefinitionError(
                f"workload {workload.name!r} asks for files of your own server; name its"
                " configuration: --config /etc/nginx/nginx.conf",
                path="--workload",
            )
        return
    if definition.server not in READ:
        raise DefinitionError(
            f"a configuration of your own is read for {' and '.join(READ)}, not yet for"
            f" {definition.server}; leave out --config to tune from the template",
            path="--config",
        )


def _check_in_place(definition: StudyDefinition, workload: Workload) -> None:
    if not definition.inventory:
        raise DefinitionError(
            "tunes the service of a host of an inventory, and the load comes from another one; name"
            " both: --inventory hosts.yml",
            path="--in-place",
        )
    if definition.server not in READ:
        raise DefinitionError(
            f"knows {' and '.join(READ)}, not yet {definition.server}", path="--in-place"
        )
    if not workload.own_site:
        raise DefinitionError(
            f"workload {workload.name!r} brings what it asks for, and in place the service's own"
            " content is asked; name a workload of your own with `site: own` (docs/workloads.md;"
            " `tuner workload from-log` writes one from an access log)",
            path="--workload",
        )
    if workload.backend is not None:
        raise DefinitionError(
            "in place the service asks the servers behind it that it always asks; leave `backend`"
            " out of the workload",
            path="--workload",
        )


def reader(definition: StudyDefinition, server: ServerFacts) -> ServerFacts:
    """Return the program that reads the user's configuration and tries it out.

    Nginx's language is read by tuner, and what the lab makes of it is tried out where it is served.
    A Caddyfile is what a Caddy makes of it, with the files and the environment that it finds, so
    the Caddy of this machine does.

    Args:
        definition: of the study.
        server: the program that serves.

    Raises:
        HostError: another host's serves, and there is none on this machine.
    """
    here = definition.in_place or not definition.inventory
    if not definition.config or here or server.name != "caddy":
        return server
    return catalog.server(server.name).detect()


def read(
    definition: StudyDefinition,
    workload: Workload,
    server: ServerFacts,
    premises: Premises,
) -> OwnConfiguration | None:
    """Return the configuration that a study names; None if it names none.

    Args:
        definition: of the study.
        workload: what is asked.
        server: the program that reads it.
        premises: where the study takes place.

    Raises:
        DefinitionError: at the user's file and line, or the option.
    """
    if not definition.config:
        return None
    wishes = OwnOptions(
        definition.config,
        server_name=definition.server_name,
        root=definition.root,
        keep_upstreams=definition.keep_upstreams,
    )
    if definition.in_place:
        lent = premises.service()
        if server.name == "caddy":
            return caddy_in_place.read(wishes, workload, lent.home(server.binary))
        return nginx_in_place.read(wishes, workload, lent.files())
    if server.name == "caddy":
        own = caddy.read(wishes, workload, LocalCaddyHome(server.binary))
        return replace(own, target=premises.target)
    return replace(nginx.read(wishes, workload), target=premises.target)


def adapted(
    own: OwnConfiguration | None,
    space: Space,
    server: ServerFacts,
    reads: ServerFacts,
    host: HostFacts,
) -> tuple[OwnServer | None, tuple[str, ...]]:
    """Return the adapter of the user's server, with notes on what differs in the lab.

    Args:
        own: what was read.
        space: of the study.
        server: the program that serves.
        reads: the program that reads it, see ``reader``.
        host: what serves.

    Raises:
        DefinitionError: the server refuses it, or nothing in it can be tuned.
    """
    if own is None:
        return None, ()
    made, notes = own.adapt(space, reads)
    if reads.version != server.version:
        words = f"{server.name} {reads.version} of this machine reads your configuration"
        notes = (*notes, f"{words}, and {server.version} serves it")
    wrong = (
        f"{found.where}: plainly wrong: {found.what}; {found.remedy} ({found.link})"
        for found in _findings(own, lint_facts(host, server))
        if found.severity == "wrong"
    )
    return made, (*notes, *wrong)


def _findings(own: OwnConfiguration, facts: LintFacts) -> Sequence[Finding]:
    match own:
        case nginx.NginxOwnConfiguration():
            return nginx_rules.lint(own.tree, facts)
        case caddy.CaddyOwnConfiguration():
            return caddy_rules.lint(own.origin.config, own.origin.file, facts)
        case _:
            return ()
