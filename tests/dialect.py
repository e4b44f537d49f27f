"""Counts of words with a plainer form, in documentation, help, docstrings and messages.

``python -m tests.dialect`` writes the list of allowed numbers anew.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CODE = ("tuner", "playbooks", "benchmarks", "release", "action", "hub", "tests")
ALLOWED = Path(__file__).with_name("dialect.txt")

WORDS = {
    "told": r"\b(?:told|tells?|telling)\b",
    "is no": r"\b(?:is|are|was|were) no\b(?! longer)",
    "beside": r"\bbesides?\b",
    "whoever": r"\b(?:whoever|whatever|whose|whosoever)\b",
    "so many": r"\bso (?:many|much|long|few)\b",
}
"""Words of prose that have a plainer form, by the name in the list."""
OPENINGS = {
    "Of …": r"Of\b",
    "What …": r"What\b",
    "Whether …": r"Whether\b",
    "It …": r"It\b",
    "How …": r"How\b",
    "Who …": r"Who(?:ever|se)?\b",
    "See ``X``": r"See ``",
}
"""Beginnings of docstrings that are neither a sentence with its verb first nor a noun phrase."""

_PROSE = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in WORDS.items()}
_FIRST = {name: re.compile(pattern) for name, pattern in OPENINGS.items()}
_RUST_DOC = re.compile(r"(?:^[ ]*//[/!].*\n)+", re.MULTILINE)
_NOT_PROSE = re.compile(
    r"^```.*?^```|`+[^`\n]+`+|\]\([^)]*\)|https?://\S+", re.DOTALL | re.MULTILINE
)
"""Blocks of code, code within a line, targets of links, and addresses."""


def counts() -> Counter[tuple[str, str]]:
    """Return how often each word stands in each file: in documentation, and in text of the code."""
    found: Counter[tuple[str, str]] = Counter()
    for page in pages():
        found += of_text(_name(page), page.read_text(encoding="utf-8"))
    for module in modules():
        found += of_module(_name(module), module.read_text(encoding="utf-8"))
    for folder in ("src", "tests"):
        for file in sorted((ROOT / "loadgen" / folder).rglob("*.rs")):
            found += of_rust(_name(file), file.read_text(encoding="utf-8"))
    return found


def modules() -> list[Path]:
    """Return the project's modules, with the programs that it copies to hosts."""
    return sorted(path for folder in CODE for path in (ROOT / folder).rglob("*.py"))


def pages() -> list[Path]:
    """Return the pages of the documentation."""
    return [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
        *(ROOT / folder / "README.md" for folder in ("loadgen", "playbooks")),
        *sorted((ROOT / "docs").rglob("*.md")),
    ]


def allowed() -> Counter[tuple[str, str]]:
    """Return the counts that the list allows."""
    found: Counter[tuple[str, str]] = Counter()
    for line in ALLOWED.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            number, word, name = re.split(r"\s{2,}", line.strip())
            found[name, word] = int(number)
    return found


def written(found: Counter[tuple[str, str]]) -> str:
    """Return counts as the text of the list."""
    rows = [f"{number:>3}  {word:<10}  {name}" for (name, word), number in sorted(found.items())]
    return "\n".join(rows) + "\n"


def of_module(name: str, text: str) -> Counter[tuple[str, str]]:
    """Return the counts of a module's docstrings, help and messages."""
    tree = ast.parse(text)
    found: Counter[tuple[str, str]] = Counter()
    for string in _strings(tree):
        found += of_text(name, string)
    for docstring in _docstrings(tree):
        found += Counter(
            (name, word) for word, pattern in _FIRST.items() if pattern.match(docstring)
        )
    return found


def of_rust(name: str, text: str) -> Counter[tuple[str, str]]:
    """Return the counts of a Rust file's documentation."""
    found: Counter[tuple[str, str]] = Counter()
    for block in _RUST_DOC.findall(text):
        prose = re.sub(r"^\s*//[/!] ?", "", block, flags=re.MULTILINE)
        found += of_text(name, prose)
        found += Counter((name, word) for word, pattern in _FIRST.items() if pattern.match(prose))
    return found


def of_text(name: str, text: str) -> Counter[tuple[str, str]]:
    """Return the counts of a text in Markdown, as docstrings are too."""
    prose = _NOT_PROSE.sub(" ", text)
    return Counter({(name, word): n for word, p in _PROSE.items() if (n := len(p.findall(prose)))})


def _strings(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _docstrings(tree: ast.AST) -> Iterator[str]:
    """Yield docstrings: those of modules, classes and functions, and of fields below them."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for inner in body if isinstance(body, list) else ():
            value = inner.value if isinstance(inner, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.value


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


if __name__ == "__main__":
    ALLOWED.write_text(written(counts()), encoding="utf-8")
