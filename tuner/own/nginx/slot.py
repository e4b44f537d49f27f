"""The environment of an instance in the lab."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tuner.own.nginx.gaps import NginxGaps
from tuner.workload.wire import WireProtocol


@dataclass(frozen=True, slots=True)
class NginxLabSlot:
    """The environment of an instance in the lab."""

    address: str
    """``127.0.0.1:18080``."""
    run_dir: str
    log_dir: str
    modules_dir: str
    """Base folder for relative paths of ``load_module``."""
    workers: int
    """CPUs of the server, the value of ``auto``."""
    cpu_mask: str
    backend: str
    """Address such as ``127.0.0.1:18079``; empty if the workload has no backend over HTTP."""
    native_backend: str
    """Address of the backend for FastCGI, uwsgi, SCGI and gRPC; empty without."""
    root: str
    """Document root instead of the server's; empty: the configuration's."""
    own_site: bool
    """True if the workload asks for the user's own files."""
    tls_dir: str
    """Folder of the lab's certificate; empty without one."""
    protocol: WireProtocol
    keep_upstreams: bool
    readable: Callable[[str], bool]
    """True if the instance may read a file."""
    gaps: NginxGaps
    """The parts that this build of Nginx cannot read."""
    live_path: str
    token: str
