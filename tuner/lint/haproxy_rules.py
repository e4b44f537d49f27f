"""Rules for HAProxy's configurations, over the lines of one file.

Each rule names the page of the manual that it follows. Questions that need a measurement are left
to one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tuner.lint.finding import Finding, LintFacts, LintRule, Measurable
from tuner.own.haproxy.line_options import option_value
from tuner.own.haproxy.server import HaproxyOwnConfiguration
from tuner.own.haproxy.tree import CLIENT_SIDE, PROXIES, SERVER_SIDE, HaproxyTree, read
from tuner.own.server import OwnConfiguration, OwnOptions
from tuner.reading.haproxy_text import HaproxyLine

_DOCS = "https://docs.haproxy.org/2.8/configuration.html#"
_MANAGEMENT = "https://docs.haproxy.org/2.8/management.html#"
_HTTP2_BUFFER = 16 << 10
_MANY_ACCEPTS = 64
_ALPN_BY_DEFAULT = (2, 8)
_REMOVED = {
    "nbproc": (2, 5),
    "bind-process": (2, 5),
    "reqadd": (2, 1),
    "reqrep": (2, 1),
    "reqirep": (2, 1),
    "reqdel": (2, 1),
    "reqallow": (2, 1),
    "reqdeny": (2, 1),
    "rspadd": (2, 1),
    "rsprep": (2, 1),
    "rspirep": (2, 1),
    "rspdel": (2, 1),
    "block": (2, 1),
    "appsession": (1, 6),
}
"""Directives with the first version that refuses them."""
HaproxyFindings = Iterator[tuple[HaproxyLine, str]]
HaproxyRule = LintRule[HaproxyTree, HaproxyLine]


needs_program = False
measurable: Mapping[str, Measurable] = {}


def lint_file(wishes: OwnOptions, facts: LintFacts, program: str) -> tuple[Finding, ...]:  # noqa: ARG001 - the port's
    """Implement ``Rules.lint_file``."""
    return lint(read(wishes.config), facts)


def lint_own(own: OwnConfiguration, facts: LintFacts) -> tuple[Finding, ...]:
    """Implement ``Rules.lint_own``."""
    return lint(own.serving.tree, facts) if isinstance(own, HaproxyOwnConfiguration) else ()


def lint(tree: HaproxyTree, facts: LintFacts) -> tuple[Finding, ...]:
    """Return the findings of all rules, in the order of the file."""
    found = [
        rule.finding(what, file=tree.file, line=line.number, place=" ".join(line.words))
        for rule in RULES
        for line, what in rule.check(tree, facts)
    ]
    return tuple(sorted(found, key=lambda each: each.line or 0))


def _number(line: HaproxyLine, at: int = 1) -> int | None:
    """Return the number at a place of a line; None if it has none."""
    word = line.words[at] if len(line.words) > at else ""
    return int(word) if re.fullmatch(r"-?[0-9]+", word) else None


def _after(line: HaproxyLine, option: str) -> str:
    """Return the word after an option of a line; empty without the option."""
    words = line.words
    at = words.index(option) + 1 if option in words else len(words)
    return words[at] if at < len(words) else ""


def _missing_timeouts(tree: HaproxyTree, _: LintFacts) -> HaproxyFindings:
    for section in tree.of(*PROXIES):
        sides = {"client": CLIENT_SIDE, "connect": SERVER_SIDE, "server": SERVER_SIDE}
        needed = [name for name, kinds in sides.items() if section.kind in kinds]
        missing = [name for name in needed if not section.has("timeout", name)]
        if missing:
            words = ", ".join(f"timeout {name}" for name in missing)
            yield section.head, f"{section.label} has no {words}"


def _no_request_timeout(tree: HaproxyTree, _: LintFacts) -> HaproxyFindings:
    for section in tree.of(*CLIENT_SIDE):
        slow = section.serves_http and not section.has("timeout", "http-request")
        if slow and section.has("timeout", "client"):
            yield section.head, f"{section.label} has no timeout http-request"


def _removed(tree: HaproxyTree, facts: LintFacts) -> HaproxyFindings:
    for section in tree.sections:
        for line in section.lines:
            gone = _REMOVED.get(line.words[0])
            if gone is not None and facts.version >= gone:
                version = ".".join(map(str, gone))
                yield line, f"{line.words[0]} does not exist since HAProxy {version}"


def _one_thread(tree: HaproxyTree, facts: LintFacts) -> HaproxyFindings:
    for line in tree.globals("nbthread"):
        if _number(line) == 1 and facts.cores > 1:
            yield line, f"one thread on {facts.cores} cores"


def _too_many_threads(tree: HaproxyTree, facts: LintFacts) -> HaproxyFindings:
    for line in tree.globals("nbthread"):
        if (_number(line) or 0) > facts.cores:
            yield line, f"{_number(line)} threads on {facts.cores} cores"


def _many_accepts(tree: HaproxyTree, _: LintFacts) -> HaproxyFindings:
    for line in tree.globals("tune.maxaccept"):
        number = _number(line)
        if number is not None and (number < 0 or number >= _MANY_ACCEPTS):
            yield line, "a thread accepts many connections before it serves any"


def _small_buffers(tree: HaproxyTree, _: LintFacts) -> HaproxyFindings:
    for line in tree.globals("tune.bufsize"):
        number = _number(line)
        if number is not None and number < _HTTP2_BUFFER:
            yield line, f"buffers of {number} bytes"


def _large_buffers(tree: HaproxyTree, _: LintFacts) -> HaproxyFindings:
    for line in tree.globals("tune.bufsize"):
        number = _number(line) or 0
        if number > 4 * _HTTP2_BUFFER:
            yield line, f"each connection that transfers holds two buffers of {number} bytes"


def _idle_pool_not_shared(tree: HaproxyTree, _: LintFacts) -> HaproxyFindings:
    servers = [
        line
        for section in tree.of("defaults", *SERVER_SIDE)
        for name in ("server", "default-server", "server-template")
        for line in section.own(name)
    ]
    if any("pool-low-conn" in line.words for line in servers):
        return
    for line in tree.globals("tune.idle-pool.shared", "off"):
        yield line, "threads do not share idle connections, and pool-low-conn is not set"


def _server_close(tree: HaproxyTree, _: LintFacts) -> HaproxyFindings:
    for section in tree.of("defaults", *PROXIES):
        for line in section.own("option", "http-server-close"):
            yield line, "the connection to the backend is closed after each answer"


def _close(tree: HaproxyTree, _: LintFacts) -> HaproxyFindings:
    for section in tree.of("defaults", *PROXIES):
        for name in ("httpclose", "forceclose"):
            for line in section.own("option", name):
                yield line, "every connection is closed after each answer, the client's too"


def _reuse_never(tree: HaproxyTree, _: LintFacts) -> HaproxyFindings:
    for section in tree.of("defaults", *SERVER_SIDE):
        for line in section.own("http-reuse", "never"):
            yield line, "clients never share connections to the backend"


def _no_http2(tree: HaproxyTree, facts: LintFacts) -> HaproxyFindings:
    for line in tree.bindings():
        without = "ssl" in line.words and "h2" not in (option_value(line, "alpn") or "").split(",")
        asked = "alpn" in line.words or facts.version < _ALPN_BY_DEFAULT
        if without and asked and not line.words[1].startswith("quic"):
            yield line, "clients are not offered HTTP/2"


def _backlog(tree: HaproxyTree, facts: LintFacts) -> HaproxyFindings:
    wanted = [
        (line, _number(line))
        for section in tree.of("defaults", *CLIENT_SIDE)
        for line in section.own("backlog")
    ]
    for line in tree.bindings():
        word = option_value(line, "backlog") or ""
        wanted.append((line, int(word) if word.isdigit() else None))
    for line, number in wanted:
        if number is not None and number > facts.somaxconn:
            yield line, f"a backlog of {number}; net.core.somaxconn is {facts.somaxconn}"


def _maxconn(tree: HaproxyTree, _: LintFacts) -> HaproxyFindings:
    limits = [number for line in tree.globals("maxconn") if (number := _number(line))]
    if not limits:
        return
    for section in tree.of("defaults", *CLIENT_SIDE):
        for line in section.own("maxconn"):
            if (_number(line) or 0) > limits[-1]:
                yield line, f"{_number(line)} connections, but {limits[-1]} for the whole process"


def _unchecked(tree: HaproxyTree, _: LintFacts) -> HaproxyFindings:
    for section in tree.of(*SERVER_SIDE):
        servers = [line for line in section.own("server") if "backup" not in line.words]
        checked = any("check" in line.words for line in section.all("default-server"))
        blind = [line for line in servers if "check" not in line.words and not checked]
        if len(servers) > 1 and blind:
            name = blind[0].words[1] if len(blind[0].words) > 1 else ""
            more = f" and {len(blind) - 1} more" if len(blind) > 1 else ""
            yield blind[0], f"{section.label} does not check server {name}{more}"


def _open_socket(tree: HaproxyTree, _: LintFacts) -> HaproxyFindings:
    for line in tree.globals("stats", "socket"):
        if len(line.words) < 3 or _after(line, "level") != "admin":
            continue
        address = line.words[2].removeprefix("unix@")
        local = address.startswith("/")
        if not local and not re.match(r"(ipv4@)?127\.|(ipv6@)?\[?::1\]?:|fd@|sockpair@", address):
            yield line, f"every client of {address} may steer HAProxy"
        elif local and re.search(r"[2367]$", _after(line, "mode")):
            yield (
                line,
                f"every account of this host may steer HAProxy (mode {_after(line, 'mode')})",
            )


def _open_page(tree: HaproxyTree, _: LintFacts) -> HaproxyFindings:
    for section in tree.of(*PROXIES):
        shown = [*section.own("stats", "uri"), *section.own("stats", "enable")]
        rules = ("stats", "auth"), ("stats", "http-request"), ("acl",), ("http-request", "deny")
        if shown and not any(section.has(*words) for words in rules):
            yield shown[0], f"the statistics of {section.label} need no password"


def _debug(tree: HaproxyTree, _: LintFacts) -> HaproxyFindings:
    for line in tree.globals("debug"):
        yield line, "every request is printed"


def _slow_events(tree: HaproxyTree, _: LintFacts) -> HaproxyFindings:
    for line in tree.globals("noepoll"):
        yield line, "epoll is switched off"


_TUNE = _DOCS + "3.2-"
_PROXY = _DOCS + "4.2-"
RULES: tuple[HaproxyRule, ...] = (
    HaproxyRule(
        "missing-timeouts",
        "wrong",
        _missing_timeouts,
        "A client or a backend that goes away without a word holds its connection forever",
        "timeout connect 5s, timeout client 50s, timeout server 50s in the defaults",
        _PROXY + "timeout%20client",
    ),
    HaproxyRule(
        "no-request-timeout",
        "costs",
        _no_request_timeout,
        "A client that sends its request byte by byte holds a connection (Slowloris)",
        "timeout http-request 10s in the defaults",
        _PROXY + "timeout%20http-request",
    ),
    HaproxyRule(
        "removed",
        "wrong",
        _removed,
        "HAProxy refuses a configuration with it",
        "threads instead of processes; http-request and http-response rules instead of req and rsp",
        _DOCS + "4.2-http-request",
    ),
    HaproxyRule(
        "one-thread",
        "costs",
        _one_thread,
        "The other cores stay idle; by default there is a thread on each",
        "remove nbthread",
        _DOCS + "3.1-nbthread",
    ),
    HaproxyRule(
        "more-threads-than-cores",
        "costs",
        _too_many_threads,
        "Threads that share a core wait for each other, also while they hold a lock",
        "remove nbthread",
        _DOCS + "3.1-nbthread",
    ),
    HaproxyRule(
        "many-accepts",
        "costs",
        _many_accepts,
        "Large values come from old configurations; answers wait while connections are accepted",
        "remove tune.maxaccept; the default is 4",
        _TUNE + "tune.maxaccept",
    ),
    HaproxyRule(
        "small-buffers",
        "wrong",
        _small_buffers,
        "HTTP/2 needs 16384 bytes, and larger heads are refused with status 400 or 502",
        "remove tune.bufsize",
        _TUNE + "tune.bufsize",
    ),
    HaproxyRule(
        "large-buffers",
        "costs",
        _large_buffers,
        "Memory grows with the connections, and the process may run out of it",
        "remove tune.bufsize; or lower the global maxconn by the same factor",
        _TUNE + "tune.bufsize",
    ),
    HaproxyRule(
        "idle-pool-not-shared",
        "wrong",
        _idle_pool_not_shared,
        "The more threads there are, the more often connections to backends are opened anew",
        "remove tune.idle-pool.shared; or set pool-low-conn on the servers",
        _TUNE + "tune.idle-pool.shared",
    ),
    HaproxyRule(
        "backend-connection-per-request",
        "costs",
        _server_close,
        "A connection for each request costs time and CPU on both hosts",
        "remove option http-server-close; connections are kept by default",
        _PROXY + "option%20http-server-close",
    ),
    HaproxyRule(
        "client-connection-per-request",
        "costs",
        _close,
        "Each request needs a new connection, under TLS with a handshake",
        "remove it; connections are kept by default",
        _PROXY + "option%20httpclose",
    ),
    HaproxyRule(
        "reuse-never",
        "costs",
        _reuse_never,
        "Each client needs connections to the backend of its own",
        "http-reuse safe; it is the default since 2.0",
        _PROXY + "http-reuse",
    ),
    HaproxyRule(
        "no-http2",
        "costs",
        _no_http2,
        "Browsers open six connections with a handshake each instead of one",
        "alpn h2,http/1.1 on the bind line",
        _DOCS + "5.1-alpn",
    ),
    HaproxyRule(
        "backlog-above-somaxconn",
        "wrong",
        _backlog,
        "The kernel silently uses the smaller number",
        "sysctl net.core.somaxconn of at least as much, or a smaller backlog",
        _PROXY + "backlog",
    ),
    HaproxyRule(
        "maxconn-above-global",
        "wrong",
        _maxconn,
        "The process stops accepting before a frontend reaches its own limit",
        "a global maxconn of at least the sum of the frontends'",
        _DOCS + "3.2-maxconn",
    ),
    HaproxyRule(
        "unchecked-servers",
        "costs",
        _unchecked,
        "A server that is down still gets its share of the requests",
        "check on each server line, or default-server check",
        _DOCS + "5.2-check",
    ),
    HaproxyRule(
        "open-admin-socket",
        "wrong",
        _open_socket,
        "At level admin, servers can be disabled and certificates replaced",
        "stats socket /run/haproxy/admin.sock mode 660 level admin",
        _MANAGEMENT + "9.3",
    ),
    HaproxyRule(
        "open-statistics",
        "costs",
        _open_page,
        "It shows the names and addresses of the backends to everybody",
        "stats auth, or an http-request rule with the addresses of operators",
        _PROXY + "stats%20auth",
    ),
    HaproxyRule(
        "debug",
        "wrong",
        _debug,
        "It is for debugging, and slows everything down",
        "remove debug; start haproxy -d where it is needed",
        _DOCS + "3.3-debug",
    ),
    HaproxyRule(
        "slow-events",
        "wrong",
        _slow_events,
        "epoll reports only connections with events, and HAProxy chooses it by default",
        "remove noepoll",
        _TUNE + "noepoll",
    ),
)
