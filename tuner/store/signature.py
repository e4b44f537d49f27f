"""Signatures of records: keyed hashes with a key that only this user can read.

A record has two hashes. One covers its start and is written then. The other covers everything
behind a verdict and an exported configuration, and every measuring command writes it at its end.
The second also holds for an exchanged file, without the parts that ``tuner.record.small``
drops. There is no key management: each user and machine has its own key (HMAC: RFC 2104).
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from tuner.paths import state_dir, synchronise
from tuner.record.model import Record, RecordSignatures
from tuner.record.small import small

Maker = Literal["here", "changed", "elsewhere"]
"""``changed``: begun here, but changed since its signature, or its command was killed."""

_KEY_BYTES = 32
_BEGINNING = (
    *("name", "definition", "tuner_version", "command", "generator", "started_unix_s"),
    *("baseline", "asked"),
)
_LEFT_OUT = ("signed", "applied", "here")
_COMPUTED = ("losses", "second", "excess", "effects")
"""Computed attributes of a trial, which vary in the last digit with NumPy."""


def made_here(record: Record) -> Maker:
    """Return the origin of a record by its hashes: this user or another one."""
    try:
        key = read_key()
    except OSError:
        return "elsewhere"
    if key is None or not _began_here(record, key):
        return "elsewhere"
    return "here" if _same(record.signed.whole, _hash(_content(record), key)) else "changed"


def sign_beginning(record: Record) -> RecordSignatures:
    """Return the hash of a record's start; raise OSError if no key can be created."""
    return RecordSignatures(begun=_hash(_beginning(record), _key()))


def sign(record: Record) -> RecordSignatures:
    """Return both hashes of a record that began here, or the existing ones of another.

    A record from elsewhere stays one, even after measurements here.

    Raises:
        OSError: the key cannot be read.
    """
    key = read_key()
    if key is None or not _began_here(record, key):
        return record.signed
    return replace(record.signed, whole=_hash(_content(record), key))


def _began_here(record: Record, key: bytes) -> bool:
    return _same(record.signed.begun, _hash(_beginning(record), key))


def key_file() -> Path:
    """Return the path of the key in the user's state folder."""
    return state_dir() / "key"


def read_key() -> bytes | None:
    """Return this user's key; None if it does not exist yet.

    Raises:
        OSError: it cannot be read, or others can read it as well.
    """
    path = key_file()
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise PermissionError(f"{path} can be read by others; remove it, or chmod 600")
            key = file.read(_KEY_BYTES)
    except FileNotFoundError:
        return None
    if len(key) != _KEY_BYTES:
        raise OSError(f"{path} does not contain a key; remove it")
    return key


def _key() -> bytes:
    """Return this user's key, created at first use; of two concurrent creators one wins."""
    known = read_key()
    if known is not None:
        return known
    path = key_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    own = path.with_name(f"key.{secrets.token_hex(8)}")
    try:
        handle = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            # Records that it signs are on the disk at once; a power failure must not part them.
            file.flush()
            os.fsync(file.fileno())
        # Unlike a rename, a link does not replace another process's key, and is atomic.
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(own)
        synchronise(path.parent)
    finally:
        own.unlink(missing_ok=True)
    made = read_key()
    if made is None:
        raise FileNotFoundError(f"{path} was removed again")
    return made


_LATER: Mapping[str, object] = {
    "slot": None,
    "slice_ms": 0.0,
    "turn_cpu_s": None,
    "frozen": False,
    "effective": None,
    "effective_share": 0.0,
    "stalled_share": None,
    "level": None,
    "margin_symmetric": False,
    "evidence": "typical",
    "busy_share": None,
    "backend_apart": False,
    "product": "",
    "program": "",
    "lacking": False,
    "polled": False,
    "looks_level": None,
    "precision": None,
}
"""Fields that older records lack, with the value that says so."""


def _beginning(record: Record) -> Any:
    return {name: msgspec.to_builtins(getattr(record, name)) for name in _BEGINNING}


def _content(record: Record) -> Any:
    content = msgspec.to_builtins(small(record))
    for name in _LEFT_OUT:
        del content[name]
    for trial in content["trials"]:
        for name in _COMPUTED:
            del trial[name]
    return _without_later(content)


def _without_later(content: Any) -> Any:
    """Return the content without later fields that the record does not use.

    Signatures of older versions are over records without them.
    """
    if isinstance(content, dict):
        return {
            name: _without_later(value)
            for name, value in content.items()
            if name not in _LATER or value != _LATER[name]
        }
    if isinstance(content, list | tuple):
        return [_without_later(value) for value in content]
    return content


def _hash(content: Any, key: bytes) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _same(found: str, expected: str) -> bool:
    return hmac.compare_digest(found.encode(), expected.encode())
