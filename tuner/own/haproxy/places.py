"""Places of HAProxy's parameters in a configuration, present or possible.

A global setting has a line in the global section. A setting of a proxy is effective in the section
itself, or else in the defaults that apply to it. It is changed where it stands, unless other
sections depend on that line too; a missing one is added to the section of the workload.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tuner.own import bound as bounds
from tuner.own.bound import OneParameter, UnplaceableError, in_bytes
from tuner.own.haproxy.line_options import option_value
from tuner.own.haproxy.serving import HaproxyServing
from tuner.own.haproxy.tree import HaproxySection, LineEdit
from tuner.reading.haproxy_text import HaproxyLine

HaproxySide = Literal["client", "server"]
ValueUnit = Literal["", "bytes", "seconds", "milliseconds"]

_MODES = ("http-keep-alive", "http-server-close", "httpclose", "forceclose", "http-tunnel")
_TIMES_MS = {"us": 0.001, "": 1, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def sections(serving: HaproxyServing, side: HaproxySide) -> tuple[HaproxySection, ...]:
    """Return the sections of a workload's clients, or of its servers."""
    return (serving.frontend,) if side == "client" else serving.backends


def meant(text: str, unit: ValueUnit) -> str:
    """Return a value of HAProxy's in the notation of a space.

    Times without a unit are milliseconds (section 2.5 of the manual).

    Raises:
        UnplaceableError: it is not a number, or not whole in the space's unit.
    """
    if unit not in ("seconds", "milliseconds"):
        return text
    found = re.fullmatch(r"([0-9]+)([a-z]*)", text)
    if found is None or found[2] not in _TIMES_MS:
        raise UnplaceableError(f"{text} is not a time that tuner reads")
    value = int(found[1]) * _TIMES_MS[found[2]] / (1000 if unit == "seconds" else 1)
    if value != int(value):
        raise UnplaceableError(f"{text} is not a whole number of {unit}")
    return str(int(value))


def as_written(text: str, unit: ValueUnit) -> str:
    """Return a value of a space in HAProxy's notation, which every version reads."""
    return in_bytes(text) if unit == "bytes" else text


def agreed(values: Iterable[tuple[HaproxyLine, str | None]]) -> str | None:
    """Return the one value of several places.

    Raises:
        UnplaceableError: they differ.
    """
    return bounds.agreed((f"line {line.number}", value) for line, value in values)


def with_value(text: str, before: Sequence[str], value: str) -> str:
    """Return a line with another value after some words; blanks and comments stay."""
    head = r"\s+".join(re.escape(word) for word in before)
    found = re.search(rf"(?<!\S)({head}\s+)(\"[^\"]*\"|'[^']*'|[^\s#]+)", text)
    if found is None:
        raise UnplaceableError(f"{' '.join(before)} cannot be changed in the line {text.strip()!r}")
    return text[: found.start(2)] + value + text[found.end(2) :]


def with_option(text: str, name: str, value: str) -> str:
    """Return a ``bind`` or ``server`` line with one option more; a comment stays at its end."""
    found = re.search(r"\s+#.*$", text)
    end = found.start() if found else len(text.rstrip())
    return f"{text[:end]} {name} {value}{text[end:]}"


def without_option(text: str, name: str) -> str:
    """Return a line without an option and its value."""
    return re.sub(rf"\s+{re.escape(name)}\s+[^\s#]+", "", text, count=1)


def added(serving: HaproxyServing, section: HaproxySection, text: str) -> LineEdit:
    """Return the edit that adds a line at the beginning of a section."""
    blanks = serving.tree.indent(section)
    return LineEdit(section.head.number, f"{blanks}{text}", follows=True)


@dataclass(frozen=True, slots=True)
class GlobalLine(OneParameter):
    """A global setting with one value: ``tune.maxaccept 4``."""

    directive: str
    unit: ValueUnit = ""

    def read(self, scope: HaproxyServing) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        found = list(scope.tree.globals(self.directive))
        if any(len(line.words) != 2 for line in found):
            raise UnplaceableError(f"line {found[-1].number} has other words than a value")
        return {self.name: meant(found[-1].words[1], self.unit) if found else None}

    def edits(self, scope: HaproxyServing, wanted: Mapping[str, str]) -> Iterator[LineEdit]:
        """Implement ``BoundGroup``."""
        value = as_written(wanted[self.name], self.unit)
        found = list(scope.tree.globals(self.directive))
        if value == "auto":
            yield from (LineEdit(line.number, "") for line in found)
        elif found:
            yield _set(scope, found[-1], (self.directive,), value)
        else:
            yield _added_globally(scope, f"{self.directive} {value}")


