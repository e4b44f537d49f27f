"""The request and address of probes to a host, from its first answer."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from tuner.errors import HostError
from tuner.generators.generator import Endpoint
from tuner.hosts.inventory import Host
from tuner.workload.wire import Tls, Wire
from tuner.workload.workload import Request, Workload

CONNECTIONS = 8
PATIENCE_S = 5.0
"""Time limit for an answer."""


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """A host with the address and the request of its probes."""

    host: Host
    workload: Workload
    endpoint: Endpoint


def probe_target(template: str, host: Host) -> ProbeTarget:
    """Send a host one request; return the request for the probes.

    Certificates are checked here, and redirects within the host are followed.

    Raises:
        HostError: the answer is an error.
    """
    url = template.replace("{host}", host.address)
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:  # noqa: S310 - the user's
            answer.read()
            end, status = urlsplit(answer.url), answer.status
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise HostError(f"{host.name}: {url}: {error}") from error
    begin = urlsplit(url)
    if end.hostname != begin.hostname:
        end, status = begin, None
    name = end.netloc.rpartition("@")[2]
    endpoint = Endpoint(host.name, _address(end, host), host=name)
    return ProbeTarget(host, _workload(end, status), endpoint)


def _workload(url: SplitResult, status: int | None) -> Workload:
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    tls = Tls(verify=False) if url.scheme == "https" else None
    return Workload(
        name="probe",
        summary="",
        wire=Wire(tls=tls),
        requests=(Request(1.0, "GET", path, (), b"", status, None, None),),
        connections=CONNECTIONS,
        arrival="constant",
        timeout_s=PATIENCE_S,
        site=(),
        backend=None,
    )


def _address(url: SplitResult, host: Host) -> str:
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        family, *_, where = socket.getaddrinfo(url.hostname, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise HostError(f"{host.name}: {url.hostname}: {error}") from error
    return f"[{where[0]}]:{port}" if family == socket.AF_INET6 else f"{where[0]}:{port}"
