"""Nginx: found with ``nginx -V``, validated with ``nginx -t``, proved live by its own endpoint.

A rejected reload silently keeps the old configuration, so a window is never measured on a
promise: every instance is started afresh and must answer with its configuration's digest.
https://nginx.org/en/docs/switches.html
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from tuner.configuration import Configuration
from tuner.errors import HostError
from tuner.facts import ServerFacts
from tuner.hosts.port import InstanceSpec
from tuner.render import Placement, cpu_mask, render, render_backend
from tuner.servers.ground import Ground
from tuner.space import Space
from tuner.wire import Wire
from tuner.workload import Workload

_CANDIDATES = ("nginx", "/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/local/nginx/sbin/nginx")
_LIVE_PATH = "/.tuner/live"
_BACKEND = "backend"
_TLS = "tls"


def detect(binary: str | None = None) -> ServerFacts:
    """Find Nginx and ask what it is.

    Raises:
        HostError: there is none, or it does not answer; the message says what to install.
    """
    for candidate in (binary,) if binary else _CANDIDATES:
        found = shutil.which(candidate)
        if found is not None:
            break
    else:
        raise HostError(
            "no Nginx found on this machine; install it (Debian, Ubuntu: apt-get install"
            " nginx-light; Fedora: dnf install nginx) or name it with --binary"
        )
    done = subprocess.run([found, "-V"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HostError(f"{found} -V failed: {done.stderr.strip()}")
    return parse_build(done.stderr, found)


def parse_build(text: str, binary: str) -> ServerFacts:
    """Read the text of ``nginx -V``."""
    version = re.search(r"nginx version: [^/]+/([0-9.]+)", text)
    if version is None:
        raise HostError(f"{binary} -V does not tell a version: {text[:200]!r}")
    words = re.findall(r"--with-([a-z0-9_-]+)", text)
    modules = tuple(sorted({word.removesuffix("_module") for word in words}))
    return ServerFacts("nginx", binary, version.group(1), modules, text.strip())


def instance(
    label: str, configuration: Configuration, space: Space, ground: Ground, port: int
) -> InstanceSpec:
    """A configuration as an isolated instance on a port of its own."""
    directory = ground.instances_dir / label
    placement = Placement(
        listen=f"127.0.0.1:{port}",
        server_name="localhost",
        root=str(ground.site_dir),
        run_dir=str(directory / "run"),
        log_dir=str(directory / "logs"),
        digest=configuration.digest,
        live_path=_LIVE_PATH,
        upstreams=ground.upstreams,
        cpu_mask=cpu_mask(ground.cpus),
        protocol=ground.protocol,
        tls_dir=str(directory / _TLS) if ground.certificate else "",
    )
    text = render(space.template, configuration, space, placement)
    spec = _spec(label, text, ground, port=port, directory=directory, live=configuration.digest)
    if ground.certificate is None:
        return spec
    shown = {
        f"{_TLS}/cert.pem": ground.certificate.chain,
        f"{_TLS}/key.pem": ground.certificate.key,
    }
    return replace(
        spec,
        files={**spec.files, **shown},
        live_url=f"https://127.0.0.1:{port}{_LIVE_PATH}",
    )


def refuses(server: ServerFacts, wire: Wire) -> str:
    """Why this build cannot speak what a workload asks, in words; empty if it can."""
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


def backend(workload: Workload, ground: Ground, port: int) -> InstanceSpec:
    """The workload's backend as an Nginx of its own."""
    directory = ground.backends_dir / _BACKEND
    placement = Placement(
        listen=f"127.0.0.1:{port}",
        server_name="localhost",
        root=str(ground.site_dir),
        run_dir=str(directory / "run"),
        log_dir=str(directory / "logs"),
        digest=_BACKEND,
        live_path=_LIVE_PATH,
        upstreams=(),
        cpu_mask=cpu_mask(ground.backend_cpus),
        workers=len(ground.backend_cpus),
    )
    text = render_backend(workload, placement)
    return _spec(_BACKEND, text, ground, port=port, directory=directory, live=_BACKEND)


def _spec(
    label: str, text: str, ground: Ground, *, port: int, directory: Path, live: str
) -> InstanceSpec:
    config = directory / "nginx.conf"
    command = (
        ground.binary,
        "-p",
        f"{directory}/",
        "-c",
        str(config),
        "-e",
        str(directory / "logs" / "error.log"),
    )
    return InstanceSpec(
        instance=label,
        directory=str(directory),
        files={"nginx.conf": text},
        folders=("run", "logs"),
        validate=(*command, "-t"),
        start=command,
        pid_file=str(directory / "run" / "nginx.pid"),
        live_url=f"http://127.0.0.1:{port}{_LIVE_PATH}",
        live_token=live,
        environment={},
        cpus=ground.backend_cpus if live == _BACKEND else ground.cpus,
    )
