"""Rules for Nginx's configurations.

Each is a pure function over the parsed tree. It finds what is plainly so; what only a measurement
can tell is left to one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tuner.lint.finding import Finding, LintFacts, Severity
from tuner.lint.scope import Spot, inside, number, option, spots
from tuner.never import refusal
from tuner.own.tree import Directive, Tree

_DOCS = "https://nginx.org/en/docs/"
_CORE = _DOCS + "ngx_core_module.html#"
_HTTP = _DOCS + "http/ngx_http_core_module.html#"
_SSL = _DOCS + "http/ngx_http_ssl_module.html#"
_PROXY = _DOCS + "http/ngx_http_proxy_module.html#"
_UPSTREAM = _DOCS + "http/ngx_http_upstream_module.html#"

_USUAL_FILES = 1024
"""The soft limit that systemd and login shells give a process that asks for none."""
_KEPT_BY_DEFAULT = (1, 29, 7)
"""Since then connections to upstreams are kept, over HTTP/1.1, unless a configuration says no."""
_HTTP2_DIRECTIVE = (1, 25, 1)
_MORE_REQUESTS = (1, 19, 10)
_FEW_REQUESTS = 1000
_HIGH_LEVEL = 6
_BALANCING = ("least_conn", "ip_hash", "hash", "random", "least_time")
_OBSOLETE = {
    "http2_recv_timeout": "client_header_timeout",
    "http2_idle_timeout": "keepalive_timeout",
    "http2_max_requests": "keepalive_requests",
    "http2_max_field_size": "large_client_header_buffers",
    "http2_max_header_size": "large_client_header_buffers",
}
_HARMFUL = ("quic_bpf", "timer_resolution", "worker_priority", "lingering_close")
_PAGES = {
    "quic_bpf": _DOCS + "http/ngx_http_v3_module.html#quic_bpf",
    "timer_resolution": _CORE + "timer_resolution",
    "worker_priority": _CORE + "worker_priority",
    "lingering_close": _HTTP + "lingering_close",
}
"""Of directives whose rule is about several."""
_SLOW_EVENTS = ("select", "poll")
_SMALL_BYTES = 512 << 10
"""Files below it are read in one go, and from the page cache if they are asked for at all often."""
_SIZE = re.compile(r"(\d+)([kmg]?)", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_TARGET = re.compile(r"https?://([^/:$]+|\[[^\]]+\])(?=[/:]|$)")

Found = Iterator[tuple[Directive, str]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: what it looks for, and what it has to say about it."""

    id: str
    severity: Severity
    check: Callable[[Tree, LintFacts], Found]
    """Yields the directive and what is wrong with it."""
    why: str
    remedy: str
    link: str


def lint(tree: Tree, facts: LintFacts) -> tuple[Finding, ...]:
    """All that the rules find, in the order of the files."""
    found: dict[tuple[str, str, int, str], Finding] = {}
    for rule in RULES:
        for directive, what in rule.check(tree, facts):
            place = " ".join((directive.name, *directive.args))
            key = (rule.id, directive.file, directive.line, place)
            found.setdefault(
                key,
                Finding(
                    rule=rule.id,
                    severity=rule.severity,
                    file=directive.file,
                    line=directive.line,
                    place=place,
                    what=what,
                    why=rule.why,
                    remedy=rule.remedy,
                    link=_PAGES.get(directive.name, rule.link),
                ),
            )
    order = {file: index for index, file in enumerate(dict.fromkeys(d.file for d in tree.walk()))}
    return tuple(sorted(found.values(), key=lambda one: (order[one.file], one.line or 0, one.rule)))


def _workers(tree: Tree, facts: LintFacts) -> int | None:
    """How many there are; None: by a mask or a variable that is not understood."""
    told = next(tree.children("worker_processes"), None)
    if told is None:
        return 1
    return facts.cores if told.args == ("auto",) else number(told)


def _proxies(tree: Tree) -> bool:
    names = ("proxy_pass", "fastcgi_pass", "uwsgi_pass", "scgi_pass", "grpc_pass")
    return next(spots(tree, *names), None) is not None


