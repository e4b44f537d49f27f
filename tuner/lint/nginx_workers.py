"""Rules for Nginx's workers: their connections and files, their CPUs, and their sockets."""

from __future__ import annotations

from collections.abc import Iterator

from tuner.lint.finding import LintFacts
from tuner.lint.nginx_rule import CORE, DOCS, HTTP, NginxFindings, NginxRule
from tuner.lint.nginx_scope import number, option, spots
from tuner.own.nginx.tree import Directive, Tree

_USUAL_FILES = 1024
"""The default soft limit of systemd and login shells."""
_HTTP2_DIRECTIVE = (1, 25, 1)
_FEW_CONNECTIONS = 512
_SLOW_EVENTS = ("select", "poll")


def _workers(tree: Tree, facts: LintFacts) -> int | None:
    """Return the number of workers; None if a mask or variable sets it."""
    found = next(tree.children("worker_processes"), None)
    if found is None:
        return 1
    return facts.cores if found.args == ("auto",) else number(found)


def _proxies(tree: Tree) -> bool:
    names = ("proxy_pass", "fastcgi_pass", "uwsgi_pass", "scgi_pass", "grpc_pass")
    return next(spots(tree, *names), None) is not None


def _wanted_files(tree: Tree) -> Iterator[tuple[Directive, int, str]]:
    """Yield every ``worker_connections``, with the files that a worker needs for it."""
    files = 2 if _proxies(tree) else 1
    each = ", two files for each (a client and an upstream)" if files > 1 else ""
    for spot in spots(tree, "worker_connections"):
        wanted = number(spot.directive)
        if wanted is not None:
            yield spot.directive, files * wanted, f"{wanted} connections{each}"


def _connections(tree: Tree, _: LintFacts) -> NginxFindings:
    limit = number(next(tree.children("worker_rlimit_nofile"), None))
    for directive, need, said in _wanted_files(tree):
        if limit is not None and need > limit:
            yield directive, f"{said}, but worker_rlimit_nofile is {limit}"


def _connections_unsaid(tree: Tree, _: LintFacts) -> NginxFindings:
    if next(tree.children("worker_rlimit_nofile"), None) is None:
        for directive, need, said in _wanted_files(tree):
            if need > _USUAL_FILES:
                unsaid = (
                    f"{said}, and no worker_rlimit_nofile: the service's own limit applies, often"
                    f" {_USUAL_FILES}"
                )
                yield directive, unsaid


def _one_worker(tree: Tree, facts: LintFacts) -> NginxFindings:
    found = next(tree.children("worker_processes"), None)
    main = any(True for _ in tree.children("events", "http", "stream", "mail"))
    # A file of sites says nothing of workers: its main file does.
    if facts.cores > 1 and _workers(tree, facts) == 1 and (found or main):
        said = "is 1" if found else "is not set, and so 1"
        where = found or Directive("worker_processes", (), tree.file, 1)
        yield where, f"worker_processes {said}; this host has {facts.cores} cores"


def _few_connections(tree: Tree, _: LintFacts) -> NginxFindings:
    for spot in spots(tree, "worker_connections"):
        count = number(spot.directive)
        if count is not None and count < _FEW_CONNECTIONS:
            yield spot.directive, f"a worker refuses more than {count} connections at a time"


def _slow_events(tree: Tree, _: LintFacts) -> NginxFindings:
    for spot in spots(tree, "use"):
        if spot.directive.args and spot.directive.args[0] in _SLOW_EVENTS:
            yield spot.directive, "every event scans all connections"


def _no_workers(tree: Tree, _: LintFacts) -> NginxFindings:
    for found in tree.children("master_process"):
        if found.args == ("off",):
            yield found, "one process does everything, regardless of worker_processes"


def _few_masks(tree: Tree, facts: LintFacts) -> NginxFindings:
    workers = _workers(tree, facts)
    for found in tree.children("worker_cpu_affinity"):
        if workers is None or not found.args or found.args[0] == "auto":
            continue
        sharing = workers - len(found.args) + 1
        if sharing > max(1, found.args[-1].count("1")):
            yield found, f"{len(found.args)} masks for {workers} workers: {sharing} share the last"


def _reuseport(tree: Tree, facts: LintFacts) -> NginxFindings:
    if _workers(tree, facts) == 1:
        for spot in spots(tree, "listen"):
            if "reuseport" in spot.directive.args and "quic" not in spot.directive.args:
                yield spot.directive, "each worker has a listening socket, but there is one worker"


