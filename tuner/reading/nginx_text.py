"""Nginx's configuration as words and clauses, by the grammar of Nginx's own reader.

The words are those of ``ngx_conf_read_token``, and the blocks those of ``ngx_conf_parse``
(https://github.com/nginx/nginx/blob/master/src/core/ngx_conf_file.c). ``tests/reading`` compares
both with a real Nginx.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tuner.errors import DefinitionError
from tuner.reading.nginx_lua import LUA, end_of_lua
from tuner.reading.statement import Statement

_DEEPEST = 100
"""Blocks within each other; Nginx has no limit, and no configuration a tenth of it."""
_BUFFER = 4096
"""Bytes of a word or a comment that Nginx can hold, with the character that ends it."""
_TOKEN = re.compile(
    r"""
    (?P<blank> [ \t\r\n]++ )
    | (?P<comment> \#[^\n]*+ )
    | (?P<mark> [;{}] )
    | (?P<quoted> "(?: [^"\\] | \\. )*+" | '(?: [^'\\] | \\. )*+' )
    # Braces after a dollar sign belong to the word, and so do a quote, a closing brace and a number
    # sign within it.
    | (?P<bare> (?!["']) (?: [^ \t\r\n;{\\$] | \\. | \$\{*+ )++ )
    """,
    re.VERBOSE | re.DOTALL,
)
_AFTER_QUOTED = " \t\r\n;{)"
_ESCAPED = re.compile(r"\\([\"'\\trn])")
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n"}


@dataclass(frozen=True, slots=True)
class Token:
    """A word, or a separator between words."""

    kind: str
    """``word``, ``;``, ``{``, ``}``, or ``lua`` for Lua with its braces."""
    text: str
    """Text in the file, quotes included."""
    start: int
    end: int
    line: int
    """Number of the line where it begins, from 1."""

    @property
    def plain(self) -> str:
        """The word as Nginx understands it."""
        return self.text if self.kind == "lua" else plain_word(self.text)


@dataclass(frozen=True, slots=True)
class Clause:
    """A directive as one file has it, before includes are resolved."""

    words: tuple[Token, ...]
    """Name and arguments; Lua between braces is the last one, and ends the clause."""
    end: int
    """Offset after the ``;``, after Lua, or after the ``}`` of a block."""
    inside: int | None = None
    """Offset after the ``{`` of a block."""
    block: tuple[Clause, ...] | None = None
    """Content of a block; None if it is not a block."""

    @property
    def name(self) -> str:
        """The first word, without its quotes."""
        return self.words[0].plain

    @property
    def line(self) -> int:
        """Number of the line with the name, from 1."""
        return self.words[0].line

    @property
    def plain(self) -> tuple[str, ...]:
        """Name and arguments as Nginx understands them."""
        return tuple(word.plain for word in self.words)


def plain_word(word: str) -> str:
    r"""Return a word as Nginx understands it: without its quotes, and with escapes replaced.

    Nginx replaces ``\"``, ``\'``, ``\\``, ``\t``, ``\r`` and ``\n``, also outside of quotes. A
    backslash before another character stays.
    """
    quoted = len(word) > 1 and word[0] in "\"'" and word[-1] == word[0]
    inner = word[1:-1] if quoted else word
    return _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), inner)


def scan(text: str, path: str = "") -> Iterator[Token]:
    """Yield the words and separators of a file, without comments.

    Lua between braces is one token.

    Raises:
        DefinitionError: a quote or Lua is not closed, a word is too long, or a quoted word is
            followed by a character that Nginx refuses there.
    """
    at, line, name = 0, 1, ""
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _unreadable(text, at, path, line)
        kind, begins, at = found.lastgroup, at, found.end()
        if kind == "mark" and found[0] == "{" and name.endswith(LUA):
            at = end_of_lua(text, begins, path, line)
            yield Token("lua", text[begins:at], begins, at, line)
            name = ""
        elif kind == "mark":
            yield Token(found[0], found[0], begins, at, line)
            name = ""
        elif kind in ("bare", "quoted"):
            if kind == "quoted" and at < len(text) and text[at] not in _AFTER_QUOTED:
                wrong = line + found[0].count("\n")
                raise _refused(f'unexpected "{text[at]}" after a quoted word', path, wrong)
            word = Token("word", found[0], begins, at, line)
            name = name or word.plain
            yield word
        if kind != "blank" and at - begins >= _BUFFER // 4:
            _check_length(found[0], kind, path, line, ends_file=at == len(text))
        line += text.count("\n", begins, at)


def parse(text: str, path: str = "") -> tuple[Clause, ...]:
    """Return the directives of a file, with the content of blocks nested in them.

    Raises:
        DefinitionError: it is not a configuration of Nginx; with the line.
    """
    clauses: list[Clause] = []
    words: list[Token] = []
    # Of each open block: its words, the offset of its content, and the clauses around it.
    around: list[tuple[tuple[Token, ...], int, list[Clause]]] = []
    for token in scan(text, path):
        if token.kind == "word":
            words.append(token)
            continue
        if token.kind == "}":
            if words:
                raise _not_ended(words, path)
            if not around:
                raise _refused('unexpected "}"', path, token.line)
            head, inside, outer = around.pop()
            outer.append(Clause(head, token.end, inside, tuple(clauses)))
            clauses = outer
            continue
        if token.kind == "lua":
            clauses.append(Clause((*words, token), token.end))
        elif not words:
            raise _refused(f'unexpected "{token.kind}"', path, token.line)
        elif token.kind == ";":
            clauses.append(Clause(tuple(words), token.end))
        else:
            if len(around) >= _DEEPEST:
                raise _refused(f"nested more than {_DEEPEST} deep", path, token.line)
            around.append((tuple(words), token.end, clauses))
            clauses = []
        words = []
    if words:
        raise _not_ended(words, path)
    if around:
        name = around[-1][0][0]
        raise _refused(
            f'unexpected end of file: the block {name.plain} has no "}}"', path, name.line
        )
    return tuple(clauses)


def statements(text: str) -> Iterator[Statement]:
    """Yield the statements of a text, a block's head before its content.

    Unlike ``parse``, this accepts a part of a file: blocks that are not closed or not opened, and
    words without an end, which it leaves out.

    Raises:
        DefinitionError: the words cannot be read, or there is Lua between braces.
    """
    words: list[str] = []
    within: list[tuple[str, ...]] = []
    for token in scan(text):
        if token.kind == "word":
            words.append(token.plain)
            continue
        if token.kind == "lua":
            file = words[0].removesuffix("block") + "file"
            raise DefinitionError(
                f"{words[0]}: Lua between braces is not supported; put it into a file ({file})"
            )
        if words:
            yield Statement(tuple(words), tuple(within))
        if token.kind == "{":
            within.append(tuple(words))
        elif token.kind == "}" and within:
            within.pop()
        words = []


def _unreadable(text: str, at: int, path: str, line: int) -> DefinitionError:
    """Return the error about a quote without an end, or a backslash that ends the file."""
    if text[at] in "\"'":
        return DefinitionError("a quote is opened here and never closed", path=path, line=line)
    return _refused("unexpected end of file after a backslash", path, line)


def _check_length(word: str, kind: str | None, path: str, line: int, *, ends_file: bool) -> None:
    """Raise DefinitionError if Nginx's buffer does not hold a word or a comment.

    The opening quote is not part of what it holds, and the character that ends the word is. Nginx
    counts bytes, and a surrogate stands for one.
    """
    size = len(word.encode("utf-8", "replace")) - (kind == "quoted") + (not ends_file)
    if size > _BUFFER:
        what = "comment" if kind == "comment" else "parameter"
        raise _refused(f"too long {what} {word[:10]}…, over {_BUFFER} bytes", path, line)


def _not_ended(words: Sequence[Token], path: str) -> DefinitionError:
    return DefinitionError(f"{words[0].plain} is not ended by ';'", path=path, line=words[0].line)


def _refused(message: str, path: str, line: int) -> DefinitionError:
    return DefinitionError(f"is not a configuration of Nginx: {message}", path=path, line=line)
