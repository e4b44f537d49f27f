"""THIRD-PARTY-NOTICES.txt: licences and copyright notices of the software that a wheel contains.

    python -m release.notices [NODE_MODULES]

Reads the licence files of the crates from cargo's registry, and those of the JavaScript packages
from a folder that `npm ci` filled. `make notices` runs it; a test compares the list with the locks.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from release.components import TOP, Component, crate_folders, crates, scripts

NOTICES = TOP / "THIRD-PARTY-NOTICES.txt"

_HEAD = """\
servertune contains the software of others that is listed here. Numbers after a package refer to the
texts at the end. The licence of servertune itself is in LICENSE. `make notices` writes this file.
"""
_CRATES = "Linked into tuner-loadgen (Rust)"
_SCRIPTS = "Part of the script that draws the charts of reports (JavaScript)"
_TEXT = "Text"
_LICENCE_FILE = re.compile(r"(?:un)?licen[cs]e|copying|copyright|notice", re.IGNORECASE)
_LISTED = re.compile(r"^(\S+) (\d\S*)  \(", re.MULTILINE)
# Every program in Rust contains parts of it; its licence files are in no crate.
_STANDARD_LIBRARY = (
    "The Rust standard library, copyright The Rust Project contributors  (MIT OR Apache-2.0)"
)


def listed(text: str) -> set[tuple[str, str]]:
    """Return names and versions of the packages that the notices list."""
    return set(_LISTED.findall(text))


def render(groups: Iterable[tuple[str, Iterable[tuple[Component, Path]]]]) -> str:
    """Return the notices of packages by group; each text appears once.

    Args:
        groups: titles with the packages and the folders of their licence files.

    Raises:
        SystemExit: a package has no licence file.
    """
    numbers: dict[str, int] = {}
    texts: list[str] = []
    parts = [_HEAD]
    for title, packages in groups:
        lines = []
        for component, folder in packages:
            # Licences differ in their line breaks only.
            found = {" ".join(text.split()): text for text in _texts(folder)}
            if not found:
                raise SystemExit(f"{component.purl}: {folder} has no licence file")
            texts += [text for words, text in found.items() if words not in numbers]
            for words in found:
                numbers.setdefault(words, len(numbers) + 1)
            refer = ", ".join(str(numbers[words]) for words in found)
            lines.append(f"{component.name} {component.version}  ({component.licence}): {refer}")
        parts.append("\n".join([title, "-" * len(title), "", *lines, ""]))
    parts[1] += f"\n{_STANDARD_LIBRARY}\n"
    for number, text in enumerate(texts, start=1):
        title = f"{_TEXT} {number}"
        parts.append("\n".join([title, "-" * len(title), "", text, ""]))
    return "\n".join(parts)


def _texts(folder: Path) -> Iterator[str]:
    for file in sorted(folder.iterdir()):
        if file.is_file() and _LICENCE_FILE.match(file.name):
            text = file.read_text(encoding="utf-8", errors="replace")
            yield "\n".join(line.rstrip() for line in text.strip().splitlines())


def main(node_modules: Path) -> None:
    """Write the notices anew."""
    folders = dict(crate_folders())
    linked = [(crate, folders[crate.name, crate.version]) for crate in crates()]
    drawn = [(script, node_modules / script.name) for script in scripts()]
    NOTICES.write_text(render([(_CRATES, linked), (_SCRIPTS, drawn)]), encoding="utf-8")
    print(f"{NOTICES.name}: {len(linked)} crates, {len(drawn)} JavaScript packages")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
