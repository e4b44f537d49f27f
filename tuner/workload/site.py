"""The static site of a workload: the same bytes on every host, of exact sizes.

Text is made of words rather than of one letter, so that compression, where a configuration
allows it, has about as much to do as on a real page.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Literal, Protocol, get_args

FileKind = Literal["html", "css", "js", "json", "text", "binary"]
FILE_KINDS: tuple[FileKind, ...] = get_args(FileKind)

_WORDS = (
    *("server", "page", "header", "answer", "request", "client", "socket", "thread"),
    *("buffer", "kernel", "packet", "window", "worker", "module", "signal", "memory"),
    *("session", "stream", "record", "ticket", "random", "steady", "little", "quick"),
    *("between", "through", "another", "because", "without", "against", "together", "towards"),
)
_FRAMES: dict[FileKind, tuple[bytes, bytes]] = {
    "html": (
        b'<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n<title>A page</title>\n<p>',
        b"</p>\n</html>\n",
    ),
    "css": (b"/* ", b" */\n"),
    "js": (b"/* ", b" */\n"),
    "json": (b'{"text":"', b'"}\n'),
    "text": (b"", b"\n"),
    "binary": (b"", b""),
}


@dataclass(frozen=True, slots=True)
class SiteFile:
    """One file of the site."""

    path: str
    """Path in a request: ``/index.html``."""
    size_bytes: int
    kind: FileKind


class _HasSite(Protocol):
    @property
    def site(self) -> tuple[SiteFile, ...]: ...


def generate(workload: _HasSite) -> dict[str, bytes]:
    """Return every file of a workload's site, by its path relative to the document root."""
    return {file.path.removeprefix("/"): content(file) for file in workload.site}


def content(file: SiteFile) -> bytes:
    """Return the bytes of one file: a function of its path, size and kind alone."""
    before, after = _FRAMES[file.kind]
    room = file.size_bytes - len(before) - len(after)
    if room < 0:
        # Too small to be well-formed; only the size matters.
        return (before + after)[: file.size_bytes]
    filler = _noise(file.path) if file.kind == "binary" else _words(file.path)
    return before + _take(filler, room) + after


def _take(chunks: Iterator[bytes], size: int) -> bytes:
    taken = bytearray()
    while len(taken) < size:
        taken += next(chunks)
    return bytes(taken[:size])


def _noise(seed: str) -> Iterator[bytes]:
    for number in count():
        yield hashlib.sha256(f"{seed} {number}".encode()).digest()


def _words(seed: str) -> Iterator[bytes]:
    for block in _noise(seed):
        yield b"".join(_WORDS[byte % len(_WORDS)].encode() + b" " for byte in block)
