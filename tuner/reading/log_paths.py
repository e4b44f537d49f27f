"""The shape of a request's target: identifiers become placeholders, and rare paths join others.

A site has few routes and many paths. Numbers, hashes and random texts of a path become ``{id}``
and ``{hash}``, after likely secrets became words (``tuner.reading.redaction``). The rarest shapes
of a log join their neighbours: ``/blog/a-title`` becomes ``/blog/{any}``, then ``/{any}``, as in
the hierarchical heavy hitters of Cormode et al. (VLDB 2003). So every request is part of a shape,
and a bounded number of shapes stands for a log of any length.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from tuner.reading.redaction import Redacted, looks_random, redact, redact_segment

ANY = "{any}"
"""Placeholder for a part of a path that rare paths differ in."""
WIDEST = f"/{ANY}"
"""The shape that joins no other."""
_BOUND = r"(?<![A-Za-z0-9])"
_END = r"(?![A-Za-z0-9])"
_NUMBER = re.compile(rf"{_BOUND}\d{{3,}}{_END}|^\d+$")
_DATE = re.compile(rf"{_BOUND}\d{{4}}-\d\d-\d\d{_END}")
_HASH = re.compile(rf"{_BOUND}(?=[a-fA-F]*\d)(?=\d*[a-fA-F])[0-9a-fA-F]{{7,}}{_END}")
_MIXED = re.compile(rf"{_BOUND}[A-Za-z0-9]{{8,}}{_END}")
_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,4}$")
_DEEPEST = 12
"""Most parts of a path that a shape keeps."""
_DIGIT = re.compile(r"[0-9]")
_WORDLIKE = re.compile(r"(?!.*eyJ)[A-Za-z._-]{0,19}")
"""Texts that no rule for secrets or identifiers matches."""
_SHORTEST_SECRET = 20
_PLACEHOLDER = re.compile(r"\{(id|hash|any)\}")
_WORD = re.compile(r"(?<![A-Za-z])(JWT|EMAIL|UUID|HEX|TOKEN)(?![A-Za-z])")


@lru_cache(maxsize=1 << 12)
def shape(target: str, *, keep_query: bool = False) -> Redacted:
    """Return the shape of a target, with the kinds of its redactions.

    Args:
        target: path with an optional query.
        keep_query: keep query values that are not likely secrets.
    """
    path, mark, query = target.partition("?")
    parts = path.split("/", _DEEPEST)
    if len(parts) > _DEEPEST:
        parts[_DEEPEST] = ANY
    found = [_segment_shape(part) for part in parts]
    if mark:
        found.append(redact(f"?{query}", keep_query=keep_query))
    kinds: tuple[str, ...] = ()
    for one in found:
        kinds += one.kinds
    query = found.pop().target if mark else ""
    return Redacted("/".join([one.target for one in found]) + query, kinds)


@lru_cache(maxsize=1 << 13)
def _segment_shape(text: str) -> Redacted:
    if _WORDLIKE.fullmatch(text):
        return Redacted(text, ())
    if len(text) < _SHORTEST_SECRET and text.isdigit() and text.isascii():
        return Redacted("{id}", ())
    found = redact_segment(text)
    shaped = found.target
    if _DIGIT.search(shaped) is not None:
        if "-" in shaped:
            shaped = _DATE.sub("{id}", shaped)
        shaped = _HASH.sub("{hash}", shaped)
        shaped = _MIXED.sub(lambda run: "{hash}" if looks_random(run[0]) else run[0], shaped)
        shaped = _NUMBER.sub("{id}", shaped)
        return Redacted(shaped, found.kinds)
    return found


def wider(of: str) -> str | None:
    """Return the shape that a rare one joins; None for the widest, ``/{any}``.

    The query goes first, then the last part of the path that is not ``{any}``; a file's ending
    stays until the path has one part.
    """
    path, mark, _ = of.partition("?")
    if mark:
        return path
    folder, _, last = path.rpartition("/")
    ending = _ENDING.search(last)
    any_file = ANY + (ending[0] if ending else "")
    if last != any_file:
        return f"{folder}/{any_file}"
    if folder:
        return f"{folder.rpartition('/')[0]}/{any_file}"
    return WIDEST if ending else None


def steps(of: str) -> int:
    """Return a number that falls with every step to a wider shape."""
    path, mark, _ = of.partition("?")
    last = path.rpartition("/")[2]
    return 4 * path.count("/") + 2 * bool(_ENDING.search(last)) + (ANY not in last) + bool(mark)


def example(of: str, number: int) -> str:
    """Return an invented target of a shape; different numbers, from 0 on, give different targets.

    Nothing of it comes from a log but what the shape has. A shape without a placeholder is its only
    target.
    """
    path, mark, query = of.partition("?")
    words = {
        "id": str(1001 + number),
        "hash": hashlib.sha256(f"{path} {number}".encode()).hexdigest()[:8],
        "any": f"page-{number + 1}",
    }
    made = _PLACEHOLDER.sub(lambda found: words[found[1]], path)
    if made == path and number:
        made = _WORD.sub(lambda found: f"{found[1]}-{number + 1}", path)
    return made + mark + query


def has_examples(of: str) -> bool:
    """Return whether a shape stands for several paths."""
    path = of.partition("?")[0]
    return bool(_PLACEHOLDER.search(path) or _WORD.search(path))
