"""Check of user templates: searched values must not change directives of the never-list.

The constants of a template are the user's choice, and equal in both arms of a comparison. A
searched value could change a directive of the never-list (``tuner.space.never``) in any way that a
template allows. So every configuration's text is compared with its text without searched values.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping

from tuner.errors import DefinitionError
from tuner.render.syntax import Syntax
from tuner.space.configuration import Configuration, Value
from tuner.space.never import reached, text_refusal
from tuner.space.parameter import Parameter
from tuner.space.space import Space


def is_own(template: str) -> bool:
    """Return whether a template is the user's file, and not built-in."""
    return template.endswith(".j2")


def unsearched(space: Space, configuration: Configuration) -> Configuration:
    """Return the configuration with compiled-in values for all searched parameters."""
    given = configuration.values
    final: dict[str, Value] = {}
    for parameter in space.parameters:
        if parameter.is_active(final):
            stock = parameter.defaults["stock"]
            searched = parameter.searchable or parameter.name not in given
            final[parameter.name] = stock if searched else given[parameter.name]
    return Configuration.of(space.name, final)


def edges(space: Space, base: Configuration) -> Iterator[Configuration]:
    """Yield the configurations at the edges of a space, for the check of its template.

    Args:
        space: the space.
        base: the configuration to vary.

    Yields:
        Configurations with all parameters at one end of their ranges, and with each at its ends;
        none for a built-in template.
    """
    if not is_own(space.template):
        return
    searched = [parameter for parameter in space.parameters if parameter.searchable]
    # Such a configuration may violate a relation between parameters; then it never occurs.
    for suggest in (lambda p: _ends(p)[0], lambda p: _ends(p)[-1]):
        with contextlib.suppress(DefinitionError):
            yield space.propose(searched, base, suggest)
    for parameter in searched:
        for value in _ends(parameter):
            with contextlib.suppress(DefinitionError):
                yield space.complete({parameter.name: value}, base)


def refuse_reach(
    space: Space,
    syntax: Syntax,
    text: str,
    plain: str,
    environments: tuple[Mapping[str, str], Mapping[str, str]],
) -> None:
    """Raise DefinitionError if searched values change a directive of the never-list.

    Args:
        space: the space, with forced parameters.
        syntax: the language of both texts.
        text: text of a configuration.
        plain: text of the same without its searched values.
        environments: environment variables of the process with each text.

    Raises:
        DefinitionError: they do, or one of the texts cannot be parsed.
    """
    try:
        here, there = (
            tuple(syntax.read(_filled(each, variables)))
            for each, variables in zip((text, plain), environments, strict=True)
        )
    except DefinitionError as error:
        raise DefinitionError(str(error), path=f"template {space.template}") from None
    forced = {name for name, _ in space.forced}
    forced |= {p.directive for p in space.parameters if p.name in forced}
    for name in reached(space.server, here, there):
        if name in forced:
            continue
        raise DefinitionError(
            f"{name} is never searched, and a searched value changes it:"
            f" {text_refusal(space.server, name)}; write it without a parameter, or force it by"
            f" name: --force {name}",
            path=f"template {space.template}",
        )


def _filled(text: str, variables: Mapping[str, str]) -> str:
    """Return the text with environment variables replaced, as in Caddy."""
    for name, value in variables.items():
        text = re.sub(rf"\{{\${name}(:[^}}]*)?\}}|\{{env\.{name}\}}", value, text)
    return text


def _ends(parameter: Parameter) -> tuple[Value, ...]:
    if parameter.kind == "boolean":
        return (False, True)
    if parameter.kind == "choice":
        return parameter.choices
    return (parameter.low, *parameter.special, parameter.high)
