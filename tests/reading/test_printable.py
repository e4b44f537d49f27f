"""Tests of `printable`: hidden characters are escaped, and all others stay."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.reading.printable import comment_line, printable, printable_data, printable_lines

HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def hidden(text: str, *, lines: bool = True) -> set[str]:
    """Return the characters of a text that a reader cannot see, or that move something."""
    kept = "\n\t" if lines else ""
    return {c for c in text if c not in kept and unicodedata.category(c) in HIDDEN}


def test_every_hidden_character_of_unicode_is_shown() -> None:
    """Every control, format and surrogate character and every line separator is escaped."""
    for number in range(sys.maxunicode + 1):
        char = chr(number)
        if unicodedata.category(char) in HIDDEN:
            assert printable(f"a{char}b") == f"a{char.encode('unicode_escape').decode()}b"


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp", "Cn", "Co"])))
def test_what_is_seen_stays(text: str) -> None:
    """Letters of any script, signs and blanks."""
    assert printable(text) == printable_lines(text) == text


@given(st.text())
def test_nothing_hidden_is_left(text: str) -> None:
    """In one line, in lines, and in data of JSON."""
    assert not hidden(printable(text), lines=False)
    assert not hidden(printable_lines(text))
    assert not hidden(json.dumps(printable_data({text: [text, 1, None]}), ensure_ascii=False))
    assert not hidden(comment_line(text), lines=False)
    assert comment_line(text).startswith("#")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("user\u202etxt.exe", r"user\u202etxt.exe"),
        ("a\r\nb", "a\\r\nb"),
        ("\udc9b", r"\udc9b"),
    ],
)
def test_a_hidden_character_is_written_as_programmers_do(text: str, shown: str) -> None:
    """So that it can be found where it came from."""
    assert printable_lines(text) == shown
