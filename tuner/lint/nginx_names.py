"""Rules for names in Nginx's configurations: unknown directives, and servers that nobody asks."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from tuner.lint.finding import LintFacts
from tuner.lint.nginx_directives import DIRECTIVES
from tuner.lint.nginx_rule import DOCS, NginxFindings, NginxRule
from tuner.own.nginx.serving import address_of
from tuner.own.nginx.tree import OWN_NAMES, Directive, Tree

_MODULES = ("lua_", "js_", "subs_filter", "geoip2", "more_", "brotli", "zstd", "echo")
"""Beginnings of names of widespread modules that are not part of Nginx."""
_CLOSE = 0.85
"""Similarity of a misspelt name; names of other modules are less similar."""


def _unknown(tree: Tree, _: LintFacts) -> NginxFindings:
    for found in _named(tree.directives):
        name = found.name
        if name in DIRECTIVES or name.startswith(_MODULES) or "_by_lua" in name:
            continue
        close = get_close_matches(found.name, DIRECTIVES, 1, _CLOSE)
        if close:
            yield found, f"{found.name} is not a directive; did you mean {close[0]}?"


def _named(directives: tuple[Directive, ...]) -> Iterator[Directive]:
    """Yield the directives with names of Nginx's."""
    for found in directives:
        yield found
        if found.name not in OWN_NAMES:
            yield from _named(found.block or ())


def _ignored_servers(tree: Tree, _: LintFacts) -> NginxFindings:
    for http in tree.children("http"):
        first: dict[tuple[str, str], Directive] = {}
        for server in http.children("server"):
            listens = [one.args[0] for one in server.children("listen") if one.args]
            for address in dict.fromkeys(map(address_of, listens or ["80"])):
                for directive in server.children("server_name"):
                    for name in dict.fromkeys(directive.args):
                        other = first.setdefault((address, name), server)
                        if other is not server:
                            said = f"{name} at {address} is the server at {other.where} already"
                            yield directive, said


RULES: tuple[NginxRule, ...] = (
    NginxRule(
        "unknown-directive",
        "wrong",
        _unknown,
        "Nginx refuses a configuration with a directive that it does not know",
        "write the name as the documentation has it",
        DOCS + "dirindex.html",
    ),
    NginxRule(
        "ignored-server",
        "wrong",
        _ignored_servers,
        "Of several servers with one name at one address, Nginx asks the first only",
        "remove one of them, or give it another name",
        DOCS + "http/server_names.html",
    ),
)
