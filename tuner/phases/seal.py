"""A protocol is sealed before its first block: the record shows what was fixed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TypeVar

import msgspec

from tuner.record.model import AblationProtocol, Protocol

_P = TypeVar("_P", Protocol, AblationProtocol)


def sealed(protocol: _P) -> _P:
    """The protocol with its digest: of the canonical JSON of all but the digest and the time."""
    content = msgspec.to_builtins(protocol)
    del content["frozen_unix_s"], content["digest"]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return replace(protocol, digest=hashlib.sha256(text.encode()).hexdigest()[:12])
