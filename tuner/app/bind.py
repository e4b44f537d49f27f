"""The second step of a preflight: binding the space to host and server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tuner.app import own_server
from tuner.app.resolve import Resolved
from tuner.definition.published import carried_over
from tuner.definition.study import StudyDefinition
from tuner.definition.study_keys import PUBLISHED
from tuner.errors import DefinitionError, quoted
from tuner.own.server import OwnServer
from tuner.space.configuration import Configuration
from tuner.space.facts import SpaceFacts, space_facts
from tuner.space.kernel import BUILT_IN, LAYER, KernelState, checked, joined, setting_of
from tuner.space.only import only
from tuner.space.parameter import OWN
from tuner.space.space import BASELINES, Space, bind_space


@dataclass(frozen=True, slots=True)
class StudySpace:
    """The space of a study on its host, and the baselines in it."""

    space: Space
    baseline: Configuration
    others: tuple[Configuration, ...]
    """Further baselines."""
    own: OwnServer | None = None
    """The user's own server, if its configuration is given."""
    kernel: KernelState | None = None
    """Original kernel settings, if they are part of the configuration."""
    notes: tuple[str, ...] = ()
    """Differences between the user's own configuration and its form in the lab."""


def bind(found: Resolved) -> StudySpace:
    """Bind the study's space to its host and server, and read its baselines.

    Raises:
        DefinitionError: the space is for another server, or does not fit the host.
        HostError: the kernel's settings cannot be read.
    """
    definition = found.definition
    facts = space_facts(found.host, found.server, found.workload, len(found.cores.server))
    space = bind_space(definition.space, facts, definition.force)
    if space.server != definition.server:
        raise DefinitionError(
            f"{definition.space!r} is a space of {space.server}, the study's server is"
            f" {definition.server}",
            path="--space",
        )
    own, notes = own_server.adapted(found.own, space, found.server, found.reads, found.host)
    space = own.bound.space if own else space
    kernel = None
    if definition.layer:
        space, kernel = _with_kernel(found, space, facts)
    space.searched(definition.allow)
    space = only(space, definition.only, definition.allow)
    baseline, *others = read_baselines(definition, space)
    return StudySpace(space, baseline, tuple(others), own, kernel, notes)


def _with_kernel(found: Resolved, space: Space, facts: SpaceFacts) -> tuple[Space, KernelState]:
    """Return the space with the kernel's parameters, and their current settings."""
    layer = found.definition.layer
    kernel_space = checked(bind_space(BUILT_IN if layer == LAYER else layer, facts))
    kernel = found.premises.kernel([setting_of(p.name) for p in kernel_space.parameters])
    return joined(space, kernel_space, kernel), kernel


def read_baselines(definition: StudyDefinition, space: Space) -> list[Configuration]:
    """Return the study's baseline, then the further ones.

    Raises:
        DefinitionError: two of them are the same configuration on this server.
    """
    names = [definition.baseline, *definition.others]
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
        space: space bound to this host and server.
        published: the file that the study publishes.
    """
    if name_or_path in (*BASELINES, OWN):
        return space.baseline(name_or_path)
    if name_or_path == PUBLISHED:
        if not published:
            raise DefinitionError(
                "the study names no published configuration; add its file as 'published'"
            )
        return carried_over(Path(published), space)[0]
    if not (name_or_path.endswith((".yaml", ".yml")) or Path(name_or_path).exists()):
        raise DefinitionError(
            f"{quoted(name_or_path)} is not allowed; allowed: {', '.join(BASELINES)}, FILE.yaml",
            path="--baseline",
        )
    return space.read_configuration(name_or_path)


def published_notes(definition: StudyDefinition, space: Space) -> tuple[str, ...]:
    """Return notes on published settings that the baseline ``published`` lacks."""
    if PUBLISHED not in (definition.baseline, *definition.others):
        return ()
    _, lost = carried_over(Path(definition.published), space)
    return tuple(f"not carried over from the published configuration: {text}" for text in lost)
