"""Facts of host, server and workload for bounds and requirements of a space."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.machine.facts import HostFacts, ServerFacts
from tuner.workload.wire import WireProtocol
from tuner.workload.workload import BackendProtocol, Workload


@dataclass(frozen=True, slots=True)
class SpaceFacts:
    """Facts of one host, one server and one workload. The defaults are cleartext HTTP/1.1."""

    server_cores: int
    """CPUs that the server may use."""
    connections: int
    """Connections that the workload keeps open."""
    memory_bytes: int
    """The target's memory."""
    server_version: tuple[int, ...]
    modules: tuple[str, ...]
    """Names of compiled-in modules, without ``--with-`` and ``_module``."""
    tls: bool = False
    protocol: WireProtocol = "http1"
    streams: int = 1
    """Most concurrent requests on a connection."""
    response_bytes: int = 0
    """Body of the largest answer, bytes; 0 if unknown."""
    request_bytes: int = 0
    """Body of the largest request, bytes."""
    proxied: bool = False
    """True if the server is a proxy."""
    upstream: tuple[BackendProtocol, ...] = ("http",)
    """Protocols in which a proxy asks the servers behind it."""
    kernel: tuple[int, ...] = ()
    """Version of the target's Linux, ``(6, 1, 0)``; empty if unknown."""
    kernel_tls: bool = False
    """True if the kernel's TLS is loaded; only root can load it."""
    openssl: tuple[int, ...] = ()
    """OpenSSL version of the server; empty if it uses another library, or is unknown."""
    somaxconn: int = 65_535
    """The kernel's cap of a listening socket's backlog."""
    file_limit: int = 65_536
    """Hard limit of open files."""

    @property
    def requests_in_flight(self) -> int:
        """Most requests that the workload can have open at a time."""
        return self.connections * self.streams

    @property
    def quic_streams(self) -> int:
        """Most concurrent streams of all QUIC connections; 0 for other transports.

        Each connection has its requests, and three streams of each side for control and QPACK (RFC
        9114, section 6.2).
        """
        return self.connections * (self.streams + 6) if self.protocol == "http3" else 0

    @property
    def names(self) -> dict[str, int | float]:
        """Names that an expression may use."""
        return {
            "server_cores": self.server_cores,
            "connections": self.connections,
            "requests_in_flight": self.requests_in_flight,
            "quic_streams": self.quic_streams,
            "memory_bytes": self.memory_bytes,
            "response_bytes": self.response_bytes,
            "somaxconn": self.somaxconn,
            "file_limit": self.file_limit,
        }

    @property
    def version(self) -> str:
        """``1.22.1``."""
        return ".".join(map(str, self.server_version))

    @property
    def wire(self) -> str:
        """``http2 over TLS``."""
        return f"{self.protocol}{' over TLS' if self.tls else ', cleartext'}"


def space_facts(
    host: HostFacts, server: ServerFacts, workload: Workload, server_cores: int
) -> SpaceFacts:
    """Return the facts that a space is bound to.

    Args:
        host: the target.
        server: the server under test.
        workload: the workload of the study.
        server_cores: CPUs that the server may use.
    """
    return SpaceFacts(
        server_cores=server_cores,
        connections=workload.connections,
        memory_bytes=host.memory_bytes,
        server_version=server.version_tuple,
        modules=server.modules,
        tls=workload.wire.tls is not None,
        protocol=workload.wire.protocol,
        streams=workload.wire.streams,
        response_bytes=_largest_answer(workload),
        request_bytes=max(len(request.body) for request in workload.requests),
        proxied=workload.backend is not None,
        upstream=workload.backend.protocols if workload.backend else ("http",),
        kernel=host.kernel_tuple,
        kernel_tls=host.kernel_tls,
        openssl=server.openssl_tuple,
        somaxconn=host.somaxconn,
        file_limit=host.file_limit,
    )


def _largest_answer(workload: Workload) -> int:
    """Return the largest expected answer; without an expectation any file of the site counts."""
    expected = [request.expect_length for request in workload.requests]
    known = [length for length in expected if length is not None]
    if None in expected:
        known += [file.size_bytes for file in workload.site]
        known += [len(workload.backend.body)] if workload.backend else []
    return max(known, default=0)
