"""A configuration: an immutable choice of values for the parameters of one space."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

Value = bool | int | float | str


# Without slots, for the digest that is kept: a search compares thousands of them in every block.
@dataclass(frozen=True)
class Configuration:
    """Values by parameter name, sorted, without parameters that are inactive.

    Two configurations are equal if and only if their digests are. A parameter with an unmet
    condition (``tcp_nopush`` without ``sendfile``) has no value, so proposals that differ only
    in settings that the server ignores are one configuration.
    """

    space: str
    items: tuple[tuple[str, Value], ...]

    @classmethod
    def of(cls, space: str, values: Mapping[str, Value]) -> Configuration:
        """Build a configuration from a mapping; the order of keys does not matter."""
        return cls(space, tuple(sorted(values.items())))

    @property
    def values(self) -> dict[str, Value]:
        """A fresh dictionary of the values."""
        return dict(self.items)

    @cached_property
    def digest(self) -> str:
        """Identity: first 12 hex digits of SHA-256 over the canonical JSON form."""
        text = json.dumps([self.space, self.items], separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def differences(self, other: Configuration) -> dict[str, tuple[Value | None, Value | None]]:
        """Return parameters that differ, as ``name: (here, there)``; None where inactive."""
        here, there = self.values, other.values
        return {
            name: (here.get(name), there.get(name))
            for name in sorted(here.keys() | there.keys())
            if here.get(name) != there.get(name) or (name in here) != (name in there)
        }
