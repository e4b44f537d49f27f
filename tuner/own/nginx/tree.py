"""The user's Nginx configuration as a frozen tree with positions in the files.

Each directive keeps the position of its text and the quotes of its words. Includes are replaced by
their content, as in Nginx.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from tuner.errors import DefinitionError
from tuner.own.copies import Copies, copy_notes, guessed, named
from tuner.own.files import HERE, Files
from tuner.own.missing import MissingFile, refuse
from tuner.own.nginx.unfilled import explained
from tuner.reading import nginx_text
from tuner.reading.nginx_lua import LUA
from tuner.reading.nginx_text import Clause

_DEEPEST = 32
_NEAR = 3
"""Folders above a file in which its main file is looked for."""
OWN_NAMES = ("map", "geo", "types", "split_clients", "charset_map", "match", "perl", "geoip2")
"""Blocks in which the names are values of the user."""
_LEAST_ARGUMENTS = {
    **dict.fromkeys(("listen", "server_name", "location", "root", "alias", "access_log"), 1),
    **dict.fromkeys(("upstream", "if", "return", "error_log", "include", "load_module"), 1),
    **dict.fromkeys(("proxy_pass", "grpc_pass", "fastcgi_pass", "uwsgi_pass", "scgi_pass"), 1),
    **dict.fromkeys(("proxy_set_header", "rewrite", "map", "error_page", "try_files", "set"), 2),
}
"""Arguments without which a directive means nothing, so that all readers may rely on them."""


@dataclass(frozen=True, slots=True)
class TextSpan:
    """The position of a directive's text in its file: offsets of characters."""

    words: tuple[tuple[int, int], ...]
    """Start and end of the name and of each argument, quotes included."""
    end: int
    """Offset after the ``;``, after Lua, or after the ``}`` of a block."""
    inside: int | None = None
    """Offset after the ``{`` of a block."""

    @property
    def start(self) -> int:
        """Offset of the name."""
        return self.words[0][0]


@dataclass(frozen=True, slots=True)
class Directive:
    """A directive, with its content if it is a block."""

    name: str
    args: tuple[str, ...]
    """Without the quotes."""
    file: str
    line: int
    """1-based."""
    block: tuple[Directive, ...] | None = None
    """Content of a block, including included directives; None if it is not a block."""
    written: tuple[str, ...] = ()
    """Name and arguments with quotes as in the file; empty for a new directive."""
    place: TextSpan | None = None
    """Position; None for a new directive."""

    @property
    def where(self) -> str:
        """``/etc/nginx/nginx.conf:12``."""
        return f"{self.file}:{self.line}"

    @property
    def is_lua(self) -> bool:
        """True for Lua between braces, which is the last argument and ends the directive."""
        return self.name.endswith(LUA)

    @property
    def key(self) -> tuple[str, int]:
        """Identity among all directives: its file, and its offset."""
        return self.file, self.place.start if self.place else -1

    @property
    def words(self) -> tuple[str, ...]:
        """Name and arguments to write."""
        return self.written or (self.name, *self.args)

    def children(self, *names: str) -> Iterator[Directive]:
        """Yield the directives of these names directly in this block."""
        return (child for child in self.block or () if child.name in names)


@dataclass(frozen=True, slots=True)
class Tree:
    """A whole configuration."""

    file: str
    """The main file."""
    directives: tuple[Directive, ...]
    texts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """All files, unchanged; bytes that are not UTF-8 are lone surrogates."""
    copies: Copies = field(default_factory=Copies)
    """Folders that stand for others."""
    notes: tuple[str, ...] = ()
    """Notes on files that were found in another place."""
    around: str = ""
    """Main file in a folder above; empty without one."""
    unmatched: tuple[str, ...] = ()
    """Includes with a mask that no file matches, in words."""

    def located(self, path: str) -> str:
        """Return where a file is that the configuration names."""
        return self.copies.located(str(PurePosixPath(self.file).parent / path))

    def children(self, *names: str) -> Iterator[Directive]:
        """Yield the directives of these names on the outermost level."""
        return (found for found in self.directives if found.name in names)

    def walk(self) -> Iterator[Directive]:
        """Yield every directive, a block before its content."""
        return walk(self.directives)

    def http(self) -> Directive:
        """Return the block ``http``.

        Raises:
            DefinitionError: there is none.
        """
        for found in self.children("http"):
            return found
        server = next(self.children("server"), None)
        if server is not None and self.around:
            names = [name for one in server.children("server_name") for name in one.args]
            option = next((f" --server-name {name}" for name in names if name[:1].isalnum()), "")
            raise DefinitionError(
                f"is a file that {self.around} may include; name that one: --config"
                f" {self.around}{option}",
                path=self.file,
            )
        alone = f", or write one: events {{}} http {{ include {self.file}; }}" if server else ""
        raise DefinitionError(
            "holds no http block; name the main file, which includes the others (--config"
            f" /etc/nginx/nginx.conf){alone}",
            path=self.file,
        )


