"""Facts of a host and its server, known before the first measurement."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass

from tuner.errors import DefinitionError
from tuner.machine.topology import Topology, cpu_ranges, flat
from tuner.paths import data_dir


def _server_names() -> tuple[str, ...]:
    # Code that needs the missing part of an installation reports it.
    with contextlib.suppress(DefinitionError):
        names = (each.name for each in data_dir("templates").iterdir() if each.is_dir())
        return tuple(sorted(names, key=lambda name: (name != DEFAULT_SERVER, name)))
    return (DEFAULT_SERVER,)


DEFAULT_SERVER = "nginx"
"""Server of a study that names none."""
SERVER_NAMES = _server_names()
"""Servers that definitions may name: each has a folder of templates, and an adapter of its name
in ``tuner.servers``."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Facts of one host, from preflight."""

    hostname: str
    cpus: tuple[int, ...]
    """Ids of the CPUs that this process may use."""
    cpu_model: str
    memory_bytes: int
    kernel: str
    distribution: str
    virtualisation: str
    """``none``, the hypervisor's name, or ``unknown``."""
    file_limit: int
    """Hard limit of open files (RLIMIT_NOFILE)."""
    somaxconn: int
    realtime: bool
    """True if real-time priority is allowed, which the stall ticker needs."""
    user: str
    kernel_tls: bool = False
    """True if the kernel's TLS is loaded (``modprobe tls``)."""
    topology: Topology | None = None
    """Topology of its processors; None in older records."""

    @property
    def layout(self) -> Topology:
        """The topology; if it is unknown, every CPU is a core of its own."""
        return self.topology or flat(self.cpus)

    @property
    def kernel_tuple(self) -> tuple[int, ...]:
        """``6.1.0-18-amd64`` as ``(6, 1, 0)``; empty if it does not begin with numbers."""
        return _numbers(self.kernel)


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The server's binary and its features."""

    name: str
    binary: str
    version: str
    """Version of the server; of a product made of it, the version that it corresponds to."""
    modules: tuple[str, ...]
    """Names of compiled-in modules and features, without ``--with-`` and ``_module``."""
    build: str
    """Complete output of ``nginx -V`` or its equivalent."""
    product: str = ""
    """``OpenResty 1.25.3.1 (nginx 1.25.3)``; empty for the server itself."""

    @property
    def words(self) -> str:
        """Name and version for reports."""
        return self.product or f"{self.name} {self.version}"

    @property
    def version_tuple(self) -> tuple[int, ...]:
        """``1.22.1`` as ``(1, 22, 1)``, for comparisons."""
        return tuple(int(part) for part in self.version.split(".") if part.isdigit())

    @property
    def openssl_tuple(self) -> tuple[int, ...]:
        """Version of OpenSSL at run time, ``(3, 0, 15)``; empty without OpenSSL.

        ``nginx -V`` names the version at build time, and the one at run time if it differs.
        """
        versions = re.findall(r"(?:built|running) with OpenSSL ([0-9.]+)", self.build)
        return _numbers(versions[-1]) if versions else ()


def _numbers(text: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with."""
    begins = re.match(r"[0-9]+(?:\.[0-9]+)*", text)
    return tuple(int(part) for part in begins[0].split(".")) if begins else ()


@dataclass(frozen=True, slots=True)
class CoreSplit:
    """The split of CPUs between server, generator and backend.

    Server and generator never share a core when there are two: each would measure the other.
    ``shared`` is True on a single core; the stall rule is then off, because the server's own
    work would look like a stall to the generator.
    """

    generator: tuple[int, ...]
    server: tuple[int, ...]
    backend: tuple[int, ...]
    shared: bool
    backend_apart: bool = False
    """True if the backend runs on another host: equal ids are then different cores."""

    @property
    def serving(self) -> frozenset[int]:
        """The CPUs of the server's host that run server or backend."""
        return frozenset({*self.server, *(() if self.backend_apart else self.backend)})

    @property
    def backend_shares(self) -> bool:
        """True if the backend runs on the server's cores."""
        return not self.backend_apart and not set(self.backend).isdisjoint(self.server)

    @property
    def words(self) -> str:
        """The split in words: ``generator 0, server 2-5, backend 6-7``."""
        if self.shared:
            return f"{cpu_ranges(self.server)}, shared by server and generator"
        parts = (("generator", self.generator), ("server", self.server), ("backend", self.backend))
        return ", ".join(f"{name} {cpu_ranges(cpus)}" for name, cpus in parts if cpus)
