"""The third step of a preflight: refusing early what would fail later."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tuner.app.bind import StudySpace
from tuner.app.resolve import Resolved
from tuner.errors import DefinitionError
from tuner.generators.generator import LoadGenerator
from tuner.render.reach import edges
from tuner.render.render import EXPORT, export_placement
from tuner.servers import catalog
from tuner.space.kernel import server_part
from tuner.space.space import Space


def check(found: Resolved, bound: StudySpace, generator: LoadGenerator) -> None:
    """Raise DefinitionError if the study cannot be measured as it is defined.

    Raises:
        DefinitionError: a configuration cannot be rendered, or the server or the generator does not
            support the workload.
    """
    adapter = catalog.server(found.server.name)
    if bound.own is None:
        # Rendered only as a check, for a space that does not fit the workload, and for a user's
        # template with values that reach too far.
        upstreams = EXPORT.upstreams if found.workload.backend else ()
        placement = replace(export_placement(found.workload.wire), upstreams=upstreams)
        for configuration in (bound.baseline, *edges(bound.space, bound.baseline)):
            adapter.export_text(server_part(configuration), bound.space, placement)
    refusal = adapter.refuses(found.server, found.workload.wire)
    if refusal:
        raise DefinitionError(refusal, path="--workload")
    for objective in found.definition.goals.objectives:
        refusal = generator.refuses(found.workload, objective.mode)
        if refusal:
            raise DefinitionError(f"{found.definition.load} {refusal}", path="--load")


def check_search(space: Space, allow: Collection[str]) -> None:
    """Raise DefinitionError if a search would have nothing to change."""
    if space.searched(allow):
        return
    trades = [found.name for found in space.parameters if found.searchable and found.trades]
    raise DefinitionError(
        f"nothing is left to search in {space.name}; "
        + (
            f"these have a trade-off, and are searched if you allow them: {', '.join(trades)}"
            if trades
            else "every parameter has one value here, or none"
        ),
        path="--allow",
    )