def _wanted_files(tree: Tree) -> Iterator[tuple[Directive, int, str]]:
    """Every ``worker_connections``, with the files that a worker needs for it."""
    files = 2 if _proxies(tree) else 1
    each = ", two files for each (a client and an upstream)" if files > 1 else ""
    for spot in spots(tree, "worker_connections"):
        wanted = number(spot.directive)
        if wanted is not None:
            yield spot.directive, files * wanted, f"{wanted} connections{each}"


def _connections(tree: Tree, _: LintFacts) -> Found:
    limit = number(next(tree.children("worker_rlimit_nofile"), None))
    for directive, need, said in _wanted_files(tree):
        if limit is not None and need > limit:
            yield directive, f"{said}, but worker_rlimit_nofile is {limit}"


def _connections_unsaid(tree: Tree, _: LintFacts) -> Found:
    if next(tree.children("worker_rlimit_nofile"), None) is None:
        for directive, need, said in _wanted_files(tree):
            if need > _USUAL_FILES:
                unsaid = (
                    f"{said}, and no worker_rlimit_nofile: the service's own limit holds, often"
                    f" {_USUAL_FILES}"
                )
                yield directive, unsaid


def _one_worker(tree: Tree, facts: LintFacts) -> Found:
    told = next(tree.children("worker_processes"), None)
    first = told or next(tree.walk(), None)
    if first is not None and facts.cores > 1 and _workers(tree, facts) == 1:
        said = "is 1" if told else "is not set, and so 1"
        yield first, f"worker_processes {said}; this host has {facts.cores} cores"


def _slow_events(tree: Tree, _: LintFacts) -> Found:
    for spot in spots(tree, "use"):
        if spot.directive.args and spot.directive.args[0] in _SLOW_EVENTS:
            yield spot.directive, "every event costs a look at every connection"


def _no_workers(tree: Tree, _: LintFacts) -> Found:
    for told in tree.children("master_process"):
        if told.args == ("off",):
            yield told, "one process does everything, whatever worker_processes says"


def _few_masks(tree: Tree, facts: LintFacts) -> Found:
    workers = _workers(tree, facts)
    for told in tree.children("worker_cpu_affinity"):
        if workers is None or not told.args or told.args[0] == "auto":
            continue
        sharing = workers - len(told.args) + 1
        if sharing > max(1, told.args[-1].count("1")):
            yield told, f"{len(told.args)} masks for {workers} workers: {sharing} share the last"


def _reuseport(tree: Tree, facts: LintFacts) -> Found:
    if _workers(tree, facts) == 1:
        for spot in spots(tree, "listen"):
            if "reuseport" in spot.directive.args and "quic" not in spot.directive.args:
                yield spot.directive, "a listening socket for each worker, and there is one worker"


def _quic(tree: Tree, facts: LintFacts) -> Found:
    workers = _workers(tree, facts)
    told = [spot.directive for spot in spots(tree, "listen") if "quic" in spot.directive.args]
    shared = {one.args[0] for one in told if "reuseport" in one.args}
    for one in told:
        if one.args[0] not in shared and workers != 1:
            yield one, "QUIC without reuseport, and several workers"
            shared.add(one.args[0])


def _unannounced(tree: Tree, _: LintFacts) -> Found:
    if not any("alt-svc" in arg.lower() for one in tree.walk() for arg in one.args):
        for spot in spots(tree, "listen"):
            if "quic" in spot.directive.args:
                yield spot.directive, "QUIC is spoken, and nothing tells clients so"
                return


def _backlog(tree: Tree, facts: LintFacts) -> Found:
    for spot in spots(tree, "listen"):
        wanted = option(spot.directive, "backlog") or ""
        if wanted.isdigit() and int(wanted) > facts.somaxconn:
            yield spot.directive, f"a backlog of {wanted}; net.core.somaxconn is {facts.somaxconn}"


def _listen_http2(tree: Tree, facts: LintFacts) -> Found:
    if facts.version >= _HTTP2_DIRECTIVE:
        for spot in spots(tree, "listen"):
            if "http2" in spot.directive.args:
                yield spot.directive, "http2 is no parameter of listen any more"


def _accept_mutex(tree: Tree, _: LintFacts) -> Found:
    for spot in spots(tree, "accept_mutex"):
        if spot.directive.args == ("on",):
            yield spot.directive, "workers take turns in accepting connections"


