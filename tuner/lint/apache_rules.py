"""Rules for Apache's configurations, over the directives of all included files.

Each rule names the page of the manual that it follows. Questions that need a measurement are left
to one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from tuner.lint.finding import Finding, LintFacts, LintRule, Measurable
from tuner.own.apache.tree import ApacheDirective, ApacheTree, read
from tuner.own.server import OwnConfiguration, OwnOptions

_DOCS = "https://httpd.apache.org/docs/2.4/"
_CORE = _DOCS + "mod/core.html#"
_MPM = _DOCS + "mod/mpm_common.html#"
_PROXY = _DOCS + "mod/mod_proxy.html#"
_TUNING = _DOCS + "misc/perf-tuning.html"
_LONG_KEEP_ALIVE_S = 60
"""Limit in the manual ("in no event", misc/perf-tuning)."""
_FEW_REQUESTS = 100
"""The default; the manual recommends a high value."""
_FEW_CONNECTIONS = 10_000
_HARD_COMPRESSION = 8
_THREADED = frozenset(("mpm_event", "mpm_worker"))
_SYMLINK_CHECKS = frozenset(("symlinksifownermatch", "+symlinksifownermatch", "-followsymlinks"))
ApacheFindings = Iterator[tuple[ApacheDirective, str]]
ApacheRule = LintRule[ApacheTree, ApacheDirective]


needs_program = False
measurable: Mapping[str, Measurable] = {}


def lint_file(wishes: OwnOptions, facts: LintFacts, program: str) -> tuple[Finding, ...]:  # noqa: ARG001 - the port's
    """Implement ``Rules.lint_file``."""
    return lint(read(wishes.config), facts)


def lint_own(own: OwnConfiguration, facts: LintFacts) -> tuple[Finding, ...]:  # noqa: ARG001
    """Implement ``Rules.lint_own``; nothing reads a user's configuration for a study."""
    return ()


def lint(tree: ApacheTree, facts: LintFacts) -> tuple[Finding, ...]:
    """Return the findings of all rules, in the order in which Apache reads the files."""
    order = {id(each): at for at, each in enumerate(tree.directives)}
    found: dict[tuple[str, str], list[ApacheDirective]] = {}
    for rule in RULES:
        for spot, what in rule.check(tree, facts):
            found.setdefault((rule.id, what), []).append(spot)
    by_id = {rule.id: rule for rule in RULES}
    ordered = sorted(found.items(), key=lambda each: order[id(each[1][0])])
    return tuple(_finding(by_id[name], what, spots) for (name, what), spots in ordered)


def _finding(rule: ApacheRule, what: str, spots: Sequence[ApacheDirective]) -> Finding:
    first, *others = spots
    return rule.finding(
        what,
        file=first.file,
        line=first.line,
        place=" ".join(first.words),
        also=tuple(dict.fromkeys(f"{each.file}:{each.line}" for each in others)),
    )


def _value(tree: ApacheTree, default: int, *names: str) -> int:
    """Return the number that counts; the default without one."""
    last = tree.last(*names)
    return default if last is None or last.number is None else last.number


def _prefork(tree: ApacheTree, _: LintFacts) -> ApacheFindings:
    for each in tree.of("loadmodule"):
        if each.first == "mpm_prefork_module":
            yield each, "each connection has a process of its own, an idle one too"


def _http2_with_prefork(tree: ApacheTree, _: LintFacts) -> ApacheFindings:
    if "mpm_prefork" in tree.modules:
        for each in tree.of("protocols"):
            if {"h2", "h2c"} & {word.lower() for word in each.words[1:]}:
                yield each, "a connection of HTTP/2 carries one request at a time"


def _not_whole(tree: ApacheTree, _: LintFacts) -> ApacheFindings:
    limit = tree.last("maxrequestworkers", "maxclients")
    threads = _value(tree, 25, "threadsperchild")
    if _THREADED & tree.modules and limit and limit.number and threads:
        if limit.number < threads:
            yield limit, f"{limit.number} threads, but each process has {threads}"
        elif limit.number % threads:
            fewer = limit.number // threads * threads
            yield limit, f"no multiple of {threads} threads per process; Apache takes {fewer}"


