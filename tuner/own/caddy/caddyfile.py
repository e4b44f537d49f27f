"""A Caddyfile with its imports, positions of its lines, and changes of its text.

The module only locates and changes lines. Caddy itself interprets them.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.errors import DefinitionError
from tuner.own.home import Home
from tuner.own.missing import MissingFile
from tuner.reading.caddyfile_text import Line, Word, parse

_DEEPEST = 32
_VARIABLE = re.compile(r"\{\$([^}:]+)(?::([^}]*))?\}")
_STEP = "\t"

Spot = tuple[int, ...]
"""Position of a line in its file: its index among its siblings, outermost first."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A wanted line in the block of another one, with the blocks between."""

    name: str
    args: tuple[str, ...] | None
    """Arguments to write; None: remove the line."""
    within: tuple[tuple[str, ...], ...] = ()
    """Words of the enclosing blocks: ``(("transport", "http"),)``."""
    formats: tuple[str, ...] = ()
    """All formats of an ``encode``, in order: in its line, or in its block with levels."""
    repeated: bool = False
    """True if several lines of this name with different arguments can coexist."""


def read(main: str, home: Home) -> dict[str, str]:
    """Return the main file and its imports, by absolute path.

    Args:
        main: absolute path of the main file.
        home: the host of the files.

    Raises:
        DefinitionError: a file cannot be read or parsed, with its line.
    """
    texts: dict[str, str] = {}
    _read(main, texts, home, 0)
    return texts


def missing(main: str, home: Home) -> list[MissingFile]:
    """Return the files that a configuration imports by an absolute path and that are not there."""
    texts = read(main, home)
    return [each for file, text in texts.items() for each in _missing(text, file, home)]


def absolute_imports(text: str, file: str, home: Home) -> list[str]:
    """Return the absolute paths and masks of the imports in a text."""
    found = _imports(parse(text, file), file, home)
    return [wanted for word, wanted in found if word.plain.startswith("/")]


def spots(lines: Sequence[Line], above: Spot = ()) -> Iterator[tuple[Spot, Line]]:
    """Yield every line with its position."""
    for index, line in enumerate(lines):
        yield (*above, index), line
        yield from spots(line.lines, (*above, index))


def at(lines: Sequence[Line], spot: Spot) -> Line:
    """Return the line at a position."""
    line = lines[spot[0]]
    return at(line.lines, spot[1:]) if spot[1:] else line


def change(text: str, spot: Spot, setting: Setting) -> str:
    """Return the text with a setting in the block of the line at ``spot``."""
    line = at(parse(text), spot)
    return _applied(text, _pieces(text, line, setting))


def change_global(text: str, words: tuple[str, ...], setting: Setting) -> str:
    """Return the text with a setting in a new block of the global options."""
    lines = parse(text)
    inner = Setting(setting.name, setting.args, (words, *setting.within))
    for line in lines:
        if not line.words:
            return _applied(text, _pieces(text, line, inner))
    newline = _newline(text)
    return newline.join(["{", *_nested(inner, _STEP), "}", "", ""]) + text


def with_imports(text: str, file: str, folder: str, home: Home) -> str:
    """Return the text with its file imports redirected to copies below a folder.

    Files that a copied configuration lacks are redirected as well: Caddy must not read this
    machine's in their place.

    Args:
        text: text of the file.
        file: its absolute path.
        folder: folder of the copies.
        home: the host of the files.
    """
    pieces = []
    for word, wanted in _imports(parse(text, file), file, home):
        if _matches(wanted, home) or (home.is_copy and word.plain.startswith("/")):
            place = home.located(wanted) or wanted
            pieces.append((word.start, word.end, f"`{folder}{place}`"))
    return _applied(text, pieces)


def inlined(texts: Mapping[str, str], file: str, home: Home) -> str:
    """Return a file with its imports inlined, except imports with arguments."""
    text = texts[file]
    lines = parse(text, file)
    alone = {line.words[1].start for _, line in spots(lines) if len(line.words) == 2}
    pieces = []
    for word, pattern in _file_imports(lines, file, home):
        start = text.rfind("\n", 0, word.start) + 1
        if word.start not in alone:
            continue
        indent = _indent_of(text, word.start)
        inner = (each for each in _matches(pattern, home) if each in texts)
        body = "\n".join(inlined(texts, each, home).rstrip("\n") for each in inner)
        rows = [f"{indent}{row}" if row else row for row in body.split("\n")]
        pieces.append((start, word.end, "\n".join(rows)))
    return _applied(text, pieces)