def _few_requests(tree: Tree, facts: LintFacts) -> Found:
    for spot in spots(tree, "keepalive_requests"):
        limit = number(spot.directive)
        if limit is not None and limit < _FEW_REQUESTS:
            yield spot.directive, f"a connection is closed after {limit} requests"
    if facts.version < _MORE_REQUESTS:
        for http in tree.children("http"):
            if next(spots(tree, "keepalive_requests"), None) is None:
                yield http, "a connection is closed after 100 requests, this version's default"


def _no_keepalive(tree: Tree, _: LintFacts) -> Found:
    for spot in spots(tree, "keepalive_timeout"):
        value = spot.directive.args[0] if spot.directive.args else ""
        upstream = any(one.name == "server" for one in spot.levels[-1] if one.block is None)
        if value in ("0", "0s") and not upstream:
            yield spot.directive, "every request needs a connection of its own"


def _small_directio(tree: Tree, _: LintFacts) -> Found:
    for spot in spots(tree, "directio"):
        size = _SIZE.fullmatch(spot.directive.args[0]) if spot.directive.args else None
        if size and int(size[1]) * _UNITS[size[2].lower()] < _SMALL_BYTES:
            yield spot.directive, f"files of {size[0]} and more are read past the page cache"


def _is_tls(server: Directive) -> bool:
    return any("ssl" in one.args for one in server.children("listen")) or any(
        one.args == ("on",) for one in server.children("ssl")
    )


def _sendfile_tls(tree: Tree, facts: LintFacts) -> Found:
    for server in spots(tree, "server"):
        if server.directive.block is None or not _is_tls(server.directive):
            continue
        within = Spot(server.directive, (*server.levels, server.directive.block))
        told = within.one("sendfile")
        if told is None or told.args != ("on",):
            continue
        asked = any(
            one.args[:1] == ("Options",) and one.args[-1:] == ("KTLS",)
            for one in within.all_of("ssl_conf_command")
        )
        if not asked:
            yield told, "sendfile has no effect under TLS unless the kernel encrypts"
        elif not facts.kernel_tls:
            yield told, "the kernel's TLS is asked for and not loaded, so sendfile has no effect"


def _nopush(tree: Tree, _: LintFacts) -> Found:
    for spot in spots(tree, "tcp_nopush"):
        if spot.directive.args == ("on",) and not spot.says("sendfile", "on"):
            block = Directive("", (), "", 0, spot.levels[-1])
            below = inside(block, Spot(block, spot.levels[:-1]), "sendfile")
            if not any(one.directive.args == ("on",) for one in below):
                yield spot.directive, "tcp_nopush without sendfile"


def _nodelay(tree: Tree, _: LintFacts) -> Found:
    for spot in spots(tree, "tcp_nodelay"):
        if spot.directive.args == ("off",):
            yield spot.directive, "the end of an answer waits for the client's acknowledgement"


def _passes(tree: Tree) -> Iterator[tuple[Spot, Directive | None]]:
    """Every ``proxy_pass`` to a name that is known here, with the upstream that it means."""
    named = {
        spot.directive.args[0]: spot.directive
        for spot in spots(tree, "upstream")
        if spot.directive.args
    }
    for spot in spots(tree, "proxy_pass"):
        target = _TARGET.match(spot.directive.args[0]) if spot.directive.args else None
        if target is not None:
            yield spot, named.get(target[1])


def _no_upstream_keepalive(tree: Tree, facts: LintFacts) -> Found:
    for spot, upstream in _passes(tree):
        if upstream is None:
            yield spot.directive, "every request opens a connection to the upstream"
        elif facts.version < _KEPT_BY_DEFAULT and not any(upstream.children("keepalive")):
            yield upstream, "every request opens a connection to the upstream"


def _kept(tree: Tree, facts: LintFacts) -> Iterator[Spot]:
    """Every ``proxy_pass`` whose upstream is told to keep connections."""
    for spot, upstream in _passes(tree):
        if upstream is None or facts.version >= _KEPT_BY_DEFAULT:
            continue
        if any(one.args != ("0",) for one in upstream.children("keepalive")):
            yield spot


