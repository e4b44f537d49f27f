"""Rules for Nginx's handling of requests: connections, files, compression and logs."""

from __future__ import annotations

import re

from tuner.lint.finding import LintFacts
from tuner.lint.nginx_rule import CORE, DOCS, HTTP, NginxFindings, NginxRule
from tuner.lint.nginx_scope import ScopedDirective, inside, number, option, spots
from tuner.own.nginx.tree import Directive, Tree

_MORE_REQUESTS = (1, 19, 10)
_FEW_REQUESTS = 1000
_HIGH_LEVEL = 6
_SMALL_BYTES = 512 << 10
"""Smaller files are read at once, and from the page cache if they are requested often."""
_MANY_LINES_PER_S = 200
_COMPRESSED = re.compile(
    r"(?:image/(?!svg|x-icon|vnd\.microsoft\.icon|bmp).*|video/.*|audio/.*"
    r"|(?:font/|application/(?:x-)?font-)woff2?|application/(?:zip|gzip|x-gzip|x-7z-compressed|pdf))"
)
"""Media types that are compressed already; SVG, icons and plain fonts are not."""
_SIZE = re.compile(r"(\d+)([kmg]?)", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def _few_requests(tree: Tree, facts: LintFacts) -> NginxFindings:
    for spot in spots(tree, "keepalive_requests"):
        limit = number(spot.directive)
        if limit is not None and limit < _FEW_REQUESTS:
            yield spot.directive, f"a connection is closed after {limit} requests"
    if facts.version < _MORE_REQUESTS:
        for http in tree.children("http"):
            if next(spots(tree, "keepalive_requests"), None) is None:
                yield http, "a connection is closed after 100 requests, this version's default"


def _no_keepalive(tree: Tree, _: LintFacts) -> NginxFindings:
    for spot in spots(tree, "keepalive_timeout"):
        value = spot.directive.args[0] if spot.directive.args else ""
        upstream = any(one.name == "server" for one in spot.levels[-1] if one.block is None)
        if value in ("0", "0s") and not upstream:
            yield spot.directive, "every request needs its own connection"


def _small_directio(tree: Tree, _: LintFacts) -> NginxFindings:
    for spot in spots(tree, "directio"):
        size = _SIZE.fullmatch(spot.directive.args[0]) if spot.directive.args else None
        if size and int(size[1]) * _UNITS[size[2].lower()] < _SMALL_BYTES:
            yield spot.directive, f"files of {size[0]} and more bypass the page cache"


def _nopush(tree: Tree, _: LintFacts) -> NginxFindings:
    for spot in spots(tree, "tcp_nopush"):
        if spot.directive.args == ("on",) and not spot.has("sendfile", "on"):
            block = Directive("", (), "", 0, spot.levels[-1])
            below = inside(block, ScopedDirective(block, spot.levels[:-1]), "sendfile")
            if not any(one.directive.args == ("on",) for one in below):
                yield spot.directive, "tcp_nopush without sendfile"


def _nodelay(tree: Tree, _: LintFacts) -> NginxFindings:
    for spot in spots(tree, "tcp_nodelay"):
        # As one stream, header and file have no small packet before the last one.
        pushed = spot.has("sendfile", "on") and spot.has("tcp_nopush", "on")
        if spot.directive.args == ("off",) and not pushed:
            yield spot.directive, "the end of an answer waits for the client's acknowledgement"


def _high_level(tree: Tree, _: LintFacts) -> NginxFindings:
    for spot in spots(tree, "gzip_comp_level"):
        level = number(spot.directive)
        if level is not None and level > _HIGH_LEVEL:
            yield spot.directive, f"compression at level {level}"


def _compressed_twice(tree: Tree, _: LintFacts) -> NginxFindings:
    for spot in spots(tree, "gzip_types"):
        if "*" in spot.directive.args:
            yield spot.directive, "pictures, archives and videos are compressed again"
        named = [word for word in spot.directive.args if _COMPRESSED.fullmatch(word)]
        if named:
            yield spot.directive, f"compressed a second time: {', '.join(named)}"


def _html_only(tree: Tree, _: LintFacts) -> NginxFindings:
    for spot in spots(tree, "gzip"):
        block = Directive("", (), "", 0, spot.levels[-1])
        below = inside(block, ScopedDirective(block, spot.levels[:-1]), "gzip_types")
        said = spot.one("gzip_types") or next(below, None)
        if spot.directive.args == ("on",) and said is None:
            yield spot.directive, "gzip without gzip_types compresses text/html alone"


def _unbuffered_log(tree: Tree, facts: LintFacts) -> NginxFindings:
    for spot in spots(tree, "access_log"):
        path = spot.directive.args[0] if spot.directive.args else ""
        rate = facts.log_rates_per_s.get(path, 0.0)
        if rate >= _MANY_LINES_PER_S and option(spot.directive, "buffer") is None:
            yield spot.directive, f"{rate:,.0f} lines per second are written one by one"


def _log_per_request(tree: Tree, _: LintFacts) -> NginxFindings:
    for spot in spots(tree, "access_log"):
        named = spot.directive.args[:1]
        cached = spot.one("open_log_file_cache")
        if named and "$" in named[0] and (cached is None or cached.args == ("off",)):
            yield spot.directive, "a log with a variable in its name is opened for every line"


def _debug_log(tree: Tree, _: LintFacts) -> NginxFindings:
    for spot in spots(tree, "error_log"):
        if spot.directive.args[1:] == ("debug",):
            yield spot.directive, "dozens of lines are written for every request"


RULES: tuple[NginxRule, ...] = (
    NginxRule(
        "gzip-html-only",
        "costs",
        _html_only,
        "Scripts, styles and JSON are sent as they are, at several times the size",
        "gzip_types text/css application/javascript application/json image/svg+xml; and other text",
        DOCS + "http/ngx_http_gzip_module.html#gzip_types",
    ),
    NginxRule(
        "unbuffered-log",
        "costs",
        _unbuffered_log,
        "Each line is a system call of the worker",
        "access_log … buffer=64k flush=1s; a crash then loses up to one second of lines",
        DOCS + "http/ngx_http_log_module.html#access_log",
    ),
    NginxRule(
        "few-keepalive-requests",
        "costs",
        _few_requests,
        "Each close costs the client a connection and a handshake, which is visible at p99.9",
        "keepalive_requests 1000; or more",
        HTTP + "keepalive_requests",
    ),
    NginxRule(
        "no-keepalive",
        "costs",
        _no_keepalive,
        "Every answer needs a handshake, and under TLS a second one",
        "keepalive_timeout 75s; or what clients need",
        HTTP + "keepalive_timeout",
    ),
    NginxRule(
        "nopush-without-sendfile",
        "wrong",
        _nopush,
        "It affects only packets of sendfile, and has no effect without it",
        "sendfile on;",
        HTTP + "tcp_nopush",
    ),
    NginxRule(
        "directio-of-small-files",
        "costs",
        _small_directio,
        "Each request reads the disk again, in the worker, and sendfile is off for such files",
        "directio 4m; or more, or remove it",
        HTTP + "directio",
    ),
    NginxRule(
        "nodelay-off",
        "wrong",
        _nodelay,
        "Small answers wait for up to 40 ms (Nagle's algorithm against delayed acknowledgements)",
        "remove it; the default is on",
        HTTP + "tcp_nodelay",
    ),
    NginxRule(
        "high-compression",
        "costs",
        _high_level,
        "Above about 5 each level costs much time and saves few bytes",
        "gzip_comp_level 5; or less, or precompressed files (gzip_static)",
        DOCS + "http/ngx_http_gzip_module.html#gzip_comp_level",
    ),
    NginxRule(
        "compressed-twice",
        "costs",
        _compressed_twice,
        "They cost as much time as text, and do not get smaller",
        "gzip_types with the served types of text",
        DOCS + "http/ngx_http_gzip_module.html#gzip_types",
    ),
    NginxRule(
        "log-opened-per-request",
        "costs",
        _log_per_request,
        "Each line costs an open and a close in addition to the write",
        "open_log_file_cache max=100;",
        DOCS + "http/ngx_http_log_module.html#open_log_file_cache",
    ),
    NginxRule(
        "debug-log",
        "wrong",
        _debug_log,
        "It is for debugging, and slows everything down",
        "error_log … warn;",
        CORE + "error_log",
    ),
)
