"""Nginx's grammar: words, quotes, escapes, comments, blocks and Lua."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import DefinitionError
from tuner.own.nginx.tree import Directive, write
from tuner.reading.nginx_text import Clause, parse, plain_word, scan, statements
from tuner.render.syntax import quote_nginx

# Inputs on which other readers of Nginx's files were wrong, written anew; each with its report.
CASES: dict[str, tuple[str, list[Any]]] = {
    "names in quotes": (
        '"events" { "worker_connections" \'64\'; }',
        [("events", [("worker_connections", "64")])],
    ),
    "comments touch braces and semicolons": (
        "http {#one\nlisten 80;#two\n}#three",
        [("http", [("listen", "80")])],
    ),
    "no blank between blocks": (
        "location /a{}location /b{}",
        [("location", "/a", []), ("location", "/b", [])],
    ),
    "a quoted word over two lines": (
        'location "/a\n  b" { }',
        [("location", "/a\n  b", [])],
    ),
    "escaped separators in a word": (
        r"location /\{\;\}\ \#x {}",
        [("location", r"/\{\;\}\ \#x", [])],
    ),
    "quotes within a bare word": (
        'add_header a"b c\'d" e#f;',
        [("add_header", 'a"b', "c'd\"", "e#f")],
    ),
    "empty words": ("map $a $b { '' \"\"; }", [("map", "$a", "$b", [("", "")])]),
    "a name with a blank": (
        "map $agent $small { '~Opera Mini' 1; }",
        [("map", "$agent", "$small", [("~Opera Mini", "1")])],
    ),
    # https://github.com/tufanbarisyildirim/gonginx/issues/65
    "comments between arguments": (
        "log_format a # first\n 'x; ' # it's; {\n '}';",
        [("log_format", "a", "x; ", "}")],
    ),
    # https://github.com/certbot/certbot/issues/9942
    "a comment that begins with a quote": (
        "a b; #\"optional\nc d; #'\n",
        [("a", "b"), ("c", "d")],
    ),
    # https://github.com/nginxinc/crossplane/issues/52
    "braces in quoted words": (
        "log_format j escape=json '{' '\"t\": $t' '}'; if ($a = \"}\") { }",
        [("log_format", "j", "escape=json", "{", '"t": $t', "}"), ("if", "($a", "=", "}", ")", [])],
    ),
    # https://github.com/nginxinc/crossplane/issues/110
    "a parenthesis after a quoted word": (
        'if ($uri ~* "/[a-z]+/(.*)") { break; }',
        [("if", "($uri", "~*", "/[a-z]+/(.*)", ")", [("break",)])],
    ),
    # https://github.com/nginxinc/crossplane/issues/85
    "escapes of line ends": (
        r"return 200 'a\n\tb' a\"b '\d\$';",
        [("return", "200", "a\n\tb", 'a"b', r"\d\$")],
    ),
    "variables in braces": (
        "try_files ${uri}.html /a${b}c $${d} =404;",
        [("try_files", "${uri}.html", "/a${b}c", "$${d}", "=404")],
    ),
    "a brace after a variable begins a block": ("if $a{}", [("if", "$a", [])]),
    "numbers in a regular expression": (
        'location ~ "^/[0-9]{4}/" { }',
        [("location", "~", "^/[0-9]{4}/", [])],
    ),
    "line ends of Windows": ("a b;\r\nc {\r\n\r\n}\r\n", [("a", "b"), ("c", [])]),
    "blanks that Nginx does not know": ("a\u00a0b\x0c c;", [("a\u00a0b\x0c", "c")]),
    "other scripts": ("env 'русский текст'; env ünï;", [("env", "русский текст"), ("env", "ünï")]),
    "a number sign ends a comment nowhere": ("# a # b { \\\n# c \\\na b;", [("a", "b")]),
}
LUA = {
    # https://github.com/nginxinc/crossplane/issues/120
    "a brace at the variable": ("set_by_lua_block $pass{ return 1 }", "{ return 1 }"),
    "a blank before the brace": ("set_by_lua_block $pass  { return 1 }", "{ return 1 }"),
    "a name in quotes": ('"init_by_lua_block" {}', "{}"),
    # https://github.com/nginxinc/crossplane/issues/87
    "an apostrophe in a comment": (
        "init_by_lua_block { -- it's }\n }",
        "{ -- it's }\n }",
    ),
    # https://github.com/nginxinc/nginx-go-crossplane/issues/179
    "an escaped quote": (r"log_by_lua_block { a='\'}' }", r"{ a='\'}' }"),
    "a long string": ("log_by_lua_block { a=[=[ ]] } ]=] }", "{ a=[=[ ]] } ]=] }"),
    "a long comment": ("log_by_lua_block { --[[ } ' ]] }", "{ --[[ } ' ]] }"),
    # https://github.com/openresty/lua-nginx-module/issues/748
    "brackets that are no string": (
        "log_by_lua_block { a(t[t[1]]) b={{1}} }",
        "{ a(t[t[1]]) b={{1}} }",
    ),
    # https://github.com/openresty/lua-nginx-module/pull/596
    "a comment's mark in a long string": ("log_by_lua_block { a([[b--]]) }", "{ a([[b--]]) }"),
}
REFUSED = {
    "a = 1; }": (1, 'unexpected "}"'),
    "a {\nb c;\n": (1, 'the block a has no "}"'),
    "a;\n;": (2, 'unexpected ";"'),
    "a;\n{}": (2, 'unexpected "{"'),
    "a b": (1, "a is not ended by ';'"),
    "a {\nb c\n}\n": (2, "b is not ended by ';'"),
    "a 'b\nc": (1, "a quote is opened here and never closed"),
    'a\n"b"c;': (2, 'unexpected "c" after a quoted word'),
    '\na "b"#c\n;': (2, 'unexpected "#" after a quoted word'),
    "a b\\": (1, "unexpected end of file after a backslash"),
    "a " + "b" * 4096 + ";": (1, "too long parameter bbbbbbbbbb…, over 4096 bytes"),
    "a;\n#" + "b" * 4096 + "\n": (2, "too long comment #bbbbbbbbb…, over 4096 bytes"),
    "a {" * 101 + "}" * 101: (1, "nested more than 100 deep"),
    "a;\nlog_by_lua_block { b = '}'\n": (2, "Lua is opened here and never closed"),
    "log_by_lua_block { [[ } ": (1, "Lua is opened here and never closed"),
    "log_by_lua_block { --[[ }\n }": (1, "Lua is opened here and never closed"),
}


def shape(clauses: Sequence[Clause]) -> list[Any]:
    """Return the words of clauses, and the content of blocks as their last element."""
    return [one.plain if one.block is None else (*one.plain, shape(one.block)) for one in clauses]


@pytest.mark.parametrize("case", CASES)
def test_words_and_blocks_are_those_of_nginx(case: str) -> None:
    """Quotes, escapes, comments and braces have the meaning that Nginx gives them."""
    text, expected = CASES[case]
    assert shape(parse(text)) == expected


@pytest.mark.parametrize("case", LUA)
def test_lua_between_braces_is_one_word(case: str) -> None:
    """The word ends at its own closing brace; braces in strings and comments do not count."""
    text, lua = LUA[case]
    first, after = parse(f"{text} a b;")
    assert (first.words[-1].kind, first.words[-1].text) == ("lua", lua)
    assert first.block is None
    assert after.plain == ("a", "b")


def test_only_the_name_of_a_directive_makes_lua() -> None:
    """An argument of that name does not."""
    text = "server_name content_by_lua_block ; upstream content_by_lua_block { server a; }"
    name, upstream = parse(text)
    assert name.plain == ("server_name", "content_by_lua_block")
    assert upstream.block is not None


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:12])
def test_a_refusal_names_the_line(text: str) -> None:
    """With what is wrong there."""
    line, message = REFUSED[text]
    with pytest.raises(DefinitionError) as error:
        parse(text, "site.conf")
    assert str(error.value).startswith(f"site.conf:{line}: ")
    assert error.value.message.endswith(message)


@pytest.mark.parametrize(
    "text",
    [
        "a " + "b" * 4095 + ";",
        "a '" + "b" * 4094 + "';",
        "a 'ä" + "b" * 4092 + "';",
        "#" + "b" * 4095,
        "a {" * 100 + "}" * 100,
    ],
    ids=["word", "quoted", "bytes", "comment", "blocks"],
)
def test_the_longest_of_each_is_read(text: str) -> None:
    """A limit is exact."""
    assert parse(text) is not None


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("a", "a"),
        ('"a b"', "a b"),
        ("'it\\'s'", "it's"),
        (r'"\\\"\t\r\n"', '\\"\t\r\n'),
        (r"\.php$", r"\.php$"),
        (r"a\\b", r"a\b"),
        ('"', '"'),
        ("''", ""),
    ],
)
def test_a_word_loses_quotes_and_escapes(written: str, plain: str) -> None:
    """Six escapes have a meaning, within quotes and without."""
    assert plain_word(written) == plain


def test_statements_know_the_blocks_around_them() -> None:
    """Each has the words of these blocks, outermost first."""
    found = list(statements("http { server { listen 80; } } user a;"))
    assert [(one.words, one.within) for one in found] == [
        (("http",), ()),
        (("server",), (("http",),)),
        (("listen", "80"), (("http",), ("server",))),
        (("user", "a"), ()),
    ]


def test_statements_of_a_part_of_a_file_are_read() -> None:
    """Blocks may lack an end or a beginning; words without an end are no statement."""
    found = list(statements("} a { b c; d"))
    assert [(one.words, one.within) for one in found] == [
        (("a",), ()),
        (("b", "c"), (("a",),)),
    ]


def test_statements_of_lua_are_refused() -> None:
    """The message names the directive that reads Lua from a file."""
    with pytest.raises(DefinitionError, match=r"put it into a file \(content_by_lua_file\)"):
        list(statements("content_by_lua_block { }"))


# What may stand in a word, with what separates words.
RAW = st.text(alphabet=" ;{}\"'\\#$\n\t()ab", max_size=40)
VALUES = st.text(alphabet=" ;{}\"'\\#\t()abä", max_size=6).filter(str.isprintable)


@given(RAW)
def test_every_text_is_read_or_refused(text: str) -> None:
    """Positions and lines fit the text, and between words are blanks and comments only."""
    last = 0
    try:
        for token in scan(text):
            assert text[token.start : token.end] == token.text
            assert token.line == text.count("\n", 0, token.start) + 1
            between = text[last : token.start]
            assert all(line.strip()[:1] in ("", "#") for line in between.split("\n"))
            last = token.end
    except DefinitionError:
        return
    assert text[last:].strip()[:1] in ("", "#") or "#" in text[last:]


@st.composite
def directives(draw: st.DrawFn, depth: int = 2) -> Directive:
    """Draw a directive with words of any text, in quotes where they need some."""
    values = draw(st.lists(VALUES, min_size=1, max_size=3))
    block = None
    if depth and draw(st.booleans()):
        block = tuple(draw(st.lists(directives(depth - 1), max_size=3)))
    written = tuple(map(quote_nginx, values))
    return Directive(values[0], tuple(values[1:]), "", 1, block, written)


@given(st.lists(directives(), max_size=4))
def test_what_is_written_is_read_back(made: list[Directive]) -> None:
    """Any words in any blocks mean the same after writing and reading."""

    def meaning(found: Sequence[Directive]) -> list[Any]:
        heads = [((one.name, *one.args), one.block) for one in found]
        return [head if block is None else (*head, meaning(block)) for head, block in heads]

    assert shape(parse(write(made))) == meaning(made)
