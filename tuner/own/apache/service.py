"""Apache as a host's service: settings of the lab in its own files, for ``tuner apply``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from tuner.errors import DefinitionError
from tuner.own import bound as bounds
from tuner.own.apache.places import ApacheEdit, ApacheSessionCache, ApacheSetting, Processes, edited
from tuner.own.apache.tree import ApacheTree, read
from tuner.own.bound import BoundGroup, BoundSpace
from tuner.own.files import Files
from tuner.own.home import Home
from tuner.own.patch import plain
from tuner.own.reader import Commands, FoundService
from tuner.space.configuration import Configuration
from tuner.space.space import Space

GROUPS: tuple[BoundGroup[ApacheTree, ApacheEdit], ...] = (
    Processes(),
    ApacheSetting("min_spare_threads", "MinSpareThreads"),
    ApacheSetting("max_spare_threads", "MaxSpareThreads"),
    ApacheSetting("async_request_worker_factor", "AsyncRequestWorkerFactor"),
    ApacheSetting("listen_backlog", "ListenBackLog"),
    ApacheSetting("max_mem_free", "MaxMemFree"),
    ApacheSetting("max_connections_per_child", "MaxConnectionsPerChild"),
    ApacheSetting("timeout", "TimeOut"),
    ApacheSetting("keep_alive", "KeepAlive"),
    ApacheSetting("keep_alive_timeout", "KeepAliveTimeout"),
    ApacheSetting("max_keep_alive_requests", "MaxKeepAliveRequests"),
    ApacheSetting("flush_max_threshold", "FlushMaxThreshold"),
    ApacheSetting("enable_sendfile", "EnableSendfile"),
    ApacheSetting("enable_mmap", "EnableMMAP"),
    ApacheSetting("read_buffer_size", "ReadBufferSize"),
    ApacheSetting("buffered_logs", "BufferedLogs"),
    ApacheSetting("h2_min_workers", "H2MinWorkers", "http2"),
    ApacheSetting("h2_max_workers", "H2MaxWorkers", "http2"),
    ApacheSetting("h2_max_session_streams", "H2MaxSessionStreams", "http2"),
    ApacheSetting("h2_stream_max_mem_size", "H2StreamMaxMemSize", "http2"),
    ApacheSetting("h2_window_size", "H2WindowSize", "http2"),
    ApacheSetting("h2_max_data_frame_len", "H2MaxDataFrameLen", "http2"),
    ApacheSetting("h2_output_buffering", "H2OutputBuffering", "http2"),
    ApacheSetting("h2_copy_files", "H2CopyFiles", "http2"),
    ApacheSetting("h2_tls_warm_up_size", "H2TLSWarmUpSize", "http2"),
    ApacheSetting("h2_tls_cool_down_secs", "H2TLSCoolDownSecs", "http2"),
    ApacheSessionCache(),
    ApacheSetting("ssl_session_tickets", "SSLSessionTickets", "ssl"),
    ApacheSetting("proxy_io_buffer_size", "ProxyIOBufferSize", "proxy"),
    ApacheSetting("proxy_add_headers", "ProxyAddHeaders", "proxy"),
)
_POOL = "stands in lines of ProxyPass, which tuner does not change yet"
UNPLACED: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("proxy_max", "proxy_ttl", "proxy_smax", "disable_reuse"), _POOL),
        "accept_filter": "belongs to a protocol, and is not located in a configuration yet",
        "listen_cores_buckets_ratio": "is not located in a configuration yet",
        "extended_status": "is not tuned: it decides what operators see",
        "access_log": "is not tuned: it decides what is logged",
        "deflate": "is not tuned: it decides which answers are compressed",
        "deflate_compression_level": "is not located in a configuration yet",
        "curves": "is not tuned: it decides how clients connect",
    }
)
"""Parameters of the spaces that are not located in a configuration, with the reason."""


@dataclass(frozen=True, slots=True)
class FoundApache(FoundService):
    """The files of a service, read."""

    tree: ApacheTree


@dataclass(frozen=True, slots=True)
class PlacedApache:
    """Implement ``Placed``."""

    bound: BoundSpace
    tree: ApacheTree

    def texts(self, configuration: Configuration) -> dict[str, str]:
        """Implement ``Placed``."""
        changes = bounds.changed(
            self.bound,
            GROUPS,
            configuration,
            reference=self.bound.baseline,
            # The host's numbers of processes stay, as far as the others allow.
            apart=lambda group: isinstance(group, Processes),
        )
        edits = (edit for group, wanted in changes for edit in group.edits(self.tree, wanted))
        return edited(self.tree, edits)


def read_service(
    main: str,
    files: Files,
    home: Callable[[], Home],  # noqa: ARG001 - the port's, for servers whose program reads the files
) -> FoundService:
    """Implement ``ServiceReader.read_service``."""
    tree = read(main, files)
    resolved = "".join(f"# {path}\n{text}" for path, text in tree.texts.items())
    return FoundApache(main, tree.texts, plain(resolved), tree)


def place(
    found: FoundService, space: Space, *, server_name: str, tls: bool, proxied: bool
) -> PlacedApache:
    """Implement ``PlaceFinder``."""
    assert isinstance(found, FoundApache)  # noqa: S101 - of ``read_service``
    tree = found.tree
    if server_name:
        raise DefinitionError(
            "the settings of Apache count for all its virtual hosts; leave the option out",
            path="--server-name",
        )
    for each in tree.of("loadmodule"):
        if each.first in {"mpm_prefork_module", "mpm_worker_module"}:
            raise DefinitionError(
                f"loads {each.words[1]}, and the study measured mpm_event_module",
                path=each.file,
                line=each.line,
            )
    for module, needed in (("ssl", tls), ("proxy_http", proxied)):
        if needed and module not in tree.modules:
            raise DefinitionError(
                f"has no LoadModule of {module}_module, which the study's workload needs",
                path=tree.file,
            )
    # The space relates threads to connections, so that the lab's processes are all there from the
    # start; a service may start and end them.
    space = replace(space, orders=())
    bound = bounds.bind(space, GROUPS, tree, unplaced=UNPLACED, path=tree.file)
    return PlacedApache(bound, tree)


def commands(main: str, *, usual: bool) -> Commands:
    """Implement ``ServiceReader.commands``.

    The script of the service knows the variables that Debian's files name (``envvars``).
    """
    return Commands(("apachectl", "-t", *(() if usual else ("-f", main))))
