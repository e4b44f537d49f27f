"""A parameter: one setting, its allowed values, and its trade-off."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from tuner.errors import quoted
from tuner.reading.located import (
    SWITCH,
    format_size,
    parse_duration_s,
    parse_integer,
    parse_real,
    parse_size,
)
from tuner.space.configuration import Value

ParameterKind = Literal["boolean", "integer", "real", "choice"]
Role = Literal["search", "floor", "fixed"]
Apply = Literal["reload", "restart"]

BASELINES = ("stock", "distro", "hand")
OWN = "own"
"""Name of the baseline for the user's own configuration."""


def same(one: Value, other: Value) -> bool:
    """Return whether two values are equal, with ``True`` and 1 distinct."""
    return isinstance(one, bool) == isinstance(other, bool) and one == other


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on another parameter for this one to have an effect."""

    parameter: str
    relation: Literal["in", "not in", "above"]
    values: tuple[Value, ...]
    """One number for ``above``."""

    def holds(self, values: Mapping[str, Value]) -> bool:
        """Return whether the condition holds; it does not if the other parameter has no value."""
        value = values.get(self.parameter)
        if value is None:
            return False
        if self.relation == "above":
            limit = self.values[0]
            # A word such as `auto` is neither above nor below a number.
            return not isinstance(value, str) and not isinstance(limit, str) and value > limit
        return any(same(value, wanted) for wanted in self.values) == (self.relation == "in")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One setting of the server, with bounds as numbers."""

    name: str
    """The server's own name, if it is unique."""
    kind: ParameterKind
    low: int | float
    """Smallest value of the range; 0 for booleans and choices."""
    high: int | float
    """Largest value of the range; 0 for booleans and choices."""
    log: bool
    """True for a logarithmic scale."""
    step: int | float | None
    """Step from ``low`` of the grid for proposals; None: no grid."""
    unit: str
    """``bytes``, ``seconds``, or a noun for counts (``requests``); empty without a unit."""
    choices: tuple[str, ...]
    special: tuple[Value, ...]
    """Values outside the range with a special meaning: 0 or ``off``."""
    defaults: Mapping[str, Value]
    """Defaults by baseline (stock, distro, hand); allowed even outside the range."""
    when: tuple[Condition, ...]
    """Conditions; unless all hold, the parameter is inactive and has no value."""
    trades: str
    """Trade-off that the user accepts, as shown; empty if neutral."""
    belongs_to: str
    """The parameter that allows this one as well; empty if there is none."""
    role: Role
    """``search``; ``floor``: at least ``floor``; ``fixed``: the baseline's value."""
    floor: int | None
    about: str
    link: str
    """URL of the server's documentation."""
    either: tuple[tuple[Condition, ...], ...] = ()
    """Alternative groups of conditions in addition to ``when``; one must hold, if there are any."""
    apply: Apply = "reload"
    """Action that applies a new value to a running server."""
    directive: str = ""
    """Name in the server's language, if it differs."""
    unseen: str = ""
    """Part of its effect that the lab cannot show, as a sentence for the user; often empty."""

    def is_active(self, values: Mapping[str, Value]) -> bool:
        """Return whether the parameter has an effect, given the values of earlier ones.

        An earlier parameter that is inactive itself must not be in ``values``.
        """
        return all(condition.holds(values) for condition in self.when) and (
            not self.either or any(all(one.holds(values) for one in group) for group in self.either)
        )

    @property
    def neutral(self) -> bool:
        """True if it changes nothing that clients or operators rely on."""
        return not self.trades

    @property
    def searchable(self) -> bool:
        """True if a search may choose among several values."""
        varies = self.kind in ("boolean", "choice") or self.high > self.low or bool(self.special)
        return self.role == "search" and varies

    @property
    def allowed(self) -> str:
        """Range in words, such as ``4k to 1m bytes, or 0``."""
        if self.kind == "boolean":
            return "on or off"
        if self.kind == "choice":
            return ", ".join(self.choices)
        text = f"{self.format(self.low)} to {self.format(self.high)}"
        if self.unit != "seconds":
            text += f" {self.unit}" if self.unit else ""
        return ", or ".join([text, *map(str, self.special)])

    def check(self, value: Value) -> Value:
        """Return the value in canonical form: an integer as int, a real as float.

        Raises:
            ValueError: the value has another type or is not allowed; the message lists allowed
                ones.
        """
        right = {
            "boolean": isinstance(value, bool),
            "choice": isinstance(value, str),
            "integer": isinstance(value, int) and not isinstance(value, bool),
            "real": isinstance(value, int | float) and not isinstance(value, bool),
        }[self.kind]
        for listed in (*self.special, *self.defaults.values()):
            if same(value, listed):
                return listed
        if not right or (isinstance(value, float) and not math.isfinite(value)):
            raise ValueError(f"{quoted(value)} is not allowed; allowed: {self.allowed}")
        if self.kind == "choice" and value not in self.choices:
            raise ValueError(f"{quoted(value)} is not allowed; allowed: {self.allowed}")
        if self.kind in ("boolean", "choice") or isinstance(value, str):
            return value
        if not self.low <= value <= self.high:
            raise ValueError(f"{self.format(value)} is out of range; allowed: {self.allowed}")
        return float(value) if self.kind == "real" else value

    def parse(self, text: str) -> Value:
        """Parse a value in the user's notation: ``on``, ``64k``, ``75s``, ``off``.

        Raises:
            ValueError: as for ``check``.
        """
        return self.check(self.read(text))

    def read(self, text: str) -> Value:
        """Parse a value like ``parse``, but check only its type and not its range."""
        if self.kind == "choice" or any(text == special for special in self.special):
            return text
        try:
            if self.kind == "boolean":
                return SWITCH[text.lower()]
            if self.unit == "bytes":
                return parse_size(text)
            if self.unit == "seconds":
                seconds = parse_duration_s(text)
                if self.kind == "real":
                    return seconds
                if not seconds.is_integer():
                    raise ValueError
                return int(seconds)
            return parse_integer(text) if self.kind == "integer" else parse_real(text)
        except (KeyError, ValueError):
            raise ValueError(f"{quoted(text)} is not allowed; allowed: {self.allowed}") from None

    def format(self, value: Value) -> str:
        """Format a value in the notation of server and user: ``on``, ``64k``, ``75s``."""
        return notation(value, self.unit)

    def snap(self, value: Value) -> Value:
        """Round a proposal to the grid, within the range."""
        if self.step is None or isinstance(value, str | bool):
            return value
        if any(same(value, listed) for listed in (*self.special, *self.defaults.values())):
            return value
        steps = round((value - self.low) / self.step)
        if self.low + steps * self.step > self.high:
            steps -= 1
        snapped = self.low + max(0, steps) * self.step
        return int(snapped) if self.kind == "integer" else float(snapped)


def notation(value: Value, unit: str = "") -> str:
    """Format a value in the notation of server and user: ``on``, ``64k``, ``75s``.

    Args:
        value: the value.
        unit: ``bytes``, ``seconds``, or any other unit, which is not written.
    """
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str):
        return value
    if unit == "bytes" and isinstance(value, int):
        return format_size(value)
    if unit == "seconds":
        return f"{value:g}s" if value < 1e6 else f"{value:.0f}s"
    return str(value)


def units_of(parameters: Iterable[Parameter]) -> dict[str, Literal["bytes", "seconds"]]:
    """Return the units of sizes and times by the parameter's name."""
    found: dict[str, Literal["bytes", "seconds"]] = {}
    for parameter in parameters:
        if parameter.unit == "bytes":
            found[parameter.name] = "bytes"
        elif parameter.unit == "seconds":
            found[parameter.name] = "seconds"
    return found
