"""The user's HAProxy in the lab: what of a configuration is carried over, and how.

The frontend listens at the lab's address with the lab's certificate, every server is the lab's
backend, and everything that belongs to the user's host is left out. Rules, conditions, timeouts and
settings stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tuner.own.haproxy.line_options import KEPT_BY_BIND, KEPT_BY_SERVER, HaproxyOption, options
from tuner.own.haproxy.serving import HaproxyServing
from tuner.own.haproxy.table import logs
from tuner.own.haproxy.tree import PROXIES, HaproxySection
from tuner.reading.haproxy_text import HaproxyLine
from tuner.servers.haproxy import SITE, SOCKET, quote_haproxy
from tuner.workload.wire import WireProtocol

_GLOBALS = {
    **dict.fromkeys(("chroot", "user", "group", "uid", "gid", "unix-bind"), ""),
    **dict.fromkeys(("daemon", "master-worker", "mworker-max-reloads", "pidfile"), ""),
    **dict.fromkeys(("log", "log-send-hostname", "log-tag", "stats", "localpeer", "node"), ""),
    **dict.fromkeys(("description", "hard-stop-after", "grace", "close-spread-time"), ""),
    **dict.fromkeys(("ca-base", "crt-base", "issuers-chain-path", "ssl-load-extra-files"), ""),
    "cpu-map": "the lab has CPUs of its own",
    "thread-groups": "the lab has CPUs of its own",
    "thread-group": "the lab has CPUs of its own",
    "numa-cpu-mapping": "the lab has CPUs of its own",
    "ulimit-n": "the lab sets the limit of open files",
    "maxconn": "the lab's limit of open files decides",
    "external-check": "the lab checks no servers",
    "insecure-setuid-wanted": "",
    "prealloc-fd": "",
}
"""Global settings that are left out, with the reason if a user would miss them."""
_LEFT_OUT = {
    **dict.fromkeys(("log", "log-tag", "unique-id-format", "email-alert", "bind-process"), ""),
    **dict.fromkeys(("stats", "id", "guid", "description"), ""),
    "source": "the lab's backend is on the loopback",
    "use-server": "all servers are the lab's backend",
    "dispatch": "the lab's backend answers",
    "filter": "the lab has no agent that it could ask",
    "http-check": "the lab checks no servers",
    "option external-check": "the lab checks no servers",
    "option httpchk": "the lab checks no servers",
    "option tcp-check": "the lab checks no servers",
    "tcp-check": "the lab checks no servers",
    "rate-limit": "it would refuse the load",
}
"""Lines of proxies that are left out, likewise."""
_KEPT_SECTIONS = frozenset(("cache", "http-errors", "userlist"))
"""Sections that rules of proxies may refer to."""
_FORMATS = tuple(("option", name) for name in ("httplog", "httpslog", "tcplog"))
_FILE = re.compile(r"^/[^\s,(){}]+$")
_WITH_FILE = frozenset(
    ("errorfile", "http-error", "lua-load", "lua-load-per-thread", "ssl-dh-param-file")
)


@dataclass(frozen=True, slots=True)
class HaproxyLabSlot:
    """The environment of an instance in the lab."""

    address: str
    """``127.0.0.1:18080``."""
    backends: tuple[str, ...]
    """Addresses of the lab's backends; empty to keep the user's servers."""
    tls_dir: str
    """Folder of the lab's certificate; empty for cleartext."""
    protocol: WireProtocol
    live_path: str
    token: str
    readable: Callable[[str], bool]
    """True if the instance may read a file."""


@dataclass(frozen=True, slots=True)
class HaproxyLabConfiguration:
    """A configuration of the lab, with the lines that it came from."""

    text: str
    lines: tuple[int, ...]
    """Line of the user's file for each line; 0 for the lab's own."""
    notes: tuple[str, ...]


