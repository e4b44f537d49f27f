"""The user's own server in a study's preflight: read, judged, and put behind the server's port."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.errors import DefinitionError
from tuner.facts import HostFacts, ServerFacts
from tuner.lint import nginx as nginx_rules
from tuner.lint.finding import Finding, LintFacts, lint_facts
from tuner.own import nginx
from tuner.own.port import Own, OwnServer, Wishes
from tuner.space import Space
from tuner.study import StudyDefinition
from tuner.workload import Workload

READ = ("nginx",)
"""Servers whose configurations are read."""


def check(definition: StudyDefinition, workload: Workload) -> None:
    """Whether a study may name a configuration of the user's, or must.

    Raises:
        DefinitionError: at the option.
    """
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
    if definition.inventory:
        raise DefinitionError(
            "a configuration of your own is served on this machine, not yet on another; copy the"
            " folder of the configuration here and leave out --inventory",
            path="--config",
        )


def read(definition: StudyDefinition, workload: Workload) -> Own | None:
    """The configuration that a study names; None if it names none.

    Raises:
        DefinitionError: at the user's file and line, or the option.
    """
    if not definition.config:
        return None
    wishes = Wishes(
        definition.config,
        server_name=definition.server_name,
        root=definition.root,
        keep_upstreams=definition.keep_upstreams,
    )
    return nginx.read(wishes, workload)


def adapted(
    own: Own | None, space: Space, server: ServerFacts, host: HostFacts
) -> tuple[OwnServer | None, tuple[str, ...]]:
    """It behind the port, with what the user should know of it before anything is measured.

    Raises:
        DefinitionError: the server refuses it, or nothing in it can be tuned.
    """
    if own is None:
        return None, ()
    made, notes = own.adapt(space, server)
    wrong = (
        f"{found.where}: plainly wrong: {found.what}; {found.remedy} ({found.link})"
        for found in _findings(own, lint_facts(host, server))
        if found.severity == "wrong"
    )
    return made, (*notes, *wrong)


def _findings(own: Own, facts: LintFacts) -> Sequence[Finding]:
    return nginx_rules.lint(own.tree, facts) if isinstance(own, nginx.Own) else ()
