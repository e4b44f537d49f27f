"""YAML that knows its lines: plain, without surprises, and with an answer to every mistake."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import DefinitionError
from tuner.reading.located import (
    Node,
    format_size,
    parse_duration_s,
    parse_integer,
    parse_real,
    parse_size,
    parse_yaml,
    read_yaml,
)


def message(text: str) -> str:
    """Return the message that parsing ``text`` raises."""
    with pytest.raises(DefinitionError) as raised:
        parse_yaml(text, "f.yaml")
    assert raised.value.exit_code == 2
    return str(raised.value)


def test_every_node_knows_its_line() -> None:
    """Mappings, lists and scalars alike."""
    root = parse_yaml("a: 1\nb:\n  - x\n  - c: y\n", "f.yaml").entries()
    items = root["b"].sequence()
    assert (root["a"].line, items[0].line, items[1].entries()["c"].line) == (1, 3, 4)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3: 'a' is given twice; first in line 1"),
        (
            "a: !!python/object:os.system x",
            "f.yaml:1: tags are not allowed here; leave the tag out",
        ),
        (
            "a: &x 1\nb: *x\n",
            "f.yaml:1: anchors and aliases are not allowed here; write out the value",
        ),
        ("a: 1\n---\nb: 2\n", "f.yaml:2: a second document; a file holds one document"),
        ("a: [1, 2", "f.yaml:1: is not YAML: expected ',' or ']', but got '<stream end>'"),
        (
            'a: 1\nb: "\\U00110000"',
            "f.yaml:2: is not YAML: an escape that is not a Unicode character",
        ),
        ('a: "\\ud800"', "f.yaml:1: is not YAML: an escape that is not a Unicode character"),
        ("a: 1\n b: 2\n", "f.yaml:2: is not YAML: mapping values are not allowed here"),
        ("[a, b]: 1", "f.yaml:1: a key must be text"),
        ("a: \x07", "f.yaml: is not YAML: special characters are not allowed"),
        ("[" * 60 + "]" * 60, "f.yaml:1: nested more than 32 deep"),
    ],
)
def test_what_is_not_plain_yaml_is_refused_at_its_line(text: str, answer: str) -> None:
    """Duplicate keys, tags, aliases, several documents and bad syntax."""
    assert message(text) == answer


def test_a_scalar_is_what_its_place_asks_for() -> None:
    """``off`` is a switch or a word, and 1.10 keeps its zero."""
    keys = parse_yaml("a: off\nb: 1.10\nc: 'yes'\n", "f.yaml").entries()
    assert keys["a"].boolean() is False
    assert keys["a"].text() == "off"
    assert keys["b"].text() == "1.10"
    assert keys["c"].boolean() is True


@pytest.mark.parametrize("text", ["a:", "a: ~", "a: null", ""])
def test_nothing_is_a_missing_value(text: str) -> None:
    """An empty key counts as one that is not there."""
    root = parse_yaml(text or "{}", "f.yaml")
    assert root.mapping(optional=("a",)) == {}
    with pytest.raises(DefinitionError, match="'a' is missing"):
        root.mapping(required=("a",))


def test_quoted_nothing_is_text() -> None:
    """Only plain scalars can be null."""
    assert parse_yaml("a: 'null'", "f.yaml").entries()["a"].text() == "null"


@pytest.mark.parametrize(
    ("key", "answer"),
    [
        ("workloud", "f.yaml:1: unknown key 'workloud'; did you mean 'workload'?"),
        ("zzz", "f.yaml:1: unknown key 'zzz'; allowed: workload, time"),
    ],
)
def test_an_unknown_key_is_answered_with_what_is_near(key: str, answer: str) -> None:
    """Or with all that is allowed."""
    with pytest.raises(DefinitionError) as raised:
        parse_yaml(f"{key}: 1", "f.yaml").mapping(optional=("workload", "time"))
    assert str(raised.value) == answer


@pytest.mark.parametrize(
    ("read", "text", "answer"),
    [
        (lambda n: n.integer(1, 9), "12", "f.yaml:1: k: 12 is out of range; allowed: 1 to 9"),
        (lambda n: n.integer(1, 9), "1.5", "f.yaml:1: k: expected an integer, found '1.5'"),
        (lambda n: n.real(0, 1), "x", "f.yaml:1: k: expected a number, found 'x'"),
        (lambda n: n.real(0, 1), "1e999", "f.yaml:1: k: expected a finite number, found '1e999'"),
        (lambda n: n.boolean(), "maybe", "f.yaml:1: k: expected on or off, found 'maybe'"),
        (lambda n: n.one_of(("a", "b")), "c", "f.yaml:1: k: 'c' is not allowed; allowed: a, b"),
        (lambda n: n.text(), "[1]", "f.yaml:1: k: expected text, found a list"),
        (lambda n: n.sequence(), "x", "f.yaml:1: k: expected a list, found 'x'"),
        (lambda n: n.entries(), "", "f.yaml:1: k: expected a mapping, found nothing"),
    ],
)
def test_a_wrong_value_is_answered_with_what_is_allowed(read, text: str, answer: str) -> None:  # type: ignore[no-untyped-def]
    """File, line, key, the bad value, and what would do."""
    with pytest.raises(DefinitionError) as raised:
        read(parse_yaml(f"k: {text}", "f.yaml").entries()["k"])
    assert str(raised.value) == answer


def test_an_option_is_read_like_a_file() -> None:
    """The same readers, with the option's name in place of file and line."""
    assert Node.option("time", "10m").duration_s(1, 1e6) == 600
    assert Node.option("trials", 7).integer(1, 9) == 7
    assert [n.text() for n in Node.option("allow", ("a", "b")).sequence()] == ["a", "b"]
    with pytest.raises(DefinitionError, match=r"^--time: expected a duration such as 90s"):
        Node.option("time", "soon").duration_s(1, 1e6)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """Missing, a folder, or no text: one message that names it."""
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    for name, reason in {
        "none.yaml": "No such file or directory",
        ".": "is a folder",
        "binary.yaml": "is not UTF-8 text",
    }.items():
        with pytest.raises(DefinitionError, match=reason):
            read_yaml(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("250ms", 0.25)]
)
def test_durations(text: str, seconds: float) -> None:
    """Seconds unless a unit says otherwise."""
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "-1s", "1 day", "1e3", "s", "1,5"])
def test_what_is_no_duration(text: str) -> None:
    """Refused rather than guessed at."""
    with pytest.raises(ValueError, match="duration"):
        parse_duration_s(text)


@given(st.integers(0, 1 << 40))
def test_a_size_survives_being_written_and_read(size: int) -> None:
    """``64k`` is 65536 and back."""
    assert parse_size(format_size(size)) == size


@given(st.integers())
def test_an_integer_survives_being_written_and_read(value: int) -> None:
    """Integers of any size and sign survive being written and read."""
    assert parse_integer(str(value)) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_real_survives_being_written_and_read(value: float) -> None:
    """With exponents too."""
    assert parse_real(repr(value)) == value


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No input brings the reader down."""
    try:
        parse_yaml(text, "f.yaml")
    except DefinitionError:
        return
