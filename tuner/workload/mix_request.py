"""One request of a workload that is made of a log, and its line of YAML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MixRequest:
    """One request, with its share of the log."""

    kind: str
    """Method, shape and status of the requests that it is an example of."""
    method: str
    path: str
    weight: float
    """Number of requests of the log that it stands for."""
    headers: Mapping[str, str] = field(default_factory=dict)
    expect: Mapping[str, str | int] = field(default_factory=dict)
    body: Mapping[str, str | int] = field(default_factory=dict)
    answer: Mapping[str, object] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """The line of YAML, indented as an item of ``requests``."""
        words = [f"path: {json.dumps(self.path)}", f"weight: {round(self.weight, 3):g}"]
        if self.method != "GET":
            words.append(f"method: {self.method}")
        for name in ("headers", "body", "answer", "expect"):
            values = getattr(self, name)
            if values:
                words.append(f"{name}: {_flow(values)}")
        return f"  - {{{', '.join(words)}}}"


def label(key: tuple[str, str, int]) -> str:
    """Return a kind of requests in words: ``GET /product/{id} 200``."""
    method, of, status = key
    return f"{method} {of} {status}"


def _flow(value: object) -> str:
    """Return a value in YAML's flow style."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, str) and not value.replace("_", "").isalnum():
        return json.dumps(value)
    return str(value)
