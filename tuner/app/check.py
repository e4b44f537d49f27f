"""The third step of a preflight: what would fail later is refused before anything starts."""

from __future__ import annotations

from dataclasses import replace

from tuner.app.bind import StudySpace
from tuner.app.resolve import Resolved
from tuner.errors import DefinitionError
from tuner.load.generator import LoadGenerator
from tuner.render.reach import edges
from tuner.render.render import EXPORT
from tuner.servers import catalog
from tuner.space.kernel import server_part


def check(found: Resolved, bound: StudySpace, generator: LoadGenerator) -> None:
    """Raise DefinitionError if the study cannot be measured as it is defined.

    Raises:
        DefinitionError: a configuration cannot be written, or the server or the generator cannot
            do what the workload asks.
    """
    adapter = catalog.server(found.server.name)
    if bound.own is None:
        # Rendered for nothing, so that a space that does not fit the workload is found out, and
        # a template of the user's own by which values reach too far.
        upstreams = EXPORT.upstreams if found.workload.backend else ()
        placement = replace(EXPORT, upstreams=upstreams)
        for configuration in (bound.baseline, *edges(bound.space, bound.baseline)):
            adapter.export_text(server_part(configuration), bound.space, placement)
    refusal = adapter.refuses(found.server, found.workload.wire)
    if refusal:
        raise DefinitionError(refusal, path="--workload")
    for objective in found.definition.goals.objectives:
        refusal = generator.refuses(found.workload, objective.mode)
        if refusal:
            raise DefinitionError(f"{found.definition.load} {refusal}", path="--load")
