"""The parameters of Nginx's spaces: reading from a configuration, and writing to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from tuner.own import bound as bounds
from tuner.own.bound import BoundGroup, BoundSpace
from tuner.own.nginx.applications import CacheUpdates, KeptApplications
from tuner.own.nginx.compound import (
    AccessLog,
    AnswerBuffers,
    OpenFileCache,
    WorkerAffinity,
    WorkerConnections,
    WorkerProcesses,
)
from tuner.own.nginx.edits import Edit
from tuner.own.nginx.places import ListenOptions, NginxScope, Pair, Plain
from tuner.own.nginx.serving import NginxServing
from tuner.own.nginx.tls_and_disk import FileThreads, KernelTls, SessionCache
from tuner.own.nginx.upstreams import KeptUpstreams
from tuner.space.configuration import Configuration
from tuner.space.space import Space

GROUPS: tuple[BoundGroup[NginxScope, Edit], ...] = (
    WorkerProcesses(),
    WorkerAffinity(),
    WorkerConnections(),
    Plain("multi_accept", "events"),
    Plain("accept_mutex", "events"),
    ListenOptions(flags=("reuseport", "deferred"), valued=("backlog", "fastopen")),
    Plain("keepalive_requests"),
    Plain("keepalive_timeout"),
    Plain("sendfile"),
    Plain("tcp_nopush"),
    Plain("tcp_nodelay"),
    Plain("sendfile_max_chunk"),
    Plain("postpone_output"),
    Plain("directio"),
    Pair(("output_buffers_number", "output_buffers_size"), "output_buffers"),
    OpenFileCache(),
    Plain("open_file_cache_valid"),
    Plain("open_file_cache_min_uses"),
    AccessLog(),
    Plain("gzip"),
    Plain("gzip_comp_level"),
    Plain("gzip_static"),
    FileThreads(),
    KernelTls(),
    SessionCache(),
    Plain("ssl_buffer_size", "server"),
    Plain("http2_chunk_size"),
    Plain("http2_max_concurrent_streams", "server"),
    Plain("http2_recv_buffer_size", "server"),
    Plain("http3_stream_buffer_size", "server"),
    Plain("http3_max_concurrent_streams", "server"),
    Plain("quic_gso", "server"),
    KeptUpstreams(),
    AnswerBuffers(),
    Plain("proxy_buffering", "proxy"),
    Plain("proxy_max_temp_file_size", "proxy"),
    AnswerBuffers("fastcgi"),
    Plain("fastcgi_buffering", "fastcgi"),
    Plain("fastcgi_max_temp_file_size", "fastcgi"),
    KeptApplications("fastcgi", asks="fastcgi_keep_conn"),
    CacheUpdates("fastcgi"),
    AnswerBuffers("uwsgi"),
    Plain("uwsgi_buffering", "uwsgi"),
    Plain("uwsgi_max_temp_file_size", "uwsgi"),
    CacheUpdates("uwsgi"),
    AnswerBuffers("scgi"),
    Plain("scgi_buffering", "scgi"),
    Plain("scgi_max_temp_file_size", "scgi"),
    Plain("grpc_buffer_size", "grpc"),
    KeptApplications("grpc"),
)

UNPLACED: Mapping[str, str] = MappingProxyType(
    {
        "gzip_types": "is not tuned: it decides which answers are compressed",
        "x_forwarded_for": "is not tuned: applications depend on the header",
    }
)
"""Parameters of the spaces that are not located in a configuration, with the reason."""


def bind(space: Space, serving: NginxServing) -> BoundSpace:
    """Read every parameter's value from a configuration of Nginx; see ``bound.bind``.

    Raises:
        DefinitionError: no parameter of the space is left.
    """
    scope = NginxScope(serving, space.facts)
    return bounds.bind(space, GROUPS, scope, unplaced=UNPLACED, path=serving.tree.file)


def changes(
    bound: BoundSpace,
    serving: NginxServing,
    configuration: Configuration,
    *,
    reference: Configuration | None = None,
) -> Iterator[Edit]:
    """Yield the edits that turn the user's configuration into another one."""
    scope = NginxScope(serving, bound.space.facts)
    for group, wanted in bounds.changed(
        bound,
        GROUPS,
        configuration,
        reference=reference,
        # Options of a socket are independent of each other.
        apart=lambda group: isinstance(group, ListenOptions),
    ):
        yield from group.edits(scope, wanted)
