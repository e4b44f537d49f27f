"""Template and configuration in, the server's configuration file out.

Everything that a template writes passes through the server's own rules for quoting
(``tuner/render/syntax.py``), so that no value and no path can end a directive and begin another.
"""

from __future__ import annotations

import difflib
import functools
import re
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup

from tuner.errors import DefinitionError
from tuner.paths import data_dir
from tuner.reading.located import format_size
from tuner.render.reach import is_own, refuse_reach, unsearched
from tuner.render.syntax import NGINX, Syntax
from tuner.space.configuration import Configuration, Value
from tuner.space.space import Space
from tuner.workload.wire import Protocol, Wire
from tuner.workload.workload import Workload

TEMP_PATHS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
BACKEND_TEMPLATE = "nginx/backend"

_MASK = re.compile(r"[01]*")
_TEMPLATE_NAME = re.compile(r"[a-z]+/[A-Za-z0-9._-]+")
_FAILURES = (jinja2.TemplateError, ArithmeticError, LookupError, TypeError, ValueError)
"""What a template's own words can raise."""
# Well below the 4096 bytes that Nginx reads at once (NGX_CONF_BUFFER in ngx_conf_file.c).
_LONGEST_CHUNK = 3000


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one instance lives: everything in its file that is no parameter."""

    listen: str
    """``127.0.0.1:18080``, or a port alone."""
    server_name: str
    root: str
    """Folder of the site."""
    run_dir: str
    """Folder of the process id, and of temporary files."""
    log_dir: str
    digest: str
    """The configuration's digest, which ``live_path`` answers."""
    live_path: str
    """Where the instance tells which configuration it runs; empty in an export."""
    upstreams: tuple[str, ...] = ()
    """Addresses behind a proxy."""
    cpu_mask: str = ""
    """CPUs of the instance as Nginx writes them (``10`` is CPU 1); empty: all."""
    user: str = ""
    """User of the workers when the master is root; empty: as compiled in."""
    temp_paths: tuple[str, ...] = TEMP_PATHS
    """Temporary folders to be placed below ``run_dir``; those that the binary knows."""
    protocol: Protocol = "http1"
    tls_dir: str = ""
    """Folder of ``cert.pem`` and ``key.pem``; empty: cleartext."""
    workers: int = 1
    """Worker processes of a backend, which has no parameters."""


EXPORT = Placement(
    listen="80",
    server_name="_",
    root="/var/www/html",
    run_dir="/run",
    log_dir="/var/log/nginx",
    digest="",
    live_path="",
    upstreams=("127.0.0.1:8080",),
    temp_paths=(),
)
"""A production server: the usual paths, port 80, and the application on port 8080."""


def export_placement(wire: Wire) -> Placement:
    """``EXPORT`` as a workload speaks to it: over TLS on port 443, with a certificate there."""
    if wire.tls is None:
        return replace(EXPORT, protocol=wire.protocol)
    return replace(EXPORT, listen="443", protocol=wire.protocol, tls_dir="/etc/ssl/site")


def cpu_mask(cpus: Sequence[int]) -> str:
    """The CPUs as Nginx's ``worker_cpu_affinity`` writes them: CPU 0 is the last digit."""
    return "".join("1" if cpu in cpus else "0" for cpu in range(max(cpus), -1, -1))


def render(
    template: str,
    configuration: Configuration,
    space: Space,
    placement: Placement,
    syntax: Syntax = NGINX,
) -> str:
    """Write the server's configuration file; the same arguments give the same bytes.

    Args:
        template: name of a built-in one (``nginx/static``), or a file ending with ``.j2``
            beside the space's own file.
        configuration: complete, as ``Space.complete`` makes it.
        space: the space it belongs to, bound to the server's version.
        placement: where the instance lives.
        syntax: the language of the space's server.

    Raises:
        DefinitionError: the template is wrong or leaves an active parameter out, a value
            cannot be written or reaches what is never searched, or the template needs upstreams
            and there are none.
    """
    if syntax.server != space.server:
        # Quoted by another server's rules, a value might become a directive of this one.
        raise DefinitionError(f"{space.name} is a space of {space.server}, not of {syntax.server}")
    text, used = _written(template, configuration, space, placement, syntax)
    unused = sorted(configuration.values.keys() - used - {*syntax.environment})
    if unused:
        raise DefinitionError(f"does not write {', '.join(unused)}", path=f"template {template}")
    if is_own(template):
        plain = unsearched(space, configuration)
        # With a digest of its own, since a template may write by it what it likes.
        digest = plain.digest if placement.digest else ""
        place = replace(placement, digest=digest)
        refuse_reach(
            space,
            syntax,
            text,
            _written(template, plain, space, place, syntax)[0],
            (
                environment_of(configuration, space, syntax),
                environment_of(plain, space, syntax),
            ),
        )
    return text


def _written(
    template: str,
    configuration: Configuration,
    space: Space,
    placement: Placement,
    syntax: Syntax,
) -> tuple[str, frozenset[str]]:
    """The text of a configuration, and the names that the template asked for."""
    values = _Values(configuration)

    def active(*names: str) -> list[str]:
        return [name for name in names if values[name] is not None]

    text = _render(
        template,
        space.path.parent,
        syntax,
        p=values,
        text=_Texts(values, space, syntax),
        active=active,
        version=space.facts.server_version,
        space=space.name,
        digest=configuration.digest,
        placement=placement,
    )
    return text, frozenset(values._used)  # noqa: SLF001 - public names would be parameters' names


