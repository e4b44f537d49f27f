"""The user's own server in a study's preflight: read, judged, and put behind the server's port."""

from __future__ import annotations

from tuner.errors import DefinitionError
from tuner.facts import HostFacts, ServerFacts
from tuner.lint import nginx as rules
from tuner.lint.finding import lint_facts
from tuner.own.nginx import Own, OwnNginx, Wishes, adapt
from tuner.own.nginx import read as read_nginx
from tuner.space import Space
from tuner.study import StudyDefinition
from tuner.workload import Workload


def read(definition: StudyDefinition, workload: Workload) -> Own | None:
    """The configuration that a study names; None if it names none.

    Raises:
        DefinitionError: at the user's file and line, or the option.
    """
    if not definition.config:
        if workload.own_site:
            raise DefinitionError(
                f"workload {workload.name!r} asks for files of your own server; name its"
                " configuration: --config /etc/nginx/nginx.conf",
                path="--workload",
            )
        return None
    if definition.server != "nginx":
        raise DefinitionError(
            f"a configuration of your own is read for nginx, not yet for {definition.server};"
            " leave out --config to tune from the template",
            path="--config",
        )
    if definition.inventory:
        raise DefinitionError(
            "a configuration of your own is served on this machine, not yet on another; copy the"
            " folder of the configuration here and leave out --inventory",
            path="--config",
        )
    wishes = Wishes(
        definition.config,
        server_name=definition.server_name,
        root=definition.root,
        keep_upstreams=definition.keep_upstreams,
    )
    return read_nginx(wishes, workload)


def adapted(
    own: Own | None, space: Space, server: ServerFacts, host: HostFacts
) -> tuple[OwnNginx | None, tuple[str, ...]]:
    """It behind the port, with what the user should know of it before anything is measured.

    Raises:
        DefinitionError: the server refuses it, or nothing in it can be tuned.
    """
    if own is None:
        return None, ()
    made, notes = adapt(own, space, server)
    wrong = (
        f"{found.where}: plainly wrong: {found.what}; {found.remedy} ({found.link})"
        for found in rules.lint(own.tree, lint_facts(host, server))
        if found.severity == "wrong"
    )
    return made, (*notes, *wrong)
