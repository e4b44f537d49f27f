"""The seal of a protocol before its first block, which proves what was fixed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TypeVar

import msgspec

from tuner.record.model import AblationProtocol, Protocol

_P = TypeVar("_P", Protocol, AblationProtocol)


def sealed(protocol: _P) -> _P:
    """Return the protocol with the digest of its canonical JSON, without digest and time."""
    content = msgspec.to_builtins(protocol)
    del content["frozen_unix_s"], content["digest"]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return replace(protocol, digest=hashlib.sha256(text.encode()).hexdigest()[:12])