def _quic(tree: Tree, facts: LintFacts) -> NginxFindings:
    workers = _workers(tree, facts)
    found = [spot.directive for spot in spots(tree, "listen") if "quic" in spot.directive.args]
    shared = {one.args[0] for one in found if "reuseport" in one.args}
    for one in found:
        if one.args[0] not in shared and workers != 1:
            yield one, "QUIC without reuseport, and several workers"
            shared.add(one.args[0])


def _unannounced(tree: Tree, _: LintFacts) -> NginxFindings:
    if not any("alt-svc" in arg.lower() for one in tree.walk() for arg in one.args):
        for spot in spots(tree, "listen"):
            if "quic" in spot.directive.args:
                yield spot.directive, "QUIC is available, but not announced to clients"
                return


def _backlog(tree: Tree, facts: LintFacts) -> NginxFindings:
    for spot in spots(tree, "listen"):
        wanted = option(spot.directive, "backlog") or ""
        if wanted.isdigit() and int(wanted) > facts.somaxconn:
            yield spot.directive, f"a backlog of {wanted}; net.core.somaxconn is {facts.somaxconn}"


def _listen_http2(tree: Tree, facts: LintFacts) -> NginxFindings:
    if facts.version >= _HTTP2_DIRECTIVE:
        for spot in spots(tree, "listen"):
            if "http2" in spot.directive.args:
                yield spot.directive, "http2 is deprecated as a parameter of listen"


def _accept_mutex(tree: Tree, _: LintFacts) -> NginxFindings:
    for spot in spots(tree, "accept_mutex"):
        if spot.directive.args == ("on",):
            yield spot.directive, "workers take turns in accepting connections"


RULES: tuple[NginxRule, ...] = (
    NginxRule(
        "connections-above-files",
        "wrong",
        _connections,
        "A worker without free files refuses connections (accept() failed: too many open files)",
        "worker_rlimit_nofile of twice worker_connections, or fewer connections",
        CORE + "worker_rlimit_nofile",
    ),
    NginxRule(
        "connections-without-file-limit",
        "costs",
        _connections_unsaid,
        "The limit of a worker's open files depends on its start (LimitNOFILE, ulimit -n)",
        "worker_rlimit_nofile of twice worker_connections",
        CORE + "worker_rlimit_nofile",
    ),
    NginxRule(
        "few-connections",
        "costs",
        _few_connections,
        "Idle clients and upstreams count too; the default is 512",
        "worker_connections 1024; or more",
        CORE + "worker_connections",
    ),
    NginxRule(
        "one-worker",
        "costs",
        _one_worker,
        "A worker is one thread; the other cores stay idle",
        "worker_processes auto;",
        CORE + "worker_processes",
    ),
    NginxRule(
        "slow-events",
        "wrong",
        _slow_events,
        "epoll reports only connections with events, and Nginx chooses it by default",
        "remove use",
        CORE + "use",
    ),
    NginxRule(
        "no-workers",
        "wrong",
        _no_workers,
        "It is for developers of Nginx: it uses one core, and reloads lose connections",
        "remove master_process",
        CORE + "master_process",
    ),
    NginxRule(
        "few-masks",
        "wrong",
        _few_masks,
        "Workers beyond the last mask share that mask, and wait for each other",
        "worker_cpu_affinity auto; or a mask for each worker",
        CORE + "worker_cpu_affinity",
    ),
    NginxRule(
        "reuseport-one-worker",
        "costs",
        _reuseport,
        "There is nothing to spread, and a reload to fewer sockets resets waiting connections",
        "remove reuseport, or use more workers",
        HTTP + "reuseport",
    ),
    NginxRule(
        "quic-without-reuseport",
        "wrong",
        _quic,
        "Packets of a connection reach workers that do not know the connection",
        "listen … quic reuseport; once for each address",
        DOCS + "quic.html",
    ),
    NginxRule(
        "quic-unannounced",
        "style",
        _unannounced,
        "Clients stay on TCP, unless a DNS record of type HTTPS announces it",
        "add_header Alt-Svc 'h3=\":443\"; ma=86400';",
        DOCS + "quic.html",
    ),
    NginxRule(
        "backlog-above-somaxconn",
        "wrong",
        _backlog,
        "The kernel silently uses the smaller number",
        "sysctl net.core.somaxconn of at least as much, or a smaller backlog",
        HTTP + "listen",
    ),
    NginxRule(
        "listen-http2",
        "style",
        _listen_http2,
        "It is deprecated since 1.25.1, and Nginx warns at every start",
        "http2 on; as a directive of the server",
        DOCS + "http/ngx_http_v2_module.html#http2",
    ),
    NginxRule(
        "accept-mutex",
        "costs",
        _accept_mutex,
        "Since Linux 4.5 the kernel wakes one worker at a time; turns only add a wait",
        "remove it; the default is off since 1.11.3",
        CORE + "accept_mutex",
    ),
)
