"""Places of Apache's parameters in a configuration, present or possible.

All of them are settings of the whole server, which virtual hosts and folders take over. The last
line outside of any section counts, and is changed where it stands; a missing one is added at the
end of the main file. A line inside a section would override it for a part of the requests, so the
setting then stays.
https://httpd.apache.org/docs/2.4/sections.html#merging
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tuner.own.apache.tree import ApacheDirective, ApacheTree
from tuner.own.bound import OneParameter, UnplaceableError, in_bytes
from tuner.own.patch import lines_of

_CACHE = re.compile(r"(shmcb:[^()]+)\(([0-9]+)\)", re.IGNORECASE)
_LIMITS = {"ThreadLimit": 64, "ServerLimit": 16, "MaxSpareThreads": 250}
"""Limits of threads and processes, with Apache's own values."""
_ITSELF = frozenset(("auto", "none"))
"""Values of a space for a setting without a line."""


@dataclass(frozen=True, slots=True)
class ApacheEdit:
    """A change of one directive, or a new one at the end of the main file."""

    text: str
    """The directive; empty to remove it."""
    at: ApacheDirective | None = None
    """The directive that it replaces; None for a new one."""


def edited(tree: ApacheTree, edits: Iterable[ApacheEdit]) -> dict[str, str]:
    """Return the changed files by path; everything else stays as it is, byte by byte."""
    rows = {path: lines_of(text) for path, text in tree.texts.items()}
    more: dict[str, list[str]] = defaultdict(list)
    for edit in edits:
        if edit.at is None:
            more[tree.file].append(f"{edit.text}\n")
            continue
        row = rows[edit.at.file][edit.at.line - 1]
        body, blanks = row.rstrip("\r\n"), row[: len(row) - len(row.lstrip())]
        new = f"{blanks}{edit.text}{row[len(body) :]}" if edit.text else ""
        rows[edit.at.file][edit.at.line - 1] = new
    for path, added in more.items():
        # A last line may have no end.
        if rows[path] and not rows[path][-1].endswith("\n"):
            rows[path][-1] += "\n"
        rows[path] += added
    texts = {path: "".join(found) for path, found in rows.items()}
    return {path: text for path, text in texts.items() if text != tree.texts[path]}


def placed(tree: ApacheTree, *names: str) -> ApacheDirective | None:
    """Return the directive of these names that counts for the whole server; None without one.

    Raises:
        UnplaceableError: a section has one too, or the line continues on the next one.
    """
    wanted = {name.lower() for name in names}
    found = list(tree.of(*wanted))
    for each in found:
        if each.within:
            section = " ".join(each.within[-1])
            raise UnplaceableError(f"{each.file}:{each.line} sets it for <{section}>")
        row = lines_of(tree.texts[each.file])[each.line - 1]
        if row.rstrip("\r\n").endswith("\\"):
            raise UnplaceableError(f"{each.file}:{each.line} continues on the next line")
    return found[-1] if found else None


def set_to(tree: ApacheTree, value: str, *names: str) -> ApacheEdit:
    """Return the edit that sets a directive; the first of its names is the one that is added."""
    found = placed(tree, *names)
    return ApacheEdit(f"{found.words[0] if found else names[0]} {value}", found)


def number_of(tree: ApacheTree, itself: int, *names: str) -> int:
    """Return the number that a directive has; Apache's own without one.

    Raises:
        UnplaceableError: it has none, or see ``placed``.
    """
    found = placed(tree, *names)
    if found is None:
        return itself
    if found.number is None:
        raise UnplaceableError(f"{found.file}:{found.line} has no number")
    return found.number


def as_written(text: str) -> str:
    """Return a value of a space as a plain number or word, which every directive takes."""
    return in_bytes(re.sub(r"^([0-9]+)s$", r"\1", text))


