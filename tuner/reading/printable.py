"""Text from elsewhere, made harmless to look at.

Control characters move a terminal's cursor, change its title or fill its clipboard (ECMA-48; OSC of
xterm); marks of direction show text in another order than it has (CVE-2021-42574). Names, notes
and messages of a record, a log or a host may hold them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# The categories Cc, Cf, Cs, Zl and Zp of Unicode 15, and what is no character.
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
    r"""Return a text as one line in which every character is seen: ``\x1b``, ``\u202e``, ``\n``."""
    return text if text.isprintable() else _ANY.sub(_escaped, text)


def printable_lines(text: str, *, keep_bytes: bool = False) -> str:
    """Return a text in which every character is seen, but for line feeds and tabs.

    Args:
        text: of any number of lines.
        keep_bytes: keep what stands for bytes of a file's name that are no text (PEP 383).
    """
    if text.isprintable():
        return text
    return (_NOT_BYTES if keep_bytes else _NOT_OF_LINES).sub(_escaped, text)


def printable_data(value: Any) -> Any:
    """Return JSON's data with every text in it printable, of any number of lines."""
    if isinstance(value, str):
        return printable_lines(value)
    if isinstance(value, Mapping):
        return {printable_data(key): printable_data(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [printable_data(entry) for entry in value]
    return value


def comment_line(text: str) -> str:
    """Return a line of a comment, for the languages that begin one with ``#``."""
    return f"# {printable(' '.join(text.split()))}".rstrip()


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
