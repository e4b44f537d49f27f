"""The layout of a target: everything about instances that the configuration does not decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tuner.render.render import Placement, cpu_mask
from tuner.servers.certificate import Certificate
from tuner.workload.wire import WireProtocol

LIVE_PATH = "/.tuner/live"
"""Path at which an instance answers with its configuration's digest."""
TLS_FOLDER = "tls"
"""Folder of the certificate in an instance's folder."""


@dataclass(frozen=True, slots=True)
class TargetGround:
    """The folders, CPUs and backends of the instances on one target."""

    binary: str
    instances_dir: Path
    backends_dir: Path
    site_dir: Path
    cpus: tuple[int, ...]
    """CPUs of the server."""
    backend_cpus: tuple[int, ...]
    upstreams: tuple[str, ...]
    """``host:port`` of the backends; empty without any."""
    protocol: WireProtocol = "http1"
    certificate: Certificate | None = None
    """Certificate of the instances; None: cleartext."""
    native_backend: str = ""
    """``host:port`` of the backend for FastCGI, uwsgi, SCGI and gRPC; empty without."""
    address: str = "127.0.0.1"
    """Address on which instances listen."""
    backend_address: str = "127.0.0.1"

    @property
    def tls_files(self) -> Mapping[str, str]:
        """Return the certificate's files by path in an instance's folder; none in cleartext."""
        if self.certificate is None:
            return {}
        return {
            f"{TLS_FOLDER}/cert.pem": self.certificate.chain,
            f"{TLS_FOLDER}/key.pem": self.certificate.key,
        }

    def place(self, directory: Path, port: int, digest: str) -> Placement:
        """Return the placement of an instance, for any server.

        Args:
            directory: folder of the instance.
            port: port at ``address``.
            digest: expected answer as the proof.
        """
        return Placement(
            listen=f"{self.address}:{port}",
            server_name="localhost",
            root=str(self.site_dir),
            run_dir=str(directory / "run"),
            log_dir=str(directory / "logs"),
            digest=digest,
            live_path=LIVE_PATH,
            upstreams=self.upstreams,
            cpu_mask=cpu_mask(self.cpus),
            protocol=self.protocol,
            tls_dir=str(directory / TLS_FOLDER) if self.certificate else "",
        )

    def live_url(self, port: int, path: str = LIVE_PATH) -> str:
        """Return the URL that proves an instance on a port is live."""
        return f"{'https' if self.certificate else 'http'}://{self.address}:{port}{path}"