def _added_globally(serving: HaproxyServing, text: str) -> LineEdit:
    """Return the edit that adds a line to the global section, or begins the file with one."""
    found = list(serving.tree.of("global"))
    if found:
        return added(serving, found[-1], text)
    return LineEdit(0, f"global\n    {text}\n", follows=True)


def _set(serving: HaproxyServing, line: HaproxyLine, before: Sequence[str], value: str) -> LineEdit:
    return LineEdit(line.number, with_value(serving.tree.raw(line), before, value))


@dataclass(frozen=True, slots=True)
class GlobalFlag(OneParameter):
    """A global setting without a value: ``busy-polling``."""

    directive: str

    def read(self, scope: HaproxyServing) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        on = next(scope.tree.globals(self.directive), None)
        off = next(scope.tree.globals("no", self.directive), None)
        return {self.name: "on" if on else "off" if off else None}

    def edits(self, scope: HaproxyServing, wanted: Mapping[str, str]) -> Iterator[LineEdit]:
        """Implement ``BoundGroup``."""
        for words in ((self.directive,), ("no", self.directive)):
            yield from (LineEdit(line.number, "") for line in scope.tree.globals(*words))
        if wanted[self.name] == "on":
            yield _added_globally(scope, self.directive)


@dataclass(frozen=True, slots=True)
class ProxyLine(OneParameter):
    """A setting of proxies with one value: ``http-reuse safe``."""

    words: tuple[str, ...]
    side: HaproxySide
    unit: ValueUnit = ""

    def read(self, scope: HaproxyServing) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        return {self.name: agreed(self._values(scope))}

    def _values(self, scope: HaproxyServing) -> Iterator[tuple[HaproxyLine, str | None]]:
        for section in sections(scope, self.side):
            found = list(section.all(*self.words))
            rest = found[-1].words[len(self.words) :] if found else ()
            if not found or not rest:
                yield section.head, None
            else:
                # Further words of an algorithm (``balance uri depth 2``) are a value of their own.
                yield found[-1], meant(" ".join(rest), self.unit)

    def edits(self, scope: HaproxyServing, wanted: Mapping[str, str]) -> Iterator[LineEdit]:
        """Implement ``BoundGroup``."""
        value = as_written(wanted[self.name], self.unit)
        for section in sections(scope, self.side):
            found = list(section.own(*self.words))
            if value == "auto":
                yield from (LineEdit(line.number, "") for line in found)
            elif found:
                yield _set(scope, found[-1], self.words, value)
            else:
                yield added(scope, section, f"{' '.join(self.words)} {value}")


@dataclass(frozen=True, slots=True)
class ProxyOption(OneParameter):
    """An option of proxies that is on or off: ``option http-no-delay``."""

    option: str
    side: HaproxySide

    def read(self, scope: HaproxyServing) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        found = ((each.head, self._of(each)) for each in sections(scope, self.side))
        return {self.name: agreed(found)}

    def _of(self, section: HaproxySection) -> str | None:
        lines = [
            *((line, "on") for line in section.own("option", self.option)),
            *((line, "off") for line in section.own("no", "option", self.option)),
        ]
        if lines:
            return max(lines, key=lambda each: each[0].number)[1]
        return self._of(section.defaults) if section.defaults else None

    def edits(self, scope: HaproxyServing, wanted: Mapping[str, str]) -> Iterator[LineEdit]:
        """Implement ``BoundGroup``."""
        on = wanted[self.name] == "on"
        for section in sections(scope, self.side):
            for words in (("option", self.option), ("no", "option", self.option)):
                yield from (LineEdit(line.number, "") for line in section.own(*words))
            inherited = section.defaults is not None and self._of(section.defaults) == "on"
            if on != inherited:
                text = f"option {self.option}" if on else f"no option {self.option}"
                yield added(scope, section, text)


@dataclass(frozen=True, slots=True)
class ConnectionMode(OneParameter):
    """The mode of connections to servers; the stricter side of a request decides."""

    name: str = "http_connection_mode"

    def read(self, scope: HaproxyServing) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        modes = {self._of(section) for section in (scope.frontend, *scope.backends)}
        closing = modes & {"httpclose", "forceclose", "http-tunnel"}
        if closing:
            raise UnplaceableError(f"option {closing.pop()} closes the clients' connections too")
        behind = {self._of(section) == "http-server-close" for section in scope.backends}
        if self._of(scope.frontend) == "http-server-close":
            behind = {True}
        if len(behind) > 1:
            raise UnplaceableError("the backends of the workload differ")
        return {self.name: "http-server-close" if True in behind else None}

    def _of(self, section: HaproxySection) -> str:
        """Return the mode of a section; the last line wins, its own before the defaults'."""
        lines = [line for mode in _MODES for line in section.own("option", mode)]
        if lines:
            return max(lines, key=lambda line: line.number).words[1]
        return self._of(section.defaults) if section.defaults else ""

    def edits(self, scope: HaproxyServing, wanted: Mapping[str, str]) -> Iterator[LineEdit]:
        """Implement ``BoundGroup``."""
        keep = wanted[self.name] == "http-keep-alive"
        touched = (scope.frontend, *scope.backends) if keep else scope.backends
        for section in dict.fromkeys(touched):
            for mode in _MODES:
                yield from (LineEdit(line.number, "") for line in section.own("option", mode))
            inherited = self._of(section.defaults) if section.defaults else ""
            if inherited != wanted[self.name] and (inherited or not keep):
                yield added(scope, section, f"option {wanted[self.name]}")