def _old_http(tree: Tree, facts: LintFacts) -> Found:
    for spot in _kept(tree, facts):
        told = spot.one("proxy_http_version")
        if told is None or told.args == ("1.0",):
            yield spot.directive, "the upstream keeps connections, and is spoken to in HTTP/1.0"


def _connection_header(tree: Tree, facts: LintFacts) -> Found:
    for spot in _kept(tree, facts):
        headers = [one for one in spot.all_of("proxy_set_header") if len(one.args) == 2]
        told = [one.args[1] for one in headers if one.args[0].lower() == "connection"]
        # A variable may well be empty: the usual way of passing WebSockets on.
        if not told or (told[-1] and "$" not in told[-1]):
            sent = told[-1] if told else "close"
            yield spot.directive, f"the upstream keeps connections, and is sent Connection: {sent}"


def _fastcgi(tree: Tree, _: LintFacts) -> Found:
    kept = {
        spot.directive.args[0]
        for spot in spots(tree, "upstream")
        if spot.directive.args
        and any(one.args != ("0",) for one in spot.directive.children("keepalive"))
    }
    for spot in spots(tree, "fastcgi_pass"):
        if kept.intersection(spot.directive.args) and not spot.says("fastcgi_keep_conn", "on"):
            yield spot.directive, "the upstream keeps connections, and FastCGI is told to close"


def _keepalive_first(tree: Tree, _: LintFacts) -> Found:
    for spot in spots(tree, "upstream"):
        seen: Directive | None = None
        for child in spot.directive.block or ():
            if child.name == "keepalive":
                seen = child
            elif child.name in _BALANCING and seen is not None:
                yield seen, f"keepalive stands before {child.name}, which replaces it"


def _buffering_off(tree: Tree, _: LintFacts) -> Found:
    for spot in spots(tree, "proxy_buffering", "fastcgi_buffering"):
        if spot.directive.args == ("off",):
            yield spot.directive, "answers are passed on only as fast as the client reads"


def _high_level(tree: Tree, _: LintFacts) -> Found:
    for spot in spots(tree, "gzip_comp_level"):
        level = number(spot.directive)
        if level is not None and level > _HIGH_LEVEL:
            yield spot.directive, f"compression at level {level}"


def _compressed_twice(tree: Tree, _: LintFacts) -> Found:
    for spot in spots(tree, "gzip_types"):
        if "*" in spot.directive.args:
            yield spot.directive, "pictures, archives and videos are compressed once more"


def _builtin_cache(tree: Tree, _: LintFacts) -> Found:
    for spot in spots(tree, "ssl_session_cache"):
        if any(arg.partition(":")[0] == "builtin" for arg in spot.directive.args):
            yield spot.directive, "sessions are kept in a cache of each worker's own"


def _full_handshakes(tree: Tree, _: LintFacts) -> Found:
    for spot in spots(tree, "ssl_session_tickets"):
        cache = spot.one("ssl_session_cache")
        shared = cache is not None and any(arg.startswith("shared:") for arg in cache.args)
        if spot.directive.args == ("off",) and not shared:
            yield spot.directive, "no tickets, and no cache that workers share"


def _log_per_request(tree: Tree, _: LintFacts) -> Found:
    for spot in spots(tree, "access_log"):
        named = spot.directive.args[:1]
        cached = spot.one("open_log_file_cache")
        if named and "$" in named[0] and (cached is None or cached.args == ("off",)):
            yield spot.directive, "a log whose name is a variable is opened for every line"


def _debug_log(tree: Tree, _: LintFacts) -> Found:
    for spot in spots(tree, "error_log"):
        if spot.directive.args[1:] == ("debug",):
            yield spot.directive, "dozens of lines are written for every request"


def _obsolete(tree: Tree, _: LintFacts) -> Found:
    for spot in spots(tree, *_OBSOLETE):
        name = spot.directive.name
        yield spot.directive, f"{name} is ignored since 1.19.7; {_OBSOLETE[name]} counts"


def _harmful(tree: Tree, _: LintFacts) -> Found:
    for spot in spots(tree, *_HARMFUL):
        name, args = spot.directive.name, spot.directive.args
        meant = {
            "quic_bpf": args == ("on",),
            "timer_resolution": True,
            "worker_priority": bool(args) and args[0].startswith("-"),
            "lingering_close": args == ("off",),
        }[name]
        if meant:
            yield spot.directive, f"{name}: {refusal('nginx', name)}"