def _above_limits(tree: ApacheTree, _: LintFacts) -> ApacheFindings:
    if not _THREADED & tree.modules:
        return
    limit = tree.last("maxrequestworkers", "maxclients")
    threads = _value(tree, 25, "threadsperchild")
    processes = _value(tree, 16, "serverlimit")
    if limit and limit.number and threads and limit.number // threads > processes:
        needed = limit.number // threads
        yield limit, f"needs {needed} processes, and ServerLimit is {processes}"
    each, most = tree.last("threadsperchild"), _value(tree, 64, "threadlimit")
    if each and (each.number or 0) > most:
        yield each, f"{each.number} threads per process, and ThreadLimit is {most}"


def _spare(tree: ApacheTree, _: LintFacts) -> ApacheFindings:
    most = tree.last("maxsparethreads")
    if not _THREADED & tree.modules or most is None or most.number is None:
        return
    least = _value(tree, 75, "minsparethreads") + _value(tree, 25, "threadsperchild")
    if most.number < least:
        yield most, f"{most.number} idle threads; Apache takes {least}"


def _few_connections(tree: ApacheTree, _: LintFacts) -> ApacheFindings:
    for each in tree.of("maxconnectionsperchild", "maxrequestsperchild"):
        if 0 < (each.number or 0) < _FEW_CONNECTIONS:
            yield each, f"a process ends after {each.number} connections"


def _backlog(tree: ApacheTree, facts: LintFacts) -> ApacheFindings:
    for each in tree.of("listenbacklog"):
        if (each.number or 0) > facts.somaxconn:
            yield each, f"a backlog of {each.number}; net.core.somaxconn is {facts.somaxconn}"


def _no_keep_alive(tree: ApacheTree, _: LintFacts) -> ApacheFindings:
    for each in tree.of("keepalive"):
        if each.first == "off":
            yield each, "every connection is closed after one answer"


def _few_requests(tree: ApacheTree, _: LintFacts) -> ApacheFindings:
    for each in tree.of("maxkeepaliverequests"):
        if 0 < (each.number or 0) <= _FEW_REQUESTS:
            yield each, f"a client's connection is closed after {each.number} requests"


def _long_keep_alive(tree: ApacheTree, _: LintFacts) -> ApacheFindings:
    for each in tree.of("keepalivetimeout"):
        if (each.number or 0) > _LONG_KEEP_ALIVE_S:
            yield each, f"idle connections are kept for {each.number} s"


def _htaccess(tree: ApacheTree, _: LintFacts) -> ApacheFindings:
    for each in tree.of("allowoverride"):
        if each.first not in {"none", ""}:
            yield each, "Apache looks for a .htaccess in every folder of every file's path"


def _symlinks(tree: ApacheTree, _: LintFacts) -> ApacheFindings:
    for each in tree.of("options"):
        asked = {word.lower() for word in each.words[1:]}
        absolute = not any(word.startswith(("+", "-")) for word in asked)
        without = absolute and not asked & {"followsymlinks", "all"}
        if each.inside("directory") and (asked & _SYMLINK_CHECKS or without):
            yield each, "Apache checks every part of every file's path for symbolic links"


def _lookups(tree: ApacheTree, _: LintFacts) -> ApacheFindings:
    for each in tree.of("hostnamelookups"):
        if each.first in {"on", "double"}:
            yield each, "the name of each client is looked up before its request ends"


def _debug(tree: ApacheTree, _: LintFacts) -> ApacheFindings:
    for each in tree.of("loglevel"):
        if any(re.search(r"(^|:)(debug|trace[1-8])$", word.lower()) for word in each.words[1:]):
            yield each, "the error log has lines for every request"


def _no_http2(tree: ApacheTree, _: LintFacts) -> ApacheFindings:
    spoken = {word.lower() for each in tree.of("protocols") for word in each.words[1:]}
    if "h2" not in spoken and "mpm_prefork" not in tree.modules:
        encrypted = (each for each in tree.of("sslengine") if each.first == "on")
        for each in encrypted:
            yield each, "clients are not offered HTTP/2"


