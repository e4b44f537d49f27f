"""Escaping of text from elsewhere, so that it is harmless to print.

Control characters move a terminal's cursor, change its title or fill its clipboard (ECMA-48; OSC of
xterm). Direction marks display text in another order (CVE-2021-42574). Names, notes and messages
of a record, a log or a host may contain both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# The categories Cc, Cf, Cs, Zl and Zp of Unicode 15, and noncharacters.
_HIDDEN = (
    "\x00-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufdd0-\ufdef\ufeff\ufff0-\ufffb\ufffe\uffff"
    "\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_SURROGATES = "\ud800-\udfff"
_ANY = re.compile(f"[{_HIDDEN}{_SURROGATES}]")
_NOT_OF_LINES = re.compile(f"(?![\n\t])[{_HIDDEN}{_SURROGATES}]")
_NOT_BYTES = re.compile(f"(?![\n\t])[{_HIDDEN}]")


def printable(text: str) -> str:
    r"""Return a text as one line with every character visible: ``\x1b``, ``\u202e``, ``\n``."""
    return text if text.isprintable() else _ANY.sub(_escaped, text)


def printable_lines(text: str, *, keep_bytes: bool = False) -> str:
    """Return a text with every character visible except line feeds and tabs.

    Args:
        text: any number of lines.
        keep_bytes: keep surrogates for undecodable bytes of file names (PEP 383).
    """
    if text.isprintable():
        return text
    return (_NOT_BYTES if keep_bytes else _NOT_OF_LINES).sub(_escaped, text)


def printable_data(value: Any) -> Any:
    """Return JSON data with all texts made printable; texts may have several lines."""
    if isinstance(value, str):
        return printable_lines(value)
    if isinstance(value, Mapping):
        return {printable_data(key): printable_data(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [printable_data(entry) for entry in value]
    return value


def comment_line(text: str) -> str:
    """Return a comment of one line, for languages in which ``#`` begins a comment."""
    return f"# {printable(' '.join(text.split()))}".rstrip()


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