def carry(serving: HaproxyServing, slot: HaproxyLabSlot) -> HaproxyLabConfiguration:
    """Return a configuration adapted to the lab.

    Args:
        serving: the frontend and the backends of the configuration.
        slot: place of the instance.
    """
    builder = _Builder(serving, slot)
    rows = list(builder.rows())
    return HaproxyLabConfiguration(
        "".join(f"{text}\n" for _, text in rows),
        tuple(number for number, _ in rows),
        tuple(dict.fromkeys(builder.notes)),
    )


LabRow = tuple[int, str]
"""A line of the user's file, or 0, and the text in the lab."""


@dataclass
class _Builder:
    serving: HaproxyServing
    slot: HaproxyLabSlot
    notes: list[str] = field(default_factory=list)
    servers: int = 0
    """Number of servers so far, which take the lab's backends in turn."""

    @cached_property
    def logged(self) -> bool:
        """True if the user's HAProxy logs requests."""
        return logs(self.serving) == "on"

    def rows(self) -> Iterator[LabRow]:
        """Yield the lines of the lab's configuration."""
        head = self.serving.frontend.head.words
        left = 0
        yield from self._global()
        for section in self.serving.tree.sections:
            kind = section.kind
            if kind == "global":
                continue
            if kind == "defaults" or section.head.words == head or kind == "backend":
                yield from self._proxy(section)
            elif kind in _KEPT_SECTIONS or (kind == "resolvers" and not self.slot.backends):
                yield self._same(section.head)
                yield from (self._same(line) for line in section.lines if self._stays(line, {}))
            elif kind in PROXIES:
                left += 1
        if left:
            others = f"{left} others are not" if left > 1 else "another one is not"
            self.notes.append(
                f"{self.serving.where}: {self.serving.frontend.label} is served; {others}"
                " (--server-name)"
            )

    def _global(self) -> Iterator[LabRow]:
        slot = self.slot
        yield 0, "global"
        yield 0, _written(("description", slot.token))
        # Relative to the instance's folder, since a socket's path ends after 108 bytes (unix(7)).
        yield 0, f"\tstats socket unix@{SOCKET} mode 600 level user"
        for section in self.serving.tree.of("global"):
            for line in section.lines:
                if self._stays(line, _GLOBALS):
                    yield self._same(line)

    def _stays(self, line: HaproxyLine, left_out: dict[str, str]) -> bool:
        """Return whether a line is carried over; note why not, if a user would miss it."""
        words = line.words[1:] if line.words[0] in {"no", "default"} else line.words
        for name in (words[0], " ".join(words[:2])):
            if name in left_out:
                if left_out[name]:
                    self._note(line, f"{name} is not carried over: {left_out[name]}")
                return False
        if words[0] in _WITH_FILE:
            for word in words[1:]:
                if _FILE.match(word) and not self.slot.readable(word):
                    self._note(line, f"{words[0]} is not carried over: {word} cannot be read")
                    return False
        return True

    def _same(self, line: HaproxyLine) -> LabRow:
        """Return a line as it stands in the file; only HAProxy knows its own environment."""
        return line.number, self.serving.tree.raw(line)

    def _note(self, line: HaproxyLine, words: str) -> None:
        self.notes.append(f"{self.serving.tree.file}:{line.number}: {words}")

    def _proxy(self, section: HaproxySection) -> Iterator[LabRow]:
        """Yield the lines of a section of defaults, the frontend, or a backend."""
        yield self._same(section.head)
        if section.head.words == self.serving.frontend.head.words:
            yield from self._frontend(section)
        for line in section.lines:
            name = line.words[0]
            if name in {"server", "server-template", "default-server"}:
                yield from self._server(line)
            elif name == "stick-table" and "peers" in line.words:
                yield line.number, _written(_without(line.words, "peers", 2))
            elif not self.logged and (name == "log-format" or line.words[:2] in _FORMATS):
                continue
            elif name != "bind" and self._stays(line, _LEFT_OUT):
                yield self._same(line)

    def _frontend(self, section: HaproxySection) -> Iterator[LabRow]:
        slot = self.slot
        yield from self._bind(section)
        if self.logged:
            yield 0, "\tlog fd@4 format raw local0"
        else:
            yield 0, "\tlog fd@3 format raw local0"
            yield 0, "\toption dontlog-normal"
            yield 0, f"\tlog-format {quote_haproxy(FAILURE)}"
        answer = ("http-request", "return", "status", "200", "content-type", "text/plain", "string")
        condition = ("if", "{", "path", slot.live_path, "}")
        yield 0, _written((*answer, slot.token, *condition))

    def _bind(self, section: HaproxySection) -> Iterator[LabRow]:
        """Yield the address of the lab with the options of the user's."""
        address, slot = self.slot.address, self.slot
        lines = [line for line in section.own("bind") if _is_first(line, self.serving.bindings)]
        for line in lines[:1]:
            kept, lost = _sorted(line, KEPT_BY_BIND)
            mine = ("crt", "crt-list", "interface", "name", "v4v6", "v6only", "strict-sni")
            missed = [each.name for each in lost if each.name not in mine]
            if missed:
                self._note(line, f"bind {', '.join(missed)} is not carried over to the lab")
            if any(each.name in ("crt", "crt-list") for each in lost):
                self._note(line, "crt is the lab's own certificate")
            certificate = ("crt", f"{slot.tls_dir}/{SITE}") if slot.tls_dir else ()
            words = ("bind", address, *_words_of(line, kept), *certificate)
            yield line.number, _written(words)
        if slot.protocol == "http3":
            words = ("bind", f"quic4@{address}", "ssl", "crt", f"{slot.tls_dir}/{SITE}")
            yield 0, _written((*words, "alpn", "h3"))

    def _server(self, line: HaproxyLine) -> Iterator[LabRow]:
        """Yield a server that is one of the lab's backends, with the options of the user's."""
        if not self.slot.backends:
            yield self._same(line)
            return
        kind, *words = line.words
        kept, lost = _sorted(line, KEPT_BY_SERVER)
        if kind == "default-server":
            if kept:
                yield line.number, _written((kind, *_words_of(line, kept)))
            return
        if any(each.name == "ssl" for each in lost):
            self._note(line, "the lab's backend is asked in cleartext")
        name = f"{words[0]}1" if kind == "server-template" else words[0]
        address = self.slot.backends[self.servers % len(self.slot.backends)]
        self.servers += 1
        yield line.number, _written(("server", name, address, *_words_of(line, kept)))