def _no_reuse(tree: ApacheTree, _: LintFacts) -> ApacheFindings:
    for each in tree.of("proxypass", "proxypassmatch", "proxyset", "balancermember"):
        keys = {word.lower() for word in each.words[1:]}
        if keys & {"disablereuse=on", "enablereuse=off"}:
            yield each, "the connection to the backend is closed after each answer"
    for each in tree.of("setenv", "setenvif", "setenvifnocase", "browsermatch"):
        names = {word.lower().partition("=")[0] for word in each.words[1:]}
        if each.name == "setenv" and names & {"proxy-nokeepalive", "force-proxy-request-1.0"}:
            yield each, "no connection to a backend is kept"


def _open_proxy(tree: ApacheTree, _: LintFacts) -> ApacheFindings:
    restricted = any(each.inside("proxy") for each in tree.of("require", "allow", "deny"))
    for each in tree.of("proxyrequests"):
        if each.first == "on" and not restricted:
            yield each, "everybody who reaches this server can reach others through it"


def _open_status(tree: ApacheTree, _: LintFacts) -> ApacheFindings:
    guarded = [each.within for each in tree.of("require", "allow", "deny", "authtype")]
    for each in tree.of("sethandler"):
        own = any(within[: len(each.within)] == each.within for within in guarded)
        if each.first in {"server-status", "server-info"} and not own:
            yield each, f"{each.first} has no Require"


def _request_timeouts(tree: ApacheTree, _: LintFacts) -> ApacheFindings:
    for each in tree.of("requestreadtimeout"):
        if any(word.lower() in {"header=0", "body=0"} for word in each.words[1:]):
            yield each, "clients may take as long as they like for a request"


def _compression(tree: ApacheTree, _: LintFacts) -> ApacheFindings:
    for each in tree.of("deflatecompressionlevel"):
        if (each.number or 0) >= _HARD_COMPRESSION:
            yield each, f"compression level {each.number}"


def _old_names(tree: ApacheTree, _: LintFacts) -> ApacheFindings:
    new = {"maxclients": "MaxRequestWorkers", "maxrequestsperchild": "MaxConnectionsPerChild"}
    for each in tree.of(*new):
        yield each, f"{each.words[0]} is the old name of {new[each.name]}"


def _old_access(tree: ApacheTree, _: LintFacts) -> ApacheFindings:
    for each in tree.of("order"):
        yield each, "Order, Allow and Deny are those of Apache 2.2"


