"""The locations that answer a request: which one Nginx chooses for a path.

Prefixes, regular expressions, ``try_files``, ``error_page`` and ``index`` are followed.
https://nginx.org/en/docs/http/ngx_http_core_module.html#location
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tuner.own.nginx.tree import Directive
from tuner.workload.workload import BackendProtocol

PROTOCOLS: Mapping[str, BackendProtocol] = MappingProxyType(
    {
        "proxy_pass": "http",
        "grpc_pass": "grpc",
        "fastcgi_pass": "fastcgi",
        "uwsgi_pass": "uwsgi",
        "scgi_pass": "scgi",
    }
)
"""Directives that pass a request to a server behind this one, with its protocol, of those that the
lab can speak."""
PASSES = (*PROTOCOLS, "memcached_pass")
"""All directives that pass a request to a server behind this one."""
_VARIABLE = re.compile(r"\$\{?(request_uri|uri|is_args|args|query_string)\b\}?")
_SCHEME = re.compile(r"(?:https?|grpcs?|s?uwsgi|\$\w+)://")
_MOST_REWRITES = 10
"""Nginx ends a request with more."""
_MODIFIERS = ("=", "~", "~*", "^~")


def effective(chain: Sequence[Directive], *names: str) -> tuple[Directive, ...]:
    """Return the directives of these names on the innermost level that has any: what holds there.

    https://nginx.org/en/docs/dev/development_guide.html#http_conf
    """
    for block in reversed(chain):
        found = tuple(block.children(*names))
        if found:
            return found
    return ()


def innermost(chain: Sequence[Directive]) -> Directive:
    """Return the innermost block for further directives, which an ``if`` hardly takes any of."""
    return next(block for block in reversed(chain) if block.name != "if")


def leaves(rewrite: Directive) -> bool:
    """Return whether a ``rewrite`` sends the client to another address."""
    return rewrite.args[2:] in (("permanent",), ("redirect",)) or is_url(rewrite.args[1])


def is_url(target: str) -> bool:
    """Return whether a target names a host."""
    return target.startswith(("http://", "https://", "$scheme://"))


def turns_away(condition: Directive) -> bool:
    """Return whether an ``if`` or ``limit_except`` answers some requests otherwise than a page."""
    return (
        any(not found.args[0].startswith("2") for found in condition.children("return"))
        or any(map(leaves, condition.children("rewrite")))
        or any(True for _ in condition.children("deny"))
    )


def route(server: Directive, path: str, *, proxied: bool) -> tuple[Directive, ...]:
    """Return the locations around a path's answer, outermost first."""
    path = _rewritten(server, path) or path
    chain = _match(server, path)
    for _ in range(_MOST_REWRITES):
        rewritten = _rewritten(chain[-1] if chain else server, path)
        if rewritten is None and proxied:
            # A named location may rewrite too.
            behind = _behind(server, chain, path)
            rewritten = _rewritten(behind[-1], path) if behind != chain else None
            chain = behind if rewritten is None else chain
        if rewritten is None:
            break
        path = rewritten
        chain = _match(server, path)
    if not proxied and path.endswith("/"):
        # `index` redirects inside, and the file's own location answers.
        chain = _match(server, f"{path}index.html")
    return chain


def _rewritten(block: Directive, path: str) -> str | None:
    """Return the path for which ``rewrite`` looks for another location; None without."""
    new = path
    for found in block.children("rewrite"):
        pattern, target, *flag = found.args
        matched = _search(pattern, new) if target.startswith("/") else None
        if matched is None:
            continue
        # Those of a server come before its locations, so that `break` looks for one too.
        if flag not in ([], ["last"]) and (flag != ["break"] or block.name != "server"):
            return None
        filled = _filled_in(_filled(target, ("", *matched.groups(""))), new)
        if "$" in filled:
            return None
        new = filled
        if flag:
            break
    return None if new == path else new


def _filled_in(target: str, path: str) -> str:
    """Return the path of a target with variables of the request, which has no query string."""
    values = {"request_uri": path, "uri": path}
    return _VARIABLE.sub(lambda at: values.get(at[1], ""), target).partition("?")[0]


def _filled(target: str, groups: Sequence[str]) -> str:
    """Return the target of a rewrite with its groups; missing ones are empty."""
    numbers = dict(enumerate(groups))
    return re.sub(r"\$(\d)", lambda at: numbers.get(int(at[1]), ""), target)


