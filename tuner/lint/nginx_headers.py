"""Rules for Nginx's response headers, and for ``if`` in locations."""

from __future__ import annotations

from tuner.lint.finding import LintFacts
from tuner.lint.nginx_rule import DOCS, NginxFindings, NginxRule
from tuner.lint.nginx_scope import spots
from tuner.own.nginx.tree import Directive, Tree

_HEADERS = DOCS + "http/ngx_http_headers_module.html#add_header"
_REWRITE = DOCS + "http/ngx_http_rewrite_module.html#if"
_SAFE_IN_IF = ("return", "rewrite", "set", "break", "limit_rate", "access_log", "error_log")
"""Directives that end a request in an ``if``, or set a value only."""
_MOST_NAMED = 3


def _dropped_headers(tree: Tree, _: LintFacts) -> NginxFindings:
    for spot in spots(tree, "server", "location", "if"):
        block = spot.directive.block
        if block is None:
            continue
        own = {one.args[0].lower() for one in block if one.name == "add_header" and one.args}
        outer = spot.all_of("add_header")
        lost = [one for one in outer if one.args and one.args[0].lower() not in own]
        if own and lost:
            names = ", ".join(dict.fromkeys(one.args[0] for one in lost[:_MOST_NAMED]))
            more = f" and {len(lost) - _MOST_NAMED} more" if len(lost) > _MOST_NAMED else ""
            first = next(one for one in block if one.name == "add_header")
            said = f"answers of this {spot.directive.name} lack {names}{more} of an outer block"
            yield first, said


def _content_in_if(tree: Tree, _: LintFacts) -> NginxFindings:
    for spot in spots(tree, "if"):
        inside = [one for one in spot.directive.block or () if one.name not in _SAFE_IN_IF]
        ends = any(one.name in ("return", "rewrite") for one in spot.directive.block or ())
        if len(spot.levels) < 2 or not _is_location(spot.levels[-2], spot.levels[-1]):
            continue
        if any(one.name == "try_files" for one in spot.levels[-1]) and not ends:
            yield spot.directive, "requests that this if matches skip the try_files of the location"
        elif inside and not ends:
            said = f"{inside[0].name} in an if of a location"
            yield spot.directive, said


def _is_location(outer: tuple[Directive, ...], inner: tuple[Directive, ...]) -> bool:
    return any(one.name == "location" and one.block == inner for one in outer)


RULES: tuple[NginxRule, ...] = (
    NginxRule(
        "headers-not-inherited",
        "wrong",
        _dropped_headers,
        "If a block has any add_header, it inherits none of the outer ones",
        "repeat the outer headers there, best with an include in both blocks; since 1.29.3:"
        " add_header_inherit merge;",
        _HEADERS,
    ),
    NginxRule(
        "if-with-content",
        "wrong",
        _content_in_if,
        "An if is a location of its own: the last one that matches answers, without the headers and"
        " try_files next to it",
        "only return and rewrite in an if; a map with a variable for values",
        _REWRITE,
    ),
)