RULES: tuple[Rule, ...] = (
    Rule(
        "connections-above-files",
        "wrong",
        _connections,
        "A worker that has no file left refuses connections (accept() failed: too many open files)",
        "worker_rlimit_nofile of twice worker_connections, or fewer connections",
        _CORE + "worker_rlimit_nofile",
    ),
    Rule(
        "connections-without-file-limit",
        "doubtful",
        _connections_unsaid,
        "Whether a worker can hold so many is up to whoever starts it (LimitNOFILE, ulimit -n)",
        "worker_rlimit_nofile of twice worker_connections",
        _CORE + "worker_rlimit_nofile",
    ),
    Rule(
        "one-worker",
        "doubtful",
        _one_worker,
        "A worker is one thread; the other cores do nothing",
        "worker_processes auto;",
        _CORE + "worker_processes",
    ),
    Rule(
        "slow-events",
        "wrong",
        _slow_events,
        "epoll tells which connections have something to do, and Nginx chooses it by itself",
        "leave use out",
        _CORE + "use",
    ),
    Rule(
        "no-workers",
        "wrong",
        _no_workers,
        "It is for those who develop Nginx: one core, and no reload without loss",
        "leave master_process out",
        _CORE + "master_process",
    ),
    Rule(
        "few-masks",
        "wrong",
        _few_masks,
        "Workers beyond the last mask have that mask too, and wait for each other",
        "worker_cpu_affinity auto; or a mask for each worker",
        _CORE + "worker_cpu_affinity",
    ),
    Rule(
        "reuseport-one-worker",
        "doubtful",
        _reuseport,
        "There is nothing to spread, and a reload to fewer sockets resets what waits in them",
        "leave reuseport out, or have more workers",
        _HTTP + "reuseport",
    ),
    Rule(
        "quic-without-reuseport",
        "wrong",
        _quic,
        "The packets of a connection reach workers that do not know it",
        "listen … quic reuseport; once for each address",
        _DOCS + "quic.html",
    ),
    Rule(
        "quic-unannounced",
        "doubtful",
        _unannounced,
        "Clients go on over TCP, unless a DNS record of type HTTPS tells them",
        "add_header Alt-Svc 'h3=\":443\"; ma=86400';",
        _DOCS + "quic.html",
    ),
    Rule(
        "backlog-above-somaxconn",
        "wrong",
        _backlog,
        "The kernel silently takes the smaller number",
        "sysctl net.core.somaxconn of at least as much, or a smaller backlog",
        _HTTP + "listen",
    ),
    Rule(
        "listen-http2",
        "doubtful",
        _listen_http2,
        "It is deprecated since 1.25.1 and warned about at every start",
        "http2 on; as a directive of the server",
        _DOCS + "http/ngx_http_v2_module.html#http2",
    ),
    Rule(
        "accept-mutex",
        "doubtful",
        _accept_mutex,
        "The kernel wakes one worker at a time since Linux 4.5; turns only add a wait",
        "leave it out: off since 1.11.3",
        _CORE + "accept_mutex",
    ),
    Rule(
        "few-keepalive-requests",
        "doubtful",
        _few_requests,
        "Each close costs the client a connection and a handshake, which shows at p99.9",
        "keepalive_requests 1000; or more",
        _HTTP + "keepalive_requests",
    ),
    Rule(
        "no-keepalive",
        "doubtful",
        _no_keepalive,
        "A handshake, and under TLS a second one, before every answer",
        "keepalive_timeout 75s; or what clients need",
        _HTTP + "keepalive_timeout",
    ),
    Rule(
        "sendfile-under-tls",
        "doubtful",
        _sendfile_tls,
        "What is encrypted passes through the server's memory, so output_buffers count instead",
        "ssl_conf_command Options KTLS; with the kernel's TLS loaded, if a measurement favours it",
        _SSL + "ssl_conf_command",
    ),
    Rule(
        "nopush-without-sendfile",
        "wrong",
        _nopush,
        "It is about packets that sendfile makes, and has no effect without it",
        "sendfile on;",
        _HTTP + "tcp_nopush",
    ),
    Rule(
        "directio-of-small-files",
        "doubtful",
        _small_directio,
        "Each request reads the disk again, in the worker, and sendfile is off for such files",
        "directio 4m; or more, or leave it out",
        _HTTP + "directio",
    ),
    Rule(
        "nodelay-off",
        "wrong",
        _nodelay,
        "Small answers wait for up to 40 ms (Nagle's algorithm against delayed acknowledgements)",
        "leave it out: on by default",
        _HTTP + "tcp_nodelay",
    ),
    Rule(
        "upstream-without-keepalive",
        "doubtful",
        _no_upstream_keepalive,
        "A connection for each request costs about half of a proxy's throughput",
        "an upstream block with keepalive 32; proxy_http_version 1.1; proxy_set_header"
        ' Connection "";',
        _UPSTREAM + "keepalive",
    ),
    Rule(
        "upstream-keepalive-http-1.0",
        "wrong",
        _old_http,
        "HTTP/1.0 ends with the connection, so none is ever kept",
        "proxy_http_version 1.1;",
        _PROXY + "proxy_http_version",
    ),
    Rule(
        "upstream-keepalive-connection-header",
        "wrong",
        _connection_header,
        "The header asks the upstream to close, so no connection is ever kept; and where an inner"
        " block sets any header, those of the outer one are gone",
        'proxy_set_header Connection ""; in the same block as the other proxy_set_header',
        _UPSTREAM + "keepalive",
    ),
    Rule(
        "upstream-keepalive-fastcgi",
        "wrong",
        _fastcgi,
        "The application closes after each answer unless it is told not to, so none is ever kept",
        "fastcgi_keep_conn on;",
        _UPSTREAM + "keepalive",
    ),
    Rule(
        "keepalive-before-balancing",
        "wrong",
        _keepalive_first,
        "A balancing method that comes later replaces keepalive",
        "put keepalive last in the upstream",
        _UPSTREAM + "keepalive",
    ),
    Rule(
        "buffering-off",
        "doubtful",
        _buffering_off,
        "An upstream is held as long as the slowest client reads",
        "buffering on, and off only where answers are streams",
        _PROXY + "proxy_buffering",
    ),
    Rule(
        "high-compression",
        "doubtful",
        _high_level,
        "Above 5 or so each level costs much time for few bytes",
        "gzip_comp_level 5; or less, or files that are compressed beforehand (gzip_static)",
        _DOCS + "http/ngx_http_gzip_module.html#gzip_comp_level",
    ),
    Rule(
        "compressed-twice",
        "doubtful",
        _compressed_twice,
        "They cost as much time as text, and get no smaller",
        "gzip_types with the types of text that are served",
        _DOCS + "http/ngx_http_gzip_module.html#gzip_types",
    ),
    Rule(
        "builtin-cache",
        "doubtful",
        _builtin_cache,
        "A client that comes back to another worker is unknown there, and memory is fragmented",
        "ssl_session_cache shared:SSL:10m; alone",
        _SSL + "ssl_session_cache",
    ),
    Rule(
        "full-handshakes",
        "doubtful",
        _full_handshakes,
        "Every connection needs a full handshake: the dearest thing that a server does",
        "ssl_session_cache shared:SSL:10m;",
        _SSL + "ssl_session_cache",
    ),
    Rule(
        "log-opened-per-request",
        "doubtful",
        _log_per_request,
        "Each line costs an open and a close besides the write",
        "open_log_file_cache max=100;",
        _DOCS + "http/ngx_http_log_module.html#open_log_file_cache",
    ),
    Rule(
        "debug-log",
        "wrong",
        _debug_log,
        "It is for finding faults, and slows everything down",
        "error_log … warn;",
        _CORE + "error_log",
    ),
    Rule(
        "obsolete",
        "wrong",
        _obsolete,
        "It says something that does not happen",
        "take it out",
        _DOCS + "http/ngx_http_v2_module.html",
    ),
    Rule(
        "harmful",
        "wrong",
        _harmful,
        "It looks like tuning, and costs what no load test shows",
        "take it out",
        _DOCS + "dirindex.html",
    ),
)