def walk(directives: Iterable[Directive]) -> Iterator[Directive]:
    """Yield every directive of a list, a block before its content."""
    for directive in directives:
        yield directive
        yield from walk(directive.block or ())


def parse(path: str | Path, files: Files = HERE, prefix: Sequence[str] = ()) -> Tree:
    """Read a configuration with its includes.

    Relative includes start at the main file's folder, as in Nginx. Absolute ones are read from
    the copies that ``prefix`` names. A main file of this machine outside of its installed
    configurations is part of a copy: its folder stands for the path that its other includes share.

    Args:
        path: path of the main file; absolute for another host.
        files: files of the host.
        prefix: ``/etc/nginx=FOLDER`` for every copied folder.

    Raises:
        DefinitionError: a file cannot be read, or is not a configuration of Nginx; with its line.
    """
    reader = _Reader(Path(path).absolute(), files, named(prefix), guess=files is HERE)
    directives = reader.file(str(reader.main), None, 0)
    has_http = any(found.name == "http" for found in directives)
    tree = Tree(
        str(reader.main),
        directives,
        MappingProxyType(reader.texts),
        reader.copies,
        tuple(dict.fromkeys(reader.notes)),
        around="" if has_http else _around(str(reader.main), files),
        unmatched=tuple(reader.unmatched),
    )
    if reader.missing and any(tree.children("server")):
        # Its relative includes start at the folder of its main file, so that they are not missing.
        tree.http()
    refuse(reader.missing, reader.copies, str(reader.main), files)
    _check_arguments(directives)
    return tree


def _around(path: str, files: Files) -> str:
    """Return ``nginx.conf`` of a folder above; empty without one."""
    above = (str(folder / "nginx.conf") for folder in PurePosixPath(path).parents[:_NEAR])
    return next((main for main in above if main != path and files.matches(main)), "")


def write(directives: Iterable[Directive], indent: str = "") -> str:
    """Return the directives as one text, one per line, with their original words."""
    return "".join(f"{line}\n" for line, _ in lines(directives, indent))


def lines(directives: Iterable[Directive], indent: str = "") -> Iterator[tuple[str, Directive]]:
    """Yield the lines of ``write``, each with its directive."""
    for directive in directives:
        # A quoted word may contain line breaks, which are part of the value.
        text = indent + " ".join(directive.words)
        end = "" if directive.is_lua else ";" if directive.block is None else " {"
        yield from ((part, directive) for part in f"{text}{end}".split("\n"))
        if directive.block is not None:
            yield from lines(directive.block, indent + "    ")
            yield f"{indent}}}", directive


def words_of(found: Directive) -> str:
    """Return a directive's name and arguments on one line; Lua as three dots."""
    args = (*found.args[:-1], "{…}") if found.is_lua else found.args
    return " ".join(" ".join((found.name, *args)).split())


def equal(one: Iterable[Directive], other: Iterable[Directive]) -> bool:
    """Return whether two lists of directives are equal, except for positions."""
    return _meaning(one) == _meaning(other)


def _meaning(directives: Iterable[Directive]) -> list[Any]:
    return [
        (found.name, found.args, None if found.block is None else _meaning(found.block))
        for found in directives
    ]