def unmatched(texts: Mapping[str, str], home: Home) -> list[str]:
    """Return the absolute masks of imports that no file matches; Caddy ignores them."""
    found = (each for file, text in texts.items() for each in _imports(parse(text), file, home))
    return [mask for _, mask in found if "*" in mask and not _matches(mask, home)]


def count_sites(texts: Mapping[str, str], file: str, home: Home) -> int:
    """Return the number of sites in a file and its imports, without those that only redirect.

    https://caddyserver.com/docs/caddyfile/concepts#structure
    """
    count = 0
    lines = parse(texts[file], file)
    imported = {word.start: pattern for word, pattern in _file_imports(lines, file, home)}
    for line in lines:
        if line.opened is None and line.name == "import":
            found = imported.get(line.words[1].start) if len(line.words) > 1 else None
            files = _matches(found, home) if found else []
            count += sum(count_sites(texts, each, home) for each in files if each in texts)
        elif not line.name or line.name.startswith(("(", "&(")):
            continue  # global options, a snippet, a named route
        elif line.opened is not None:
            count += not any(map(_redirects_all, line.lines))
        elif not line.texts[-1].endswith(","):
            return count + 1  # a single site without braces
    return count


def _redirects_all(line: Line) -> bool:
    """Return whether a line redirects every request: its first argument is not a matcher."""
    return line.name == "redir" and len(line.texts) > 1 and line.texts[1][:1] not in ("/", "@")


def variables(text: str) -> set[str]:
    """Return the names of the environment variables that a text uses."""
    return {found[1] for found in _VARIABLE.finditer(text)}


def unset(text: str, home: Home) -> list[str]:
    """Return the variables of a text without a value and a default."""
    bare = {found[1] for found in _VARIABLE.finditer(text) if found[2] is None}
    return sorted(name for name in bare if not home.variables.get(name))


# --- reading ---------------------------------------------------------------------------------


def _read(path: str, texts: dict[str, str], home: Home, depth: int) -> None:
    if path in texts:
        return
    if depth > _DEEPEST:
        raise DefinitionError(f"imports are nested more than {_DEEPEST} deep", path=path)
    try:
        texts[path] = home.read(path).decode("utf-8", "surrogateescape")
    except IsADirectoryError:
        # A star also matches folders, which Caddy skips.
        return
    except OSError as error:
        raise DefinitionError(f"cannot be read: {error.strerror}", path=path) from None
    for _, pattern in _file_imports(parse(texts[path], path), path, home):
        for found in _matches(pattern, home):
            _read(found, texts, home, depth + 1)


def _file_imports(lines: Sequence[Line], file: str, home: Home) -> Iterator[tuple[Word, str]]:
    # A snippet of another file has no match either.
    return (found for found in _imports(lines, file, home) if _matches(found[1], home))


def _matches(wanted: str, home: Home) -> list[str]:
    """Return the files of an import; a copy has none of this machine's own."""
    place = home.located(wanted)
    return home.matches(place) if place else []


def _missing(text: str, file: str, home: Home) -> Iterator[MissingFile]:
    for word, wanted in _imports(parse(text, file), file, home):
        absolute = word.plain.startswith("/")
        if absolute and not glob.has_magic(wanted) and not _matches(wanted, home):
            line = text.count("\n", 0, word.start) + 1
            place = home.located(wanted) or wanted
            yield MissingFile(f"import {word.plain}", wanted, place, file, line)


def _imports(lines: Sequence[Line], file: str, home: Home) -> Iterator[tuple[Word, str]]:
    """Yield the imports of files, or of snippets elsewhere, with their absolute patterns."""
    snippets = {line.name for line in lines if line.name.startswith("(")}
    for _, line in spots(lines):
        if line.name != "import" or len(line.words) < 2:
            continue
        wanted = _VARIABLE.sub(
            lambda found: home.variables.get(found[1], found[2] or ""), line.words[1].plain
        )
        # A snippet takes precedence over a file. Only Caddy can resolve names from arguments.
        if f"({wanted})" not in snippets and "{" not in wanted:
            yield line.words[1], os.path.normpath(Path(file).parent / wanted)