def _search(pattern: str, path: str, flags: int = 0) -> re.Match[str] | None:
    """Return the match of an expression of PCRE; None also for what Python cannot read."""
    try:
        # PCRE names groups as Python does with a P.
        return re.search(re.sub(r"\(\?<(?![=!])", "(?P<", pattern), path, flags)
    except re.error:
        return None


def _behind(server: Directive, chain: tuple[Directive, ...], path: str) -> tuple[Directive, ...]:
    """Return the fallback of ``try_files`` or ``error_page`` where a server behind this answers."""
    inner = (server, *chain)
    if any(True for _ in inner[-1].children(*PASSES)):
        return chain
    for condition in inner[-1].children("if"):
        # `if (!-f $request_filename) { proxy_pass … }`: nothing else is a file in the lab.
        asked = " ".join(condition.args).lstrip("( ")
        missing = asked.startswith(("!-f", "!-e", "!-d"))
        if missing and any(True for _ in condition.children(*PASSES)):
            return (*chain, condition)
    fallbacks = [found.args[-1] for found in effective(inner, "try_files")]
    refused = [found.args[0] for found in inner[-1].children("return") if found.args]
    # A missing file is a 404; `return 418` is a common jump to a named location.
    codes = {"404", *refused}
    fallbacks += [
        found.args[-1] for found in effective(inner, "error_page") if codes & set(found.args[:-1])
    ]
    for last in fallbacks:
        for location in server.children("location"):
            if last.startswith("@") and location.args == (last,):
                return (location,)
        if last.startswith("/"):
            there = _match(server, _filled_in(last, path))
            if there and any(True for _ in there[-1].children(*PASSES)):
                return there
    return chain


def _match(block: Directive, path: str) -> tuple[Directive, ...]:
    """The location that Nginx chooses (ngx_http_core_find_location), with those around it."""
    locations = [Location.of(found) for found in block.children("location")]
    for location in locations:
        if location.modifier == "=" and location.pattern == path:
            return (location.directive,)
    prefixes = [
        location
        for location in locations
        if location.modifier in ("", "^~") and path.startswith(location.pattern)
    ]
    longest = max(prefixes, key=lambda location: len(location.pattern), default=None)
    inner: tuple[Directive, ...] = ()
    if longest is not None:
        inner = _match(longest.directive, path)
        settled = longest.modifier == "^~" or any(Location.of(f).is_regex for f in inner[-1:])
        if settled:
            return (longest.directive, *inner)
    for location in locations:
        if location.is_regex and location.matches(path):
            return (location.directive, *_match(location.directive, path))
    return () if longest is None else (longest.directive, *inner)


@dataclass(frozen=True, slots=True)
class Location:
    """A ``location`` block with its modifier and pattern apart."""

    directive: Directive
    modifier: str
    pattern: str

    @classmethod
    def of(cls, directive: Directive) -> Location:
        """Return the location of a block."""
        args = directive.args
        if len(args) > 1:
            return cls(directive, args[0], args[1])
        text = args[0] if args else ""
        # The modifier may touch its pattern: `location =/x`, `location ~*\.png$`.
        for modifier in sorted(_MODIFIERS, key=len, reverse=True):
            if text.startswith(modifier):
                return cls(directive, modifier, text.removeprefix(modifier))
        return cls(directive, "", text)

    @property
    def is_regex(self) -> bool:
        """True if its pattern is a regular expression."""
        return self.modifier.startswith("~")

    def matches(self, path: str) -> bool:
        """Return whether the regular expression matches a path."""
        flags = re.IGNORECASE if self.modifier == "~*" else 0
        return _search(self.pattern, path, flags) is not None


def passed(block: Directive) -> Directive | None:
    """Return the directive of a location that passes requests on; None without."""
    return next(block.children(*PASSES), None)


def target_of(found: Directive) -> tuple[str, str]:
    """Return the scheme of a directive that passes requests on, and the rest of its target."""
    scheme = _SCHEME.match(found.args[0])
    end = scheme.end() if scheme else 0
    return found.args[0][:end], found.args[0][end:]


def protocol_of(chain: Sequence[Directive]) -> BackendProtocol | None:
    """Return the protocol of the server behind the end of a chain, if the lab can speak it."""
    found = passed(chain[-1])
    return PROTOCOLS.get(found.name) if found else None