RULES: tuple[ApacheRule, ...] = (
    ApacheRule(
        "prefork",
        "costs",
        _prefork,
        "A process takes more memory than a thread, and idle clients hold all of them",
        "mpm_event, with PHP behind PHP-FPM; only modules that bear no threads need prefork",
        _TUNING,
    ),
    ApacheRule(
        "http2-with-prefork",
        "wrong",
        _http2_with_prefork,
        "Browsers send their requests at the same time, and one that takes long stalls the others",
        "mpm_event, or Protocols http/1.1",
        _DOCS + "howto/http2.html#mpm-config",
    ),
    ApacheRule(
        "workers-not-whole",
        "wrong",
        _not_whole,
        "Apache uses another number, and says so only at its start",
        "MaxRequestWorkers of a multiple of ThreadsPerChild",
        _MPM + "maxrequestworkers",
    ),
    ApacheRule(
        "above-limits",
        "wrong",
        _above_limits,
        "Apache uses the limit, and says so only at its start",
        "a ServerLimit of MaxRequestWorkers / ThreadsPerChild, a ThreadLimit of ThreadsPerChild",
        _MPM + "serverlimit",
    ),
    ApacheRule(
        "few-spare-threads",
        "wrong",
        _spare,
        "Apache silently uses a larger number",
        "MaxSpareThreads of at least MinSpareThreads + ThreadsPerChild",
        _MPM + "maxsparethreads",
    ),
    ApacheRule(
        "short-lived-processes",
        "costs",
        _few_connections,
        "Starting processes costs time, and those that end keep their place while they do",
        "MaxConnectionsPerChild 0; or a high number, if a module leaks memory",
        _MPM + "maxconnectionsperchild",
    ),
    ApacheRule(
        "backlog-above-somaxconn",
        "wrong",
        _backlog,
        "The kernel silently uses the smaller number",
        "sysctl net.core.somaxconn of at least as much, or a smaller ListenBackLog",
        _MPM + "listenbacklog",
    ),
    ApacheRule(
        "no-keep-alive",
        "costs",
        _no_keep_alive,
        "Each request needs a new connection, under TLS with a handshake",
        "KeepAlive On; with the event MPM an idle connection holds no thread",
        _CORE + "keepalive",
    ),
    ApacheRule(
        "few-keep-alive-requests",
        "costs",
        _few_requests,
        "Busy clients open new connections, under TLS with a handshake",
        "MaxKeepAliveRequests 1000; or more",
        _CORE + "maxkeepaliverequests",
    ),
    ApacheRule(
        "long-keep-alive",
        "costs",
        _long_keep_alive,
        "Idle clients hold connections, with prefork and worker a process or a thread each",
        "KeepAliveTimeout 5; at most 60",
        _TUNING,
    ),
    ApacheRule(
        "htaccess",
        "costs",
        _htaccess,
        "Each request costs several system calls, also without any .htaccess",
        "AllowOverride None, with the directives of .htaccess in a Directory section",
        _DOCS + "howto/htaccess.html",
    ),
    ApacheRule(
        "symlink-checks",
        "costs",
        _symlinks,
        "Each request costs a system call for each part of the path",
        "Options FollowSymLinks, where nobody else may create links",
        _TUNING,
    ),
    ApacheRule(
        "hostname-lookups",
        "wrong",
        _lookups,
        "Requests wait for the name server",
        "HostnameLookups Off, and logresolve for the logs",
        _CORE + "hostnamelookups",
    ),
    ApacheRule(
        "debug-log",
        "wrong",
        _debug,
        "It is for debugging, and slows everything down",
        "LogLevel warn",
        _CORE + "loglevel",
    ),
    ApacheRule(
        "no-http2",
        "costs",
        _no_http2,
        "Browsers open six connections with a handshake each instead of one",
        "LoadModule http2_module, and Protocols h2 http/1.1",
        _DOCS + "howto/http2.html",
    ),
    ApacheRule(
        "backend-connection-per-request",
        "costs",
        _no_reuse,
        "A connection for each request costs time and CPU on both hosts",
        "remove it; with a ttl below the backend's own time where idle connections break",
        _PROXY + "proxypass",
    ),
    ApacheRule(
        "open-proxy",
        "wrong",
        _open_proxy,
        "Open proxies are dangerous to this network and to others; ProxyPass needs none",
        "ProxyRequests Off, or a Proxy section with Require",
        _PROXY + "proxyrequests",
    ),
    ApacheRule(
        "open-status",
        "costs",
        _open_status,
        "It shows addresses of clients and requests, or the configuration, to everybody",
        "Require local",
        _DOCS + "mod/mod_status.html",
    ),
    ApacheRule(
        "no-request-timeout",
        "wrong",
        _request_timeouts,
        "A client that sends its request byte by byte holds a thread (Slowloris)",
        "RequestReadTimeout header=20-40,MinRate=500 body=20,MinRate=500",
        _DOCS + "mod/mod_reqtimeout.html#requestreadtimeout",
    ),
    ApacheRule(
        "high-compression",
        "costs",
        _compression,
        "The highest levels cost much time for few bytes",
        "remove DeflateCompressionLevel, or 5; or precompressed files",
        _DOCS + "mod/mod_deflate.html#deflatecompressionlevel",
    ),
    ApacheRule(
        "old-name",
        "style",
        _old_names,
        "It is supported, but the name says something else than what it limits",
        "the new name",
        _MPM + "maxrequestworkers",
    ),
    ApacheRule(
        "old-access-control",
        "style",
        _old_access,
        "mod_access_compat is deprecated, and mixes badly with Require",
        "Require all granted, Require all denied, Require ip, Require host",
        _DOCS + "upgrading.html#access",
    ),
)