# --- changes ---------------------------------------------------------------------------------

_Piece = tuple[int, int, str]


def _pieces(text: str, line: Line, setting: Setting) -> list[_Piece]:
    if setting.formats and not any(child.name in setting.formats for child in line.lines):
        return _formats(text, line, setting)
    if setting.within:
        words, rest = setting.within[0], setting.within[1:]
        for child in line.lines:
            if child.texts == words:
                inner = Setting(setting.name, setting.args, rest)
                return _pieces(text, child, inner)
        return [] if setting.args is None else _added(text, line, _nested(setting, ""))
    for child in line.lines:
        if child.name == setting.name and not setting.repeated:
            return [_replaced(text, child, setting.args)]
    return [] if setting.args is None else _added(text, line, _nested(setting, ""))


def _formats(text: str, line: Line, setting: Setting) -> list[_Piece]:
    """Return ``encode zstd gzip`` with a level: the formats move into a block."""
    # A matcher before them stays.
    stays = [word for word in line.words if word.plain not in setting.formats]
    args = " ".join(("", *(setting.args or ())))
    rows = [f"{name}{args if name == setting.name else ''}" for name in setting.formats]
    return [(stays[-1].end, line.words[-1].end, ""), *_added(text, line, rows)]


def _nested(setting: Setting, indent: str) -> list[str]:
    """Return the setting as lines, with its blocks around it."""
    head = [f"{indent}{_STEP * i}{' '.join(w)} {{" for i, w in enumerate(setting.within)]
    inner = f"{indent}{_STEP * len(setting.within)}" + " ".join(
        (setting.name, *(setting.args or ()))
    )
    tail = [f"{indent}{_STEP * i}}}" for i in reversed(range(len(setting.within)))]
    return [*head, inner, *tail]


def _added(text: str, line: Line, rows: Sequence[str]) -> list[_Piece]:
    """Return lines for the end of a block, with a new block if it is missing."""
    newline, start = _newline(text), line.words[0].start if line.words else _brace(line).start
    own = _indent_of(text, start)
    step = _step_of(text)
    rows = [row.replace(_STEP, step) for row in rows]
    if line.opened is None:
        end = line.words[-1].end
        stop = text.find("\n", end)
        stop = len(text) if stop < 0 else stop - (text[stop - 1] == "\r")
        body = "".join(f"{newline}{own}{step}{row}" for row in rows) + f"{newline}{own}}}"
        # A comment after the words stays on their line.
        return [(end, end, f" {{{body}")] if end == stop else [(end, end, " {"), (stop, stop, body)]
    assert line.closed is not None  # noqa: S101 - what was opened was closed
    indent = own + step
    if line.lines:
        first = line.lines[0]
        indent = _indent_of(text, (first.words[0] if first.words else _brace(first)).start)
    begin = text.rfind("\n", 0, line.closed.start) + 1
    return [(begin, begin, "".join(f"{indent}{row}{newline}" for row in rows))]


def _replaced(text: str, line: Line, args: tuple[str, ...] | None) -> _Piece:
    if args is None:
        begin = text.rfind("\n", 0, line.words[0].start) + 1
        last = line.closed or line.words[-1]
        stop = text.find("\n", last.end)
        return begin, len(text) if stop < 0 else stop + 1, ""
    name, *old = line.words
    if not old:
        return name.end, name.end, "".join(f" {arg}" for arg in args)
    return old[0].start, old[-1].end, " ".join(args)


def _applied(text: str, pieces: Sequence[_Piece]) -> str:
    for start, end, words in sorted(pieces, reverse=True):
        text = text[:start] + words + text[end:]
    return text


def _brace(line: Line) -> Word:
    assert line.opened is not None  # noqa: S101 - only a block has no words
    return line.opened


def _indent_of(text: str, start: int) -> str:
    begin = text.rfind("\n", 0, start) + 1
    found = re.match(r"[ \t]*", text[begin:start])
    return found.group() if found else ""


def _step_of(text: str) -> str:
    """Return the file's indentation: a tab, as ``caddy fmt`` writes, or blanks."""
    found = re.search(r"^(\t| {2,8})\S", text, re.MULTILINE)
    return found[1] if found else _STEP


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
