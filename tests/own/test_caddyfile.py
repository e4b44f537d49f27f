"""A Caddyfile's text: its lines are found where they stand, and changed there and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.errors import DefinitionError
from tuner.own.caddy import caddyfile
from tuner.own.caddy.caddyfile import Setting, change, change_global, spots
from tuner.own.home import LocalHome
from tuner.reading.caddyfile_text import parse

READ = Setting("read_buffer", ("16KiB",), (("transport", "http"),))
IDLE = Setting("idle", ("60s",), (("timeouts",),))


def changed(text: str, name: str, setting: Setting) -> str:
    """Return the text with a setting in its only line of a name."""
    (spot,) = [spot for spot, line in spots(parse(text)) if line.name == name]
    return change(text, spot, setting)


def test_words_are_those_of_caddy() -> None:
    """Quotes, heredocs, comments, placeholders, and lines that go on behind a backslash."""
    text = (
        'a.test, "b .test" {\n'
        "  respond <<END\n    { no block\n    END 200 # {\n"
        "  header X `{ \\` {host}\n"
        "  copy \\\n  One \\\n  Two#2\n"
        "}\n"
    )
    (site,) = parse(text)
    assert site.texts == ("a.test,", "b .test")
    assert [line.name for line in site.lines] == ["respond", "header", "copy"]
    assert [line.number for line in site.lines] == [2, 5, 6]
    assert site.lines[1].texts == ("header", "X", "{ \\", "{host}")
    assert site.lines[2].texts == ("copy", "One", "Two#2")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "a.test {\n\treverse_proxy x:1 # app\n}\n",
            "a.test {\n\treverse_proxy x:1 { # app\n\t\ttransport http {\n\t@\n\t\t}\n\t}\n}\n",
        ),
        (
            "a.test\nreverse_proxy x:1",
            "a.test\nreverse_proxy x:1 {\n\ttransport http {\n\t\tread_buffer 16KiB\n\t}\n}",
        ),
        (
            "b {\n  reverse_proxy {\n    to x:1\n    # a\n  }\n}\n",
            "b {\n  reverse_proxy {\n    to x:1\n    # a\n    transport http {\n@\n    }\n  }\n}\n",
        ),
        (
            "reverse_proxy x:1 {\n\ttransport http {\n\t\tread_buffer   8k # small\n\t}\n}\n",
            "reverse_proxy x:1 {\n\ttransport http {\n\t\tread_buffer   16KiB # small\n\t}\n}\n",
        ),
        (
            "reverse_proxy x:1 {\r\n\ttransport http {\r\n\t}\r\n}\r\n",
            "reverse_proxy x:1 {\r\n\ttransport http {\r\n\t\tread_buffer 16KiB\r\n\t}\r\n}\r\n",
        ),
    ],
)
def test_a_setting_is_changed_where_it_stands_or_added_to_its_block(
    before: str, after: str
) -> None:
    """With the file's indentation and line ends; comments and all else stay."""
    added = "\t\tread_buffer 16KiB" if "\t" in before else "      read_buffer 16KiB"
    assert changed(before, "reverse_proxy", READ) == after.replace("@", added)


def test_a_setting_can_be_taken_away() -> None:
    """Taking a setting away removes its line; a text without that line stays unchanged."""
    text = "reverse_proxy x:1 {\n\tflush_interval -1\n\tto y:1\n}\n"
    gone = Setting("flush_interval", None)
    without = "reverse_proxy x:1 {\n\tto y:1\n}\n"
    assert changed(text, "reverse_proxy", gone) == without
    assert changed(without, "reverse_proxy", gone) == without


def test_formats_move_into_a_block_to_get_a_level() -> None:
    """All of them, in their order, and a matcher before them stays."""
    level = Setting("gzip", ("7",), formats=("zstd", "gzip"))
    after = "encode @text {\n\tzstd\n\tgzip 7\n}\n"
    assert changed("encode @text zstd gzip\n", "encode", level) == after
    assert changed("encode @text\n", "encode", level) == after
    assert changed(after.replace("7", "2"), "encode", level) == after


def test_global_options_are_made_where_there_are_none() -> None:
    """Above everything, or in the block that is there, wherever it stands."""
    block = "\tservers :80 {\n\t\ttimeouts {\n\t\t\tidle 60s\n\t\t}\n\t}\n}\n"
    words = ("servers", ":80")
    assert change_global(":80\n", words, IDLE) == f"{{\n{block}\n:80\n"
    text = "(a) {\n\theader -X\n}\n{\n\tadmin off\n}\n:80\n"
    assert change_global(text, words, IDLE) == text.replace(
        "\tadmin off\n}\n", f"\tadmin off\n{block}"
    )


def test_imports_are_followed_and_what_is_no_file_is_not(tmp_path: Path) -> None:
    """Snippets, arguments and masks without a match are Caddy's own matter."""
    (tmp_path / "sites").mkdir()
    (tmp_path / "sites" / "a").write_text("import ../more\nimport snippet\nimport {args[0]}\n")
    (tmp_path / "sites" / ".hidden").write_text("{\n")
    (tmp_path / "more").write_text("respond ok\n")
    main = tmp_path / "Caddyfile"
    main.write_text("(snippet) {\n}\nimport sites/*\nimport nowhere/*\n")
    texts = caddyfile.read(str(main), LocalHome("caddy"))
    assert set(texts) == {str(main), str(tmp_path / "sites" / "a"), str(tmp_path / "more")}


@pytest.mark.parametrize(
    ("text", "line"),
    [("a {\n b {\n }\n", 1), ("a\n}\n", 2), ('a\nb "c\n', 2), ("a <<END\nb\n", 1)],
)
def test_what_is_not_closed_is_said_with_its_line(text: str, line: int) -> None:
    """A block, a brace, a quote, a heredoc."""
    with pytest.raises(DefinitionError, match=rf"^C:{line}: "):
        parse(text, "C")
