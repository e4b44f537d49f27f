"""Bodies of requests: invented content of a media type, of an exact length."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Literal, get_args

from tuner.reading.inputs import BODY_BYTES
from tuner.reading.located import Node
from tuner.reading.shape import ByteSize, Keys, OneWord

BodyKind = Literal["json", "form", "multipart", "text"]
BODY_KINDS: tuple[BodyKind, ...] = get_args(BodyKind)
_BOUNDARY = "tuner-5f2c1e9a"
MEDIA_TYPES: dict[BodyKind, str] = {
    "json": "application/json",
    "form": "application/x-www-form-urlencoded",
    "multipart": f"multipart/form-data; boundary={_BOUNDARY}",
    "text": "text/plain",
}
_KEYS = ("name", "title", "city", "comment", "email", "quantity", "price", "note", "status", "tag")
_WORDS = ("river", "market", "stone", "summer", "letter", "garden", "window", "paper", "silver")


def kind_of_type(media_type: str) -> BodyKind | None:
    """Return the kind of a media type; None for an unknown one."""
    if media_type.endswith(("/json", "+json")):
        return "json"
    return next(
        (kind for kind, name in MEDIA_TYPES.items() if name.partition(";")[0] == media_type), None
    )


def make_body(kind: BodyKind, size_bytes: int) -> bytes:
    """Return a body of exactly this length, the same in every run.

    It is well-formed unless it is too short for that.
    """
    if kind == "multipart":
        head = (
            f"--{_BOUNDARY}\r\nContent-Disposition: form-data;"
            ' name="file"; filename="photo.jpg"\r\nContent-Type: image/jpeg\r\n\r\n'
        )
        tail = f"\r\n--{_BOUNDARY}--\r\n"
        inside = random.Random(size_bytes).randbytes(  # noqa: S311 - content without a meaning
            max(size_bytes - len(head) - len(tail), 0)
        )
        return (head.encode() + inside + tail.encode())[:size_bytes]
    opening, closing, text = _FRAMES[kind]
    room = size_bytes - len(opening) - len(closing)
    if room < 0:
        return (opening + closing)[:size_bytes].encode()
    made = ""
    for item in text(size_bytes):
        if len(made) + len(item) > room:
            break
        made += item
    # The rest is part of the last value.
    filling = (made + "x" * (room - len(made))) if kind == "text" else _filled(kind, made, room)
    return (opening + filling + closing).encode()


def _filled(kind: BodyKind, made: str, room: int) -> str:
    """Return fields that are lengthened to fill the room."""
    rest = room - len(made)
    if kind == "json":
        if not made:
            return f'"a":"{"x" * (room - 6)}"' if room >= 6 else " " * room
        return f'{made[:-1]}{"x" * rest}"'
    return made + "x" * rest if made else f"a={'x' * (room - 2)}"[:room]


def _pairs(seed: int) -> Iterator[tuple[str, str]]:
    draw = random.Random(seed)  # noqa: S311 - content without a meaning
    number = 0
    while True:
        key = _KEYS[number % len(_KEYS)] + (str(number // len(_KEYS)) if number >= 10 else "")
        yield key, " ".join(draw.choices(_WORDS, k=draw.randint(1, 5)))
        number += 1


def _json(seed: int) -> Iterator[str]:
    for number, (key, value) in enumerate(_pairs(seed)):
        yield f"{',' if number else ''}{json.dumps(key)}:{json.dumps(value)}"


def _form(seed: int) -> Iterator[str]:
    for number, (key, value) in enumerate(_pairs(seed)):
        yield f"{'&' if number else ''}{key}={value.replace(' ', '+')}"


def _text(seed: int) -> Iterator[str]:
    for _, value in _pairs(seed):
        yield f"{value}\n"


_FRAMES = {"json": ("{", "}", _json), "form": ("", "", _form), "text": ("", "", _text)}


_LIKE = OneWord(BODY_KINDS)
_SIZE = ByteSize(0, BODY_BYTES)
BODY = Keys({"like": _LIKE, "size": _SIZE}, about="Invented content of an exact length.")


def read_body(node: Node) -> tuple[bytes, str]:
    """Return the body of ``{like: json, size: 800}``, and its media type.

    Raises:
        DefinitionError: at the line of the workload.
    """
    keys = BODY.read(node)
    kind = _LIKE.read(keys["like"])
    return make_body(kind, _SIZE.read(keys["size"])), MEDIA_TYPES[kind]
