"""Sandboxed Jinja2 that quotes every value by the server's rules."""

from __future__ import annotations

import functools
import re
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup

from tuner.errors import DefinitionError
from tuner.paths import data_dir
from tuner.reading.located import format_size
from tuner.render.syntax import Syntax
from tuner.space.configuration import Value
from tuner.space.parameter import Parameter

_MASK = re.compile(r"[01]*")
_TEMPLATE_NAME = re.compile(r"[a-z]+/[A-Za-z0-9._-]+")
_FAILURES = (
    *(jinja2.TemplateError, ArithmeticError, AttributeError, LookupError, RecursionError),
    *(TypeError, ValueError),
)
"""Exceptions that a template can raise."""


@dataclass(frozen=True, slots=True)
class Source:
    """A user's template file."""

    name: str
    """Name in the space."""
    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Job:
    """One configuration and one template to render, as plain data."""

    template: str
    sources: tuple[Source, ...]
    """Template files for includes, in addition to the built-in ones."""
    syntax: Syntax
    values: Mapping[str, Value]
    parameters: Mapping[str, Parameter]
    """Parameters of the values."""
    context: Mapping[str, Any]
    """Further names for the template."""


@dataclass(frozen=True, slots=True)
class RenderedText:
    """The output of a template."""

    text: str
    used: frozenset[str]
    """Parameters that the template uses."""


def write(job: Job) -> RenderedText:
    """Render a configuration.

    Raises:
        DefinitionError: the template is wrong, with its file and line.
    """
    values = _Values(job.values)

    def active(*names: str) -> list[str]:
        return [name for name in names if values[name] is not None]

    texts = _Texts(values, job.parameters, job.syntax)
    context = {**job.context, "p": values, "text": texts, "active": active}
    text = fill(job.template, job.sources, job.syntax, context)
    return RenderedText(text, frozenset(values._used))  # noqa: SLF001 - public names would be parameters' names


class _Values:
    """Values by parameter name, None if inactive; it records the used ones.

    Its attributes are private, because ``p.name`` in a template must mean a parameter.
    """

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = values
        self._used: set[str] = set()

    def __getitem__(self, name: str) -> Value | None:
        self._used.add(name)
        return self._values.get(name)


class _Texts:
    """Values in the server's notation with units: ``64k``, ``75s``; None if inactive."""

    def __init__(
        self, values: _Values, parameters: Mapping[str, Parameter], syntax: Syntax
    ) -> None:
        self._values = values
        self._parameters = parameters
        self._syntax = syntax

    def __getitem__(self, name: str) -> str | None:
        value = self._values[name]
        return None if value is None else self._syntax.write(self._parameters[name], value)


def _finalize(syntax: Syntax, value: object) -> Markup:
    """Quote the value of a ``{{ … }}``; Markup is already quoted."""
    if isinstance(value, jinja2.Undefined):
        str(value)  # raises for an undefined name
    if isinstance(value, Markup):
        return value
    if value is None:
        raise ValueError(
            "there is no value to write (inactive here, or no parameter of this space)"
        )
    try:
        return Markup(syntax.quote(value))  # noqa: S704 - quoted
    except DefinitionError as error:
        # The rendering code adds the line of the template.
        raise ValueError(error.message) from None


def _fail(message: str) -> None:
    raise DefinitionError(message)


def fill(
    template: str, sources: tuple[Source, ...], syntax: Syntax, context: Mapping[str, Any]
) -> str:
    """Return the text of a template with these names.

    Raises:
        DefinitionError: the template is wrong, with its file and line.
    """
    if not _MASK.fullmatch(context["placement"].cpu_mask):
        raise DefinitionError(
            f"{context['placement'].cpu_mask!r} is not a mask of CPUs such as 0110"
        )
    environment, name = _environment(template, sources, syntax)
    try:
        text = environment.get_template(name).render(context)
    except jinja2.TemplateNotFound as error:
        raise DefinitionError(
            f"there is no template {error.name!r}", path=f"template {template}"
        ) from None
    except jinja2.TemplateSyntaxError as error:
        raise DefinitionError(str(error.message), path=error.name, line=error.lineno) from None
    except _FAILURES as error:
        raise _at_its_line(error, template) from None
    return text.rstrip("\n") + "\n"


def _at_its_line(error: Exception, template: str) -> DefinitionError:
    """Return the error of a template with the line that Jinja2's traceback names."""
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if frame.filename.endswith(".j2"):
            source = f": {frame.line}" if frame.line else ""
            words = str(error).rstrip(".")
            return DefinitionError(f"{words}{source}", path=frame.filename, line=frame.lineno)
    return DefinitionError(str(error), path=f"template {template}")


@functools.lru_cache(maxsize=8)
def _environment(
    template: str, sources: tuple[Source, ...], syntax: Syntax
) -> tuple[jinja2.Environment, str]:
    own = {source.name: (source.text, source.path, lambda: True) for source in sources}
    loaders = [jinja2.FunctionLoader(own.get), jinja2.FileSystemLoader(data_dir("templates"))]
    name = template if template in own else f"{template}.{syntax.suffix}.j2"
    if template not in own and not _TEMPLATE_NAME.fullmatch(template):
        raise DefinitionError(f"{template!r} is not a name of a template such as nginx/static")
    # Sandboxed: a template from elsewhere writes text and does nothing else. What it writes is
    # quoted by `finalize`; autoescape makes macros and blocks Markup, so nothing is quoted twice.
    environment = ImmutableSandboxedEnvironment(
        loader=jinja2.ChoiceLoader(loaders),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        # The context prevents constant folding, which would bypass quoting.
        finalize=jinja2.pass_context(lambda _, value: _finalize(syntax, value)),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["fail"] = _fail
    environment.filters["size"] = format_size
    return environment, name