@dataclass(frozen=True, slots=True)
class ApacheSetting(OneParameter):
    """A directive with one value: ``EnableSendfile on``."""

    directive: str
    module: str = ""
    """Module that has the directive; empty for those that every Apache has."""

    def read(self, scope: ApacheTree) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        if self.module and self.module not in scope.modules:
            raise UnplaceableError(f"no LoadModule of {self.module}_module is in your files")
        found = placed(scope, self.directive)
        return {self.name: found.first if found else None}

    def edits(self, scope: ApacheTree, wanted: Mapping[str, str]) -> Iterator[ApacheEdit]:
        """Implement ``BoundGroup``."""
        value = as_written(wanted[self.name])
        if value in _ITSELF:
            yield from (ApacheEdit("", line) for line in scope.of(self.directive.lower()))
        else:
            yield set_to(scope, value, self.directive)


@dataclass(frozen=True, slots=True)
class Processes:
    """Processes and their threads, with directives that have to fit together.

    ``MaxRequestWorkers`` is that of whole processes. ``ThreadLimit`` and ``ServerLimit`` have to be
    as large, and ``MaxSpareThreads``, or Apache would end what it starts.
    https://httpd.apache.org/docs/2.4/mod/mpm_common.html
    """

    names = ("threads_per_child", "max_request_workers", "start_threads")

    def read(self, scope: ApacheTree) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        each, most, started = self._configured(scope)
        for name, itself in _LIMITS.items():
            number_of(scope, itself, name)
        return dict(zip(self.names, map(str, (each, most, started * each)), strict=True))

    def _configured(self, scope: ApacheTree) -> tuple[int, int, int]:
        """Return threads of a process, threads of all, and processes at the start."""
        each = number_of(scope, 25, "ThreadsPerChild")
        limit = number_of(scope, _LIMITS["ServerLimit"], "ServerLimit")
        most = number_of(scope, limit * each, "MaxRequestWorkers", "MaxClients")
        return each, most, number_of(scope, 3, "StartServers")

    def edits(self, scope: ApacheTree, wanted: Mapping[str, str]) -> Iterator[ApacheEdit]:
        """Implement ``BoundGroup``."""
        each, most, started = self._configured(scope)
        values = dict(zip(self.names, (each, most, started * each), strict=True))
        values |= {name: int(value) for name, value in wanted.items()}
        threads, asked, first = (values[name] for name in self.names)
        begun = -(-first // threads)
        processes = max(begun, -(-asked // threads))
        wishes = (
            (threads, each, ("ThreadsPerChild",)),
            (processes * threads, most, ("MaxRequestWorkers", "MaxClients")),
            (begun, started, ("StartServers",)),
        )
        for value, now, directive in wishes:
            if value != now:
                yield set_to(scope, str(value), *directive)
        spare = begun * threads if "start_threads" in wanted else 0
        for name, least in zip(_LIMITS, (threads, processes, spare), strict=True):
            if number_of(scope, _LIMITS[name], name) < least:
                yield set_to(scope, str(least), name)


@dataclass(frozen=True, slots=True)
class ApacheSessionCache:
    """``SSLSessionCache`` with its size; the place of the cache stays."""

    names = ("ssl_session_cache",)

    def read(self, scope: ApacheTree) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        found = placed(scope, "SSLSessionCache")
        if found is None or found.first == "none":
            raise UnplaceableError("no SSLSessionCache is in your files")
        cache = _CACHE.fullmatch(found.words[1])
        if cache is None:
            raise UnplaceableError(f"{found.file}:{found.line} has another cache than shmcb")
        return {self.names[0]: cache[2]}

    def edits(self, scope: ApacheTree, wanted: Mapping[str, str]) -> Iterator[ApacheEdit]:
        """Implement ``BoundGroup``."""
        found = placed(scope, "SSLSessionCache")
        value = as_written(wanted[self.names[0]])
        if found is not None:
            row = lines_of(scope.texts[found.file])[found.line - 1].strip()
            size = re.sub(r"\([0-9]+\)", f"({value})", row)
            yield ApacheEdit(f"{found.words[0]} none" if value == "none" else size, found)
