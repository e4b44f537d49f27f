"""The user's configuration as a tree: read with its includes, written again as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import DefinitionError
from tuner.own.nginx.tree import Directive, equal, parse, write
from tuner.reading.nginx_text import scan

MAIN = r"""# comments are not in the tree
worker_processes auto; events { worker_connections 512; # beside
}
http {
    map $http_upgrade $kind { default upgrade; set 1; '' close; "~*a b" "x;y{}"; }
    log_format main '$remote_addr "$request" '   # between two arguments
                    '$status';
    include conf.d/*.conf;
    include conf.d/none-*.conf;
}
"""
SITE = r"""server {
    listen 80;
    location ~ "^/a{2}\.php$" { return 200 'it\'s "${host}" \\ #'; }
    if ($http_cookie ~* "id=([^;]+)(?:;|$)") { set $id $1; }
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A configuration of two files."""
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "nginx.conf").write_text(MAIN)
    (tmp_path / "conf.d" / "site.conf").write_text(SITE)
    return tmp_path


def test_includes_stand_as_what_they_include_with_their_own_file_and_line(folder: Path) -> None:
    """Relative to the main file, by masks, and an empty mask is not an error."""
    tree = parse(folder / "nginx.conf")
    (server,) = tree.http().children("server")
    (listen,) = server.children("listen")
    assert (listen.args, listen.line) == (("80",), 2)
    assert listen.where == f"{folder}/conf.d/site.conf:2"
    assert sorted(Path(path).name for path in tree.texts) == ["nginx.conf", "site.conf"]


def test_what_is_written_means_what_was_read(folder: Path) -> None:
    """Quotes, escapes, variables, regular expressions and maps survive writing and reading."""
    tree = parse(folder / "nginx.conf")
    text = write(tree.directives)
    (folder / "again.conf").write_text(text)
    again = parse(folder / "again.conf")
    assert equal(again.directives, tree.directives)
    assert r"""return 200 'it\'s "${host}" \\ #';""" in text
    assert """"~*a b" "x;y{}";""" in text
    assert write(again.directives) == text


def test_every_place_holds_the_directive_it_belongs_to(folder: Path) -> None:
    """A directive's place reaches from its name to the end of its statement or block."""
    tree = parse(folder / "nginx.conf")
    for found in tree.walk():
        assert found.place is not None
        text = tree.texts[found.file][found.place.start : found.place.end]
        assert text.startswith(found.words[0])
        assert text.endswith(";" if found.block is None else "}")
        words = tuple(tree.texts[found.file][start:end] for start, end in found.place.words)
        assert words == found.words


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("events {}\nhttp {\n    sendfile on\n}\n", 3, r"sendfile is not ended by ';'"),
        ("events {}\nhttp {\n", 2, "unexpected end of file"),
        ("events {}\n}\n", 2, 'unexpected "}"'),
        ("events {}\nuser 'nobody;\n", 2, "a quote is opened"),
        ("events {}\nhttp {\n  init_by_lua_block { x = '}'\n", 3, "Lua is opened here"),
        ("http { server {\n listen; } }\n", 2, "listen has no argument"),
        ("http { server {\n set $a; } }\n", 2, "set has 1 argument, and needs 2"),
        ("\ufeffevents {}\n", 1, "byte order mark"),
        ("events {}\ninclude gone.conf;\n", 2, "there is no .*gone.conf"),
        ("events {}\ninclude nginx.conf;\n", 2, "a file includes itself"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(
    tmp_path: Path, text: str, line: int, words: str
) -> None:
    """A syntax error names the file and the line as an editor counts it."""
    path = tmp_path / "nginx.conf"
    path.write_text(text)
    with pytest.raises(DefinitionError, match=words) as error:
        parse(path)
    assert (error.value.path, error.value.line) == (str(path), line)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    """With its path."""
    with pytest.raises(DefinitionError, match="cannot be read: No such file"):
        parse(tmp_path / "nginx.conf")


def test_bytes_that_are_no_text_come_back_as_they_were(tmp_path: Path) -> None:
    """A comment in an old encoding must survive a patch."""
    path = tmp_path / "nginx.conf"
    path.write_bytes(b"# caf\xe9\r\nuser nobody;\r\n")
    text = parse(path).texts[str(path)]
    assert text.encode("utf-8", "surrogateescape") == path.read_bytes()


@given(st.lists(st.text(alphabet="ab$ \\;{}\"'#\n", max_size=6), min_size=1, max_size=4))
def test_a_quoted_word_is_one_word_whatever_is_in_it(values: list[str]) -> None:
    """So nothing that a user quotes can begin a directive."""
    words = ['"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for value in values]
    tokens = list(scan(f"name {' '.join(words)};"))
    assert [token.text for token in tokens] == ["name", *words, ";"]


def test_a_directive_that_tuner_made_is_written_from_its_arguments() -> None:
    """A directive without a place in a file is written from its arguments."""
    made = Directive("location", ("=", "/x"), "", 1, (Directive("return", ("200",), "", 1),))
    assert write([made]) == "location = /x {\n    return 200;\n}\n"