class _Reader:
    """A reader of files that reads each once and joins them."""

    def __init__(self, main: Path, files: Files, copies: Copies, *, guess: bool) -> None:
        self.main = main
        self.lying = files
        self.copies = copies
        self.texts: dict[str, str] = {}
        self.notes: list[str] = []
        self.missing: list[MissingFile] = []
        self.unmatched: list[str] = []
        self._guess = guess
        self._clauses: dict[str, tuple[Clause, ...]] = {}

    def file(self, path: str, source: Directive | None, depth: int) -> tuple[Directive, ...]:
        if depth > _DEEPEST:
            raise DefinitionError(
                f"includes are nested more than {_DEEPEST} deep: a file includes itself",
                path=source.file if source else path,
                line=source.line if source else None,
            )
        if path not in self.texts:
            self.texts[path] = _read(self.lying, path, source)
            if self.texts[path].startswith("\ufeff"):
                raise DefinitionError(
                    "begins with a byte order mark, which Nginx takes for part of a name; save it"
                    " as UTF-8 without one",
                    path=path,
                    line=1,
                )
        try:
            return self._parse(path, depth)
        except DefinitionError as error:
            if error.path != path:
                raise
            raise explained(error, self.texts[path]) from None

    def _parse(self, path: str, depth: int) -> tuple[Directive, ...]:
        if path not in self._clauses:
            self._clauses[path] = nginx_text.parse(self.texts[path], path)
            if self._guess:
                self._copied(list(_includes(self._clauses[path])))
        return tuple(self._block(path, self._clauses[path], depth))

    def _block(self, path: str, clauses: Iterable[Clause], depth: int) -> Iterator[Directive]:
        for clause in clauses:
            inside = None
            if clause.block is not None:
                inside = tuple(self._block(path, clause.block, depth))
            found = _directive(path, clause, inside)
            if found.name == "include" and found.args and inside is None:
                yield from self._include(found, depth)
            else:
                yield found

    def _include(self, include: Directive, depth: int) -> Iterator[Directive]:
        for path in self._files(include):
            yield from self.file(path, include, depth + 1)

    def _copied(self, includes: Sequence[str]) -> None:
        """Guess the path for which the main file's folder stands."""
        copies = guessed(str(self.main), includes, self.lying, self.copies)
        self._guess = copies == self.copies
        self.notes += copy_notes(str(self.main), copies, self.copies)
        self.copies = copies

    def _files(self, include: Directive) -> list[str]:
        """Return the files of an include, in Nginx's order."""
        wanted = str(self.main.parent / include.args[0])
        place = self.copies.located(wanted)
        found = [] if self.copies.is_foreign(wanted) else self.lying.matches(place)
        if not found and self.copies.followed(place) != place:
            found = [place]
        found = [self.copies.followed(path) for path in found]
        lacking = [path for path in found if self.copies.is_copy and not self.lying.matches(path)]
        # A mask without matches is an empty include in Nginx.
        masked = glob.has_magic(wanted)
        if masked and not found:
            self.unmatched.append(f"{include.where}: no file matches {include.args[0]}")
        if masked and not found and self.copies.is_copy:
            self.notes.append(f"{include.where}: no file of the copy matches {include.args[0]}")
        if not (found or masked):
            lacking.append(wanted if self.copies.is_foreign(wanted) else place)
        self.missing += [
            MissingFile(
                f"include {include.args[0]!r}",
                path if masked else wanted,
                path,
                include.file,
                include.line,
            )
            for path in lacking
        ]
        return [path for path in found if path not in lacking]


def _includes(clauses: Iterable[Clause]) -> Iterator[str]:
    """Yield the absolute paths and masks of the includes in a file."""
    for clause in clauses:
        if clause.name == "include" and len(clause.words) > 1:
            word = clause.words[1].plain
            if word.startswith("/"):
                yield word
        yield from _includes(clause.block or ())


def _directive(path: str, clause: Clause, block: tuple[Directive, ...] | None) -> Directive:
    """Return a directive of a file; ``block`` is its content with includes resolved."""
    name, *args = clause.plain
    place = TextSpan(
        tuple((word.start, word.end) for word in clause.words), clause.end, clause.inside
    )
    return Directive(
        name=name,
        args=tuple(args),
        file=path,
        line=clause.line,
        block=block,
        written=tuple(word.text for word in clause.words),
        place=place,
    )


def _read(files: Files, path: str, source: Directive | None) -> str:
    try:
        # Bytes, so that line ends and stray bytes survive.
        return files.read(path).decode("utf-8", "surrogateescape")
    except OSError as error:
        remedy = "; run as a user who may read it" if isinstance(error, PermissionError) else ""
        message = f"{path}: " if source else ""
        raise DefinitionError(
            f"{message}cannot be read: {error.strerror}{remedy}",
            path=source.file if source else path,
            line=source.line if source else None,
        ) from None


def _check_arguments(directives: Iterable[Directive]) -> None:
    for found in directives:
        count, least = len(found.args), _LEAST_ARGUMENTS.get(found.name, 0)
        if count < least:
            said = f"has {count} argument, and needs {least}" if count else "has no argument"
            raise DefinitionError(f"{found.name} {said}", path=found.file, line=found.line)
        if found.name not in OWN_NAMES:
            _check_arguments(found.block or ())
