"""Documentation, help, docstrings and messages keep to plain English.

``tests/dialect.txt`` lists how often each file may use a word that has a plainer form. The numbers
only fall: rewrite the sentence (CONTRIBUTING.md says how). After a file became plainer, or moved,
renew the list and look at its difference::

    .venv/bin/python -m tests.dialect
"""

from __future__ import annotations

from collections import Counter

from tests import dialect

MODULE = '''
"""What a module does."""

def told() -> str:
    """See ``Port.told``."""
    raise Error("there is no way, whoever asks")  # told in a comment

def plain() -> str:
    """Return the whole; `so many` is code."""
'''


def test_the_words_do_not_come_back() -> None:
    """No file uses one more often than the list says; a moved file takes its number along."""
    found, allowed = dialect.counts(), dialect.allowed()
    totals = {word: _total(found, word) - _total(allowed, word) for _, word in found}
    risen = [
        f"{name}: {word!r} {number} times, {allowed[name, word]} allowed"
        for (name, word), number in sorted(found.items())
        if number > allowed[name, word] and totals[word] > 0
    ]
    assert risen == [], "write it plainly; see tests/test_dialect.py"


def test_strings_and_docstrings_are_counted() -> None:
    """Words in names, comments and code are not."""
    assert dialect.of_module("m.py", MODULE) == Counter(
        {
            ("m.py", "What …"): 1,
            ("m.py", "See ``X``"): 1,
            ("m.py", "is no"): 1,
            ("m.py", "whoever"): 1,
        }
    )


def test_documentation_of_rust_is_counted() -> None:
    """The first line of a block begins it; ordinary comments are left out."""
    text = "//! What it does.\n\n/// Whether so.\n/// It is told.\nlet x; // told\n"
    assert dialect.of_rust("m.rs", text) == Counter(
        {("m.rs", "What …"): 1, ("m.rs", "Whether …"): 1, ("m.rs", "told"): 1}
    )


def test_code_and_links_of_a_page_are_not_prose() -> None:
    """Only sentences are."""
    page = "```\nso long\n```\nIt is told [here](told.md), `whoever` asks."
    assert dialect.of_text("p.md", page) == Counter({("p.md", "told"): 1})


def _total(counts: Counter[tuple[str, str]], word: str) -> int:
    return sum(number for (_, other), number in counts.items() if other == word)
