"""Template and configuration in, the server's configuration file out.

All output of a template is quoted by the server's own rules
(``tuner/render/syntax.py``), so that no value and no path can end a directive and begin another.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from tuner.errors import DefinitionError
from tuner.render.answering import answering
from tuner.render.confined import own_sources, write_confined
from tuner.render.engine import Job, RenderedText, fill, write
from tuner.render.reach import is_own, refuse_reach, unsearched
from tuner.render.syntax import NGINX, Syntax
from tuner.space.configuration import Configuration
from tuner.space.space import Space
from tuner.workload.wire import Wire, WireProtocol
from tuner.workload.workload import Workload

TEMP_PATHS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
BACKEND_TEMPLATE = "nginx/backend"

# Well below the 4096 bytes that Nginx reads at once (NGX_CONF_BUFFER in ngx_conf_file.c).
_LONGEST_CHUNK = 3000


@dataclass(frozen=True, slots=True)
class Placement:
    """The place of one instance: everything in its file except parameters."""

    listen: str
    """``127.0.0.1:18080``, or a port alone."""
    server_name: str
    root: str
    """Folder of the site."""
    run_dir: str
    """Folder of the process id, and of temporary files."""
    log_dir: str
    digest: str
    """The configuration's digest, the answer at ``live_path``."""
    live_path: str
    """Path at which the instance reports its configuration; empty in an export."""
    upstreams: tuple[str, ...] = ()
    """Addresses behind a proxy."""
    cpu_mask: str = ""
    """CPUs of the instance as Nginx's mask (``10`` is CPU 1); empty: all."""
    user: str = ""
    """User of the workers if the master is root; empty: the compiled-in one."""
    temp_paths: tuple[str, ...] = TEMP_PATHS
    """Temporary folders of the binary, below ``run_dir``."""
    protocol: WireProtocol = "http1"
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
    """Return ``EXPORT`` for a workload: with TLS on port 443 and a certificate if needed."""
    if wire.tls is None:
        return replace(EXPORT, protocol=wire.protocol)
    return replace(EXPORT, listen="443", protocol=wire.protocol, tls_dir="/etc/ssl/site")


def cpu_mask(cpus: Sequence[int]) -> str:
    """Return the CPUs as a mask for Nginx's ``worker_cpu_affinity``: CPU 0 is the last digit."""
    return "".join("1" if cpu in cpus else "0" for cpu in range(max(cpus), -1, -1))


def render(
    template: str,
    configuration: Configuration,
    space: Space,
    placement: Placement,
    syntax: Syntax = NGINX,
) -> str:
    """Render the server's configuration file; equal arguments give equal bytes.

    Args:
        template: name of a built-in one (``nginx/static``), or a file ending with ``.j2``
            next to the space's own file.
        configuration: complete configuration from ``Space.complete``.
        space: its space, bound to the server's version.
        placement: place of the instance.
        syntax: the language of the space's server.

    Raises:
        DefinitionError: the template is wrong or leaves an active parameter out, a value
            cannot be written or reaches what is never searched, or the template needs upstreams
            and there are none.
    """
    if syntax.server != space.server:
        # With another server's quotes, a value could become a directive.
        raise DefinitionError(f"{space.name} is a space of {space.server}, not of {syntax.server}")
    written = _written(template, configuration, space, placement, syntax)
    unused = sorted(configuration.values.keys() - written.used - {*syntax.environment})
    if unused:
        raise DefinitionError(f"does not write {', '.join(unused)}", path=f"template {template}")
    if is_own(template):
        plain = unsearched(space, configuration)
        # With its own digest, because a template may depend on it.
        digest = plain.digest if placement.digest else ""
        place = replace(placement, digest=digest)
        refuse_reach(
            space,
            syntax,
            written.text,
            _written(template, plain, space, place, syntax).text,
            (
                environment_of(configuration, space, syntax),
                environment_of(plain, space, syntax),
            ),
        )
    return written.text


def _written(
    template: str,
    configuration: Configuration,
    space: Space,
    placement: Placement,
    syntax: Syntax,
) -> RenderedText:
    """Render a configuration; a user's template runs in a process with limits."""
    job = Job(
        template,
        own_sources(template, space) if is_own(template) else (),
        syntax,
        configuration.values,
        {name: space.parameter(name) for name in configuration.values},
        {
            "version": space.facts.server_version,
            "space": space.name,
            "digest": configuration.digest,
            "placement": placement,
        },
    )
    return write_confined(job) if is_own(template) else write(job)


def environment_of(configuration: Configuration, space: Space, syntax: Syntax) -> dict[str, str]:
    """Return the environment variables of a configuration, by name.

    A word as a value (``auto``) sets no variable.
    """
    values = configuration.values
    return {
        name.upper(): syntax.write(space.parameter(name), values[name])
        for name in syntax.environment
        if name in values and not isinstance(values[name], str)
    }


def render_backend(workload: Workload, placement: Placement) -> str:
    """Render the configuration of the Nginx behind the proxy.

    It answers every request with one body, with the files of the site, or each with its own answer.

    Raises:
        DefinitionError: the workload has no backend.
    """
    if workload.backend is None:
        raise DefinitionError(f"workload {workload.name!r} has no backend")
    chunks = [Markup(chunk) for chunk in _chunks(workload.backend.body.decode())]  # noqa: S704
    names = [Markup(f"$part{number}") for number in range(len(chunks))]  # noqa: S704 - a constant
    context = {
        "content_type": workload.backend.content_type,
        # Nginx limits parameters to 4096 bytes; it joins the pieces for each answer.
        "parts": list(zip(names, chunks, strict=True)) if len(chunks) > 1 else [],
        "body": chunks[0] if len(chunks) == 1 else Markup("").join(names),
        "dollar": b"$" in workload.backend.body,
        "serves_site": workload.backend.serves_site,
        "placement": placement,
        **answering(workload.requests),
    }
    return fill(BACKEND_TEMPLATE, (), NGINX, context)


def unified_diff(before: str, after: str, names: tuple[str, str]) -> str:
    """Return the difference of two texts in the format of ``diff -u``; empty if equal."""
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), names[0], names[1], lineterm=""
    )
    return "".join(f"{line}\n" for line in lines)


def _chunks(body: str) -> Iterator[str]:
    """Yield quoted pieces of a body, which Nginx joins.

    Line ends and tabs have escapes. A dollar sign has none, so the template defines a variable for
    it.
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
