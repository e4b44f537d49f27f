"""Redaction of a log: query values, and parts of paths that may be secrets.

A rule looks at the form of a text alone, so it finds likely secrets and no more; docs/workloads.md
lists the rules. A redacted part becomes a word in capitals that any server can serve:
``/reset/TOKEN``.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from urllib.parse import unquote

import msgspec

QUERY = "values of queries"
_PARAMETER = "values of path parameters"
_WORDS = {
    "JWT": "JSON Web Tokens",
    "EMAIL": "e-mail addresses",
    "UUID": "UUIDs",
    "HEX": "long hexadecimal numbers",
    "TOKEN": "texts that look random",
}
_JWT = re.compile(r"eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}(\.[A-Za-z0-9_-]*)*")
# image@2x.png names a resolution.
_EMAIL = re.compile(
    r"(?<![^\s/@:;,=&?])[^\s/@:;,=&?]+@(?!\d+(?:\.\d+)?x\.)[^\s/@:;,=&?]+\.[A-Za-z]{2,}"
)
_UUID = re.compile(r"(?i)(?<![0-9a-f])[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])")
_HEX = re.compile(r"(?i)(?<![0-9a-z])(?:0x)?[0-9a-f]{32,}(?![0-9a-z])")
_SHORTEST_RUN = 20
_RUN = re.compile(rf"[A-Za-z0-9_+/=-]{{{_SHORTEST_RUN},}}")
_RULES = (("JWT", _JWT, "eyJ"), ("EMAIL", _EMAIL, "@"), ("UUID", _UUID, "-"), ("HEX", _HEX, ""))
"""Word, pattern, and a text that every match contains."""
_DIGIT = re.compile(r"[0-9]")
_TURN = re.compile(r"(?<=[0-9])[A-Za-z]|(?<=[A-Z])[a-z0-9]|(?<=[a-z])[A-Z0-9]")
_PLAIN = re.compile(r"(?!.*eyJ)[A-Za-z0-9._-]{0,19}")
"""Texts that no rule matches: too short for a secret, without an escape or an ``@``."""
_TURNS = 0.2
"""Least share of neighbouring characters of two kinds (capital, small letter, digit) in a text that
looks random: random base64 has 0.64, hexadecimal 0.47, words in one case 0."""
_PAIRS = re.compile("[&;]")
_QUERY_VALUE = re.compile(r"([?&;][^\s=&;\"?]*=)[^\s&;\"]*")
_NAMELESS_QUERY = re.compile(r"\?[^\s=&;\"]+(?=[\s&;\"]|$)")
_NAME = re.compile(r"[A-Za-z0-9_.\[\]-]{1,40}")


class Redacted(msgspec.Struct, frozen=True):
    """A redacted target, with the kinds of its redactions.

    A struct of msgspec for the same reason as ``LogEntry``.
    """

    target: str
    kinds: tuple[str, ...]
    """Names of the redacted kinds, one for each redaction."""


@lru_cache(maxsize=1 << 12)
def redact(target: str, *, keep_query: bool = False) -> Redacted:
    """Return a request's target without query values and likely secrets.

    Args:
        target: path with an optional query.
        keep_query: keep query values that are not likely secrets.
    """
    kinds: list[str] = []
    path, mark, query = target.partition("?")
    segments = []
    for segment in path.split("/"):
        found = redact_segment(segment)
        segments.append(found.target)
        kinds += found.kinds
    if mark:
        query = "&".join(_pair(pair, kinds, keep=keep_query) for pair in _PAIRS.split(query))
    return Redacted("/".join(segments) + mark + query, tuple(kinds))


def redact_segment(text: str) -> Redacted:
    """Return one segment of a path, without the values of its parameters (``;jsessionid=…``)."""
    kinds: list[str] = []
    return Redacted(_segment(text, kinds), tuple(kinds))


def redact_line(text: str) -> str:
    """Return a line of unknown format without query values and likely secrets, for a message."""
    without = _QUERY_VALUE.sub(r"\1", _NAMELESS_QUERY.sub("?", text))
    return " ".join(_replaced(word, []) for word in without.split(" "))


def redaction_summary(kinds: Counter[str]) -> str:
    """Return the number of redactions of each kind, in words; empty if none."""
    return ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())


def _segment(text: str, kinds: list[str]) -> str:
    if _PLAIN.fullmatch(text):
        return text
    name, *parameters = text.split(";")
    words = [_secrets(name, kinds)]
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if value:
            kinds.append(_PARAMETER)
        words.append(f"{_secrets(key, kinds)}=" if "=" in parameter else _secrets(key, kinds))
    return ";".join(words)


def _pair(text: str, kinds: list[str], *, keep: bool) -> str:
    name, mark, value = text.partition("=")
    if keep:
        return _secrets(name, kinds) + mark + _secrets(value, kinds)
    if not mark or not _NAME.fullmatch(name):
        # A text without a name is a value: ?reset-3f9a
        value, name, mark = text, "", ""
    if value:
        kinds.append(QUERY)
    return _secrets(name, kinds) + mark


def _secrets(text: str, kinds: list[str]) -> str:
    """Return a text with its likely secrets replaced."""
    if _PLAIN.fullmatch(text):
        return text
    # Escapes may hide a secret: user%40example.org.
    plain = unquote(text)
    found = _replaced(plain, kinds)
    return text if found == plain else _quoted(found)


def _replaced(plain: str, kinds: list[str]) -> str:
    found = plain
    for word, pattern, sign in _RULES:
        # The sign is cheap to look for, and most texts do not have it.
        if sign in found:
            found, count = pattern.subn(word, found)
            kinds += [_WORDS[word]] * count
    if len(found) >= _SHORTEST_RUN:
        runs = [run for run in _RUN.findall(found) if looks_random(run)]
        if runs:
            kinds += [_WORDS["TOKEN"]] * len(runs)
            found = _RUN.sub(lambda run: "TOKEN" if looks_random(run[0]) else run[0], found)
    return found


def looks_random(text: str) -> bool:
    """Return whether a text has a digit and changes between kinds of characters like random text.

    Args:
        text: letters and digits of ASCII, and other characters between.
    """
    return _DIGIT.search(text) is not None and len(_TURN.findall(text)) >= _TURNS * len(text)


def _quoted(text: str) -> str:
    """Return a text as part of a target, with special characters escaped."""
    return re.sub(
        r"[^A-Za-z0-9_.~+@:,!$*'()-]",
        lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "replace")),
        text,
    )
