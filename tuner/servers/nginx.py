"""Nginx: found with ``nginx -V``, validated with ``nginx -t``, proved live by its own endpoint.

A rejected reload silently keeps the old configuration, so every instance is started anew and must
answer with its configuration's digest.
https://nginx.org/en/docs/switches.html
"""

from __future__ import annotations

import re
from pathlib import Path

from tuner.hosts.deployer import InstanceSpec
from tuner.machine.facts import ServerFacts
from tuner.render.render import EXPORT, Placement, render
from tuner.render.syntax import NGINX
from tuner.servers.ground import TargetGround
from tuner.servers.program import ask, find, version
from tuner.servers.usual_place import UsualPlace
from tuner.space.configuration import Configuration
from tuner.space.space import Space
from tuner.workload.wire import Wire

name = "nginx"
syntax = NGINX
usual_place = UsualPlace("/etc/nginx/nginx.conf", "nginx -t -c %s", "nginx", "nginx")
file_name = usual_place.file

_PRODUCT = re.compile(r"version: ([^/\s]+)/")
_OLDEST = {"angie": "1.22.0", "freenginx": "1.25.4"}
"""Versions of Nginx up to which products are surely alike, if they print their own only.

https://angie.software/en/oss_changes/, https://freenginx.org/en/CHANGES
"""
_CANDIDATES = ("nginx", "/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/local/nginx/sbin/nginx")


def detect(binary: str | None = None) -> ServerFacts:
    """Find Nginx, and return its version and modules.

    Raises:
        HostError: it is missing or does not answer; the message names the package.
    """
    found = find(
        (binary,) if binary else _CANDIDATES,
        "no Nginx found on this machine; install it (Debian, Ubuntu: apt-get install"
        " nginx-light; Fedora: dnf install nginx)",
    )
    _, said = ask(found, "-V")
    return parse_build(said, found)


def parse_build(text: str, binary: str) -> ServerFacts:
    """Parse the output of ``nginx -V``, also of Nginx's relatives."""
    found = version(r"[a-zA-Z]+ version: [^/\s]+/([0-9.]+)", text, f"{binary} -V")
    # A dynamic module is available only with load_module.
    words = re.findall(r"--with-([a-z0-9_-]+)(?![a-z0-9_-]|=dynamic)", text)
    modules = tuple(sorted({word.removesuffix("_module") for word in words}))
    product, corresponding = _product(text, found)
    return ServerFacts(name, binary, corresponding, modules, text.strip(), product)


def _product(text: str, found: str) -> tuple[str, str]:
    """Return a relative's name and version, and the version of Nginx that it corresponds to.

    OpenResty prints the version of its Nginx with a fourth number of its own. Angie and Tengine
    print the version of their Nginx in a second line; the first versions of Angie did not. What is
    unknown counts as the oldest possible version, which lacks the newest parameters.
    """
    first = _PRODUCT.search(text)
    product = first[1] if first else name
    base = re.search(r"^nginx version: nginx/([0-9.]+)", text, re.MULTILINE)
    if product == "openresty":
        corresponding = ".".join(found.split(".")[:3])
        return f"OpenResty {found} (nginx {corresponding})", corresponding
    if product == name:
        return "", found
    if base:
        return f"{product} {found} (nginx {base[1]})", base[1]
    return f"{product} {found}", _OLDEST.get(product.lower(), found)


def refuses(server: ServerFacts, wire: Wire) -> str:
    """Implement ``Server.refuses``."""
    needs = {"http2": "http_v2", "http3": "http_v3"}.get(wire.protocol)
    for module in (needs, "http_ssl" if wire.tls else None):
        if module and module not in server.modules:
            return (
                f"{server.binary} is built without --with-{module}_module, which {wire.words} needs"
            )
    if wire.protocol == "http2" and wire.tls is None and server.version_tuple < (1, 25, 1):
        return (
            "Nginx before 1.25.1 speaks HTTP/2 in cleartext and nothing else on a port, so an"
            " instance could not be proved live; add to the workload: tls: on"
        )
    return ""


def instance(
    label: str, configuration: Configuration, space: Space, ground: TargetGround, port: int
) -> InstanceSpec:
    """Implement ``Server.instance``."""
    directory = ground.instances_dir / label
    placement = ground.place(directory, port, configuration.digest)
    text = render(space.template, configuration, space, placement)
    return spec(label, text, ground, directory, port=port, live=configuration.digest)


def export_text(configuration: Configuration, space: Space, placement: Placement = EXPORT) -> str:
    """Implement ``Server.export_text``."""
    return render(space.template, configuration, space, placement)


def spec(
    label: str, text: str, ground: TargetGround, directory: Path, *, port: int, live: str
) -> InstanceSpec:
    """Return an Nginx instance with this configuration in its own folder.

    Args:
        label: unique in the block.
        text: text of the configuration.
        ground: layout of the target.
        directory: folder of the instance.
        port: port on the loopback.
        live: expected answer as the proof.
    """
    config = directory / file_name
    error_log = directory / "logs" / "error.log"
    command = (ground.binary, "-p", f"{directory}/", "-c", str(config), "-e", str(error_log))
    return InstanceSpec(
        instance=label,
        directory=str(directory),
        files={file_name: text, **ground.tls_files},
        folders=("run", "logs"),
        validate=(*command, "-t"),
        start=command,
        pid_file=str(directory / "run" / "nginx.pid"),
        live_url=ground.live_url(port),
        live_token=live,
        environment={},
        cpus=ground.cpus,
        error_log=str(error_log),
    )
