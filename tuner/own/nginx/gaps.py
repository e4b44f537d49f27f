"""The parts of a configuration that a build of Nginx cannot read, found by its messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tuner.own.nginx.tree import Directive, walk

_UNKNOWN = re.compile(r'unknown directive "([^"]+)"|"(aio) \w+" is unsupported')
"""Messages about a missing module, and about unsupported asynchronous reads."""
_UNSET = re.compile(r'unknown "(\w+)" variable')
_UNREADABLE = re.compile(r'"(/[^"]+)" failed \((?:SSL|\d+): |module "([^"]+)" (?:is not|version)')
"""Messages about a file that is missing or not for this build."""
_PARAMETER = re.compile(r'invalid parameter "([^"]+)"')
_EVENT_TYPE = re.compile(r'invalid event type "([^"]+)"')
"""Messages about an option of another build, and about another system's way to wait."""
_OPTIONS = frozenset(
    (
        *("http2", "multipath", "quic", "spdy"),
        *("drain", "max_conns", "resolve", "route", "service", "slow_start", "sid", "id"),
        *("purger", "purger_files", "purger_sleep", "purger_threshold", "use_temp_path"),
        *("single", "delay", "sync", "state", "updating"),
    )
)
"""Names of options that only newer or commercial builds have, from the documentation of Nginx.

Any other unknown word is a mistake, such as the next directive after a forgotten semicolon."""
_TLS = re.compile(r'SSL_\w+\("([^"]+)"(?:, "([^"]+)")?\) failed')
"""Messages about curves, ciphers and commands of another TLS library; they have no line."""


@dataclass(frozen=True, slots=True)
class NginxGaps:
    """The parts of a configuration that a build of Nginx cannot read, found by trying."""

    directives: frozenset[str] = frozenset()
    """Names of directives that it does not support."""
    variables: frozenset[str] = frozenset()
    """Names of variables that nothing in it sets."""
    places: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """Directives that it refuses for what they need, with the reason, by their ``key``."""
    words: frozenset[tuple[tuple[str, int], str]] = frozenset()
    """Arguments that it does not know, with the ``key`` of their directive."""

    def __len__(self) -> int:
        """Return the number of gaps."""
        return len(self.directives) + len(self.variables) + len(self.places) + len(self.words)


def more_gaps(gaps: NginxGaps, message: str, where: Directive | None) -> NginxGaps | None:
    """Return the gaps with the one of a message; None if it is a mistake of the configuration.

    Args:
        gaps: the known ones.
        message: of Nginx.
        where: the user's directive at its line; None if it has none.
    """
    unknown = _UNKNOWN.search(message)
    if unknown:
        return replace(gaps, directives=gaps.directives | {unknown.group(1) or unknown.group(2)})
    unset = _UNSET.search(message)
    if unset and unset.group(1) not in gaps.variables:
        return replace(gaps, variables=gaps.variables | {unset.group(1)})
    if where is None:
        return None
    option = _PARAMETER.search(message)
    word = option.group(1) if option else ""
    if word in where.args and word.partition("=")[0] in _OPTIONS:
        at = (where.key, word)
        return None if at in gaps.words else replace(gaps, words=gaps.words | {at})
    reason = _needed(message)
    if reason and where.key not in gaps.places:
        return replace(gaps, places={**gaps.places, where.key: reason})
    return None


def of_tls(message: str, directives: Iterable[Directive]) -> Directive | None:
    """Return the directive that a TLS library refuses; None for another message."""
    said = _TLS.search(message)
    words = tuple(word for word in said.groups() if word) if said else ()
    named = (found for found in walk(directives) if found.args == words)
    return next((found for found in named if words and "ssl" in found.name), None)


def _needed(message: str) -> str:
    """Return why this build cannot have a directive; empty for a mistake of the configuration."""
    missing = _UNREADABLE.search(message)
    if missing:
        return f"{missing.group(1) or missing.group(2)} cannot be read by this build of Nginx"
    if _TLS.search(message):
        return "the TLS library of this build of Nginx refuses it"
    return "this system does not have it" if _EVENT_TYPE.search(message) else ""