@dataclass(frozen=True, slots=True)
class ServerOption(OneParameter):
    """An option of every server: ``server one 10.0.0.1:80 pool-max-conn 8``."""

    option: str
    unit: ValueUnit = ""

    def read(self, scope: HaproxyServing) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        found = list(self._values(scope))
        if not found:
            raise UnplaceableError("no backend of the workload has a server")
        return {self.name: agreed(found)}

    def _values(self, scope: HaproxyServing) -> Iterator[tuple[HaproxyLine, str | None]]:
        for section in scope.backends:
            default = self._default(section)
            for line in section.servers:
                value = option_value(line, self.option)
                yield line, default if value is None else meant(value, self.unit)

    def _default(self, section: HaproxySection) -> str | None:
        for line in reversed(list(section.own("default-server"))):
            if (value := option_value(line, self.option)) is not None:
                return meant(value, self.unit)
        return self._default(section.defaults) if section.defaults else None

    def edits(self, scope: HaproxyServing, wanted: Mapping[str, str]) -> Iterator[LineEdit]:
        """Implement ``BoundGroup``."""
        value = as_written(wanted[self.name], self.unit)
        for section in scope.backends:
            lines = section.servers
            holding = [line for line in lines if option_value(line, self.option) is not None]
            default = [
                line
                for line in section.own("default-server")
                if option_value(line, self.option) is not None
            ]
            if default and len(holding) < len(lines):
                holding.append(default[-1])
            for line in holding:
                yield _set(scope, line, (self.option,), value)
            if lines and not default and len(holding) < len(lines):
                blanks = scope.tree.indent(section)
                row = f"{blanks}default-server {self.option} {value}"
                yield LineEdit(lines[0].number - 1, row, follows=True)


@dataclass(frozen=True, slots=True)
class BindOption(OneParameter):
    """An option of the frontend's addresses: ``bind :80 shards by-thread``."""

    option: str

    def read(self, scope: HaproxyServing) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        return {
            self.name: agreed((line, option_value(line, self.option)) for line in scope.bindings)
        }

    def edits(self, scope: HaproxyServing, wanted: Mapping[str, str]) -> Iterator[LineEdit]:
        """Implement ``BoundGroup``."""
        value = wanted[self.name]
        for line in scope.bindings:
            text = scope.tree.raw(line)
            if value == "auto":
                yield LineEdit(line.number, without_option(text, self.option))
            elif option_value(line, self.option) is None:
                yield LineEdit(line.number, with_option(text, self.option, value))
            else:
                yield LineEdit(line.number, with_value(text, (self.option,), value))


@dataclass(frozen=True, slots=True)
class Backlog(OneParameter):
    """The backlog: of an address where one names it, and else of the frontend."""

    name: str = "backlog"

    def _place(self, scope: HaproxyServing) -> ProxyLine | BindOption:
        option = BindOption(self.name, "backlog")
        named = any(option_value(line, self.name) is not None for line in scope.bindings)
        return option if named else ProxyLine(self.name, ("backlog",), "client")

    def read(self, scope: HaproxyServing) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        return self._place(scope).read(scope)

    def edits(self, scope: HaproxyServing, wanted: Mapping[str, str]) -> Iterator[LineEdit]:
        """Implement ``BoundGroup``."""
        return self._place(scope).edits(scope, wanted)


@dataclass(frozen=True, slots=True)
class FixedSetting(OneParameter):
    """A parameter that no search changes."""

    value: Callable[[HaproxyServing], str | None]

    def read(self, scope: HaproxyServing) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        return {self.name: self.value(scope)}

    def edits(self, scope: HaproxyServing, wanted: Mapping[str, str]) -> Iterator[LineEdit]:  # noqa: ARG002 - the protocol's
        """Implement ``BoundGroup``; it stays as the user has it."""
        return iter(())
