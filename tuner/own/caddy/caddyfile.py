"""A Caddyfile with what it imports, its lines by where they stand, and changes of its text.

Only what is needed to find a line and to change it. What a line means, Caddy itself says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.errors import DefinitionError
from tuner.own.home import Home
from tuner.reading.caddyfile_text import Line, Word, parse

_DEEPEST = 32
_VARIABLE = re.compile(r"\{\$([^}:]+)(?::([^}]*))?\}")
_STEP = "\t"

Spot = tuple[int, ...]
"""Position of a line in its file: its index among its siblings, outermost first."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A line that is wanted in the block of another, with the blocks between."""

    name: str
    args: tuple[str, ...] | None
    """As they are to be written; None: the line goes."""
    within: tuple[tuple[str, ...], ...] = ()
    """Words of the blocks around it: ``(("transport", "http"),)``."""
    formats: tuple[str, ...] = ()
    """All formats of an ``encode``, in order: they stand in its line, or one by one in its block,
    and only there with a level."""
    repeated: bool = False
    """True if lines of this name stand beside each other, each with its own arguments."""


def read(main: str, home: Home) -> dict[str, str]:
    """Return the main file and all that it imports, by absolute path.

    Args:
        main: absolute.
        home: the host whose files they are.

    Raises:
        DefinitionError: a file cannot be read, or is not understood; with its line.
    """
    texts: dict[str, str] = {}
    _read(main, texts, home, 0)
    return texts


def spots(lines: Sequence[Line], above: Spot = ()) -> Iterator[tuple[Spot, Line]]:
    """Yield every line with where it stands."""
    for index, line in enumerate(lines):
        yield (*above, index), line
        yield from spots(line.lines, (*above, index))


def at(lines: Sequence[Line], spot: Spot) -> Line:
    """Return the line that stands there."""
    line = lines[spot[0]]
    return at(line.lines, spot[1:]) if spot[1:] else line


def change(text: str, spot: Spot, setting: Setting) -> str:
    """The text with a setting in the block of the line at ``spot``; all else stays as it is."""
    line = at(parse(text), spot)
    return _applied(text, _pieces(text, line, setting))


def change_global(text: str, words: tuple[str, ...], setting: Setting) -> str:
    """The text with a setting in a new block of the global options, which are made if missing."""
    lines = parse(text)
    inner = Setting(setting.name, setting.args, (words, *setting.within))
    for line in lines:
        if not line.words:
            return _applied(text, _pieces(text, line, inner))
    newline = _newline(text)
    return newline.join(["{", *_nested(inner, _STEP), "}", "", ""]) + text


def with_imports(text: str, file: str, folder: str, home: Home) -> str:
    """Return the text with its imports of files pointing below a folder, where copies of them lie.

    Args:
        text: of the file.
        file: its absolute path.
        folder: of the copies.
        home: the host whose files they are.
    """
    found = _file_imports(parse(text, file), file, home)
    return _applied(
        text, [(word.start, word.end, f"`{folder}{pattern}`") for word, pattern in found]
    )


def inlined(texts: Mapping[str, str], file: str, home: Home) -> str:
    """A file with what it imports in place; imports with arguments stay, as they are not copies."""
    text = texts[file]
    lines = parse(text, file)
    alone = {line.words[1].start for _, line in spots(lines) if len(line.words) == 2}
    pieces = []
    for word, pattern in _file_imports(lines, file, home):
        start = text.rfind("\n", 0, word.start) + 1
        if word.start not in alone:
            continue
        indent = _indent_of(text, word.start)
        inner = (each for each in home.matches(pattern) if each in texts)
        body = "\n".join(inlined(texts, each, home).rstrip("\n") for each in inner)
        rows = [f"{indent}{row}" if row else row for row in body.split("\n")]
        pieces.append((start, word.end, "\n".join(rows)))
    return _applied(text, pieces)


def variables(text: str) -> set[str]:
    """Return the names of the environment's variables that a text is put together of."""
    return {found[1] for found in _VARIABLE.finditer(text)}


def unset(text: str, home: Home) -> list[str]:
    """The variables of a text that have neither a value nor one of their own to fall back."""
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
        # A star means folders too, which Caddy passes over.
        return
    except OSError as error:
        raise DefinitionError(f"cannot be read: {error.strerror}", path=path) from None
    for _, pattern in _file_imports(parse(texts[path], path), path, home):
        for found in home.matches(pattern):
            _read(found, texts, home, depth + 1)


def _file_imports(lines: Sequence[Line], file: str, home: Home) -> Iterator[tuple[Word, str]]:
    snippets = {line.name for line in lines if line.name.startswith("(")}
    for _, line in spots(lines):
        if line.name != "import" or len(line.words) < 2:
            continue
        wanted = _VARIABLE.sub(
            lambda found: home.variables.get(found[1], found[2] or ""), line.words[1].plain
        )
        pattern = os.path.normpath(Path(file).parent / wanted)
        # A snippet goes before a file, and may stand in another one. What is put together of
        # arguments is known to Caddy alone.
        if f"({wanted})" not in snippets and "{" not in wanted and home.matches(pattern):
            yield line.words[1], pattern


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
    # A matcher stands before them, and stays.
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
    """Return lines at the end of a block, which is opened if there is none."""
    newline, start = _newline(text), line.words[0].start if line.words else _brace(line).start
    own = _indent_of(text, start)
    step = _step_of(text)
    rows = [row.replace(_STEP, step) for row in rows]
    if line.opened is None:
        end = line.words[-1].end
        stop = text.find("\n", end)
        stop = len(text) if stop < 0 else stop - (text[stop - 1] == "\r")
        body = "".join(f"{newline}{own}{step}{row}" for row in rows) + f"{newline}{own}}}"
        # A comment behind the words stays on their line.
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