FAILURE = "%b/%s: no answer: status %ST, termination state %ts, connect %Tc ms, retries %rc"
"""Log line of a failed request, without its contents."""


def _is_first(line: HaproxyLine, chosen: Sequence[HaproxyLine]) -> bool:
    """Return whether a line is the first of these, with other values perhaps."""
    return bool(chosen) and line.words[:2] == chosen[0].words[:2]


def _sorted(
    line: HaproxyLine, names: frozenset[str]
) -> tuple[list[HaproxyOption], list[HaproxyOption]]:
    """Return the options that are carried over, and the others."""
    found = list(options(line.words))
    kept = [each for each in found if each.name in names]
    return kept, [each for each in found if each.name not in names]


def _words_of(line: HaproxyLine, kept: Sequence[HaproxyOption]) -> tuple[str, ...]:
    return tuple(word for each in kept for word in line.words[each.at : each.at + each.length])


def _without(words: Sequence[str], name: str, length: int) -> tuple[str, ...]:
    """Return the words without an option and its value."""
    if name not in words:
        return tuple(words)
    at = list(words).index(name)
    return (*words[:at], *words[at + length :])


def _written(words: Sequence[str]) -> str:
    """Write a line of a section; a variable of the environment stays one."""
    return "\t" + " ".join(map(_word, words))


def _word(text: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"' if "$" in text else quote_haproxy(text)