def environment_of(configuration: Configuration, space: Space, syntax: Syntax) -> dict[str, str]:
    """The variables of the process that a configuration asks for, by their names.

    A value that is a word (``auto``) asks for nothing: the variable is left to the server.
    """
    values = configuration.values
    return {
        name.upper(): syntax.write(space.parameter(name), values[name])
        for name in syntax.environment
        if name in values and not isinstance(values[name], str)
    }


def render_backend(workload: Workload, placement: Placement) -> str:
    """Write the configuration of the Nginx behind the proxy.

    It answers one body whatever it is asked, or the files of the site.

    Raises:
        DefinitionError: the workload has no backend.
    """
    if workload.backend is None:
        raise DefinitionError(f"workload {workload.name!r} has no backend")
    chunks = [Markup(chunk) for chunk in _chunks(workload.backend.body.decode())]  # noqa: S704
    names = [Markup(f"$part{number}") for number in range(len(chunks))]  # noqa: S704 - a constant
    return _render(
        BACKEND_TEMPLATE,
        None,
        NGINX,
        content_type=workload.backend.content_type,
        # Nginx reads no parameter beyond 4096 bytes; it puts the pieces together for each answer.
        parts=list(zip(names, chunks, strict=True)) if len(chunks) > 1 else [],
        body=chunks[0] if len(chunks) == 1 else Markup("").join(names),
        dollar=b"$" in workload.backend.body,
        serves_site=workload.backend.serves_site,
        placement=placement,
    )


def unified_diff(before: str, after: str, names: tuple[str, str]) -> str:
    """The difference of two texts as ``diff -u`` writes it; empty if there is none."""
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), names[0], names[1], lineterm=""
    )
    return "".join(f"{line}\n" for line in lines)


class _Values:
    """Values by parameter name, None where inactive; remembers what a template asked for.

    Its own names are private, since a template's ``p.name`` must always mean a parameter.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._values = configuration.values
        self._used: set[str] = set()

    def __getitem__(self, name: str) -> Value | None:
        self._used.add(name)
        return self._values.get(name)


class _Texts:
    """Values as the server writes them, with their unit: ``64k``, ``75s``; None where inactive."""

    def __init__(self, values: _Values, space: Space, syntax: Syntax) -> None:
        self._values = values
        self._space = space
        self._syntax = syntax

    def __getitem__(self, name: str) -> str | None:
        value = self._values[name]
        return None if value is None else self._syntax.write(self._space.parameter(name), value)


def _finalize(syntax: Syntax, value: object) -> Markup:
    """Jinja2 passes every ``{{ … }}`` through this; Markup is what already is quoted."""
    if isinstance(value, jinja2.Undefined):
        str(value)  # raises, and names what is undefined
    if isinstance(value, Markup):
        return value
    if value is None:
        raise ValueError(
            "there is no value to write (inactive here, or no parameter of this space)"
        )
    try:
        return Markup(syntax.quote(value))  # noqa: S704 - quoted
    except DefinitionError as error:
        # Where it stands in the template is told by whoever renders it.
        raise ValueError(error.message) from None


def _fail(message: str) -> None:
    raise DefinitionError(message)


def _render(template: str, beside: Path | None, syntax: Syntax, **context: Any) -> str:
    if not _MASK.fullmatch(context["placement"].cpu_mask):
        raise DefinitionError(f"{context['placement'].cpu_mask!r} is no mask of CPUs such as 0110")
    environment, name = _environment(template, beside, syntax)
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
    """What went wrong while a template was rendered, where Jinja2's traceback says."""
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if frame.filename.endswith(".j2"):
            source = f": {frame.line}" if frame.line else ""
            words = str(error).rstrip(".")
            return DefinitionError(f"{words}{source}", path=frame.filename, line=frame.lineno)
    return DefinitionError(str(error), path=f"template {template}")


@functools.lru_cache(maxsize=8)
def _environment(
    template: str, beside: Path | None, syntax: Syntax
) -> tuple[jinja2.Environment, str]:
    loaders: list[jinja2.BaseLoader] = [jinja2.FileSystemLoader(data_dir("templates"))]
    name = f"{template}.{syntax.suffix}.j2"
    if template.endswith(".j2") and beside is not None:
        loaders.insert(0, jinja2.FileSystemLoader(beside))
        name = template
    elif not _TEMPLATE_NAME.fullmatch(template):
        raise DefinitionError(f"{template!r} is no name of a template such as nginx/static")
    # Sandboxed: a template from elsewhere writes text and does nothing else. What it writes is
    # quoted by `finalize`; autoescape makes macros and blocks Markup, so nothing is quoted twice.
    environment = ImmutableSandboxedEnvironment(
        loader=jinja2.ChoiceLoader(loaders),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        # With the context, constants are not folded beforehand, past the quotes.
        finalize=jinja2.pass_context(lambda _, value: _finalize(syntax, value)),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["fail"] = _fail
    environment.filters["size"] = format_size
    return environment, name


def _chunks(body: str) -> Iterator[str]:
    """Quoted pieces of a body; Nginx puts them together again.

    Line ends and tabs have escapes here. A dollar sign has none: the template defines a
    variable that holds one.
    """
    escapes = {
        "\\": "\\\\",
        '"': '\\"',
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "$": "${dollar}",
    }
    chunk = ""
    size = 0
    for char in body:
        written = escapes.get(char, char)
        length = len(written.encode())
        if size + length > _LONGEST_CHUNK:
            yield f'"{chunk}"'
            chunk, size = "", 0
        chunk += written
        size += length
    yield f'"{chunk}"'
