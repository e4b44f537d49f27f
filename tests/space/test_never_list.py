"""A server's list of what no search touches, as its folder of spaces has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tuner.errors import DefinitionError
from tuner.reading.statement import Statement
from tuner.space import never_list as module
from tuner.space.never import reached, refusal, text_refusal

LIST = """\
never:
  - why: it is the operator's record
    names: [log]
    options: [buffer=]
text:
  - why: it decides who can read
    names: [command]
    unless: [Options KTLS]
variables:
  gate: log
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder of spaces that holds one of a server called toy."""
    (tmp_path / "toy").mkdir()
    monkeypatch.setattr(module, "data_dir", lambda _: tmp_path)
    module.never_list.cache_clear()
    yield tmp_path
    module.never_list.cache_clear()


def says(folder: Path, text: str) -> None:
    """Write the toy's list."""
    (folder / "toy" / "_never.yaml").write_text(text, encoding="utf-8")


def statements(*lines: str) -> list[Statement]:
    """Directives outside all blocks."""
    return [Statement(tuple(line.split()), ()) for line in lines]


def test_a_parameter_may_be_called_as_what_it_is_only_a_part_of(folder: Path) -> None:
    """And no directive of that name may be reached all the same."""
    says(folder, LIST)
    assert refusal("toy", "log") == "it is the operator's record"
    assert (refusal("toy", "command"), text_refusal("toy", "command")) == (
        "",
        "it decides who can read",
    )


@pytest.mark.parametrize("name", ["SSLProtocol", "sslprotocol", "ssl_protocol", "ssl-protocol"])
def test_a_name_is_the_same_in_any_servers_notation(folder: Path, name: str) -> None:
    """Parameters separate words, Apache's directives do not, and their case makes no difference."""
    says(folder, LIST.replace("[log]", "[SSLProtocol]").replace("gate: log", "gate: SSLProtocol"))
    assert refusal("toy", name) == "it is the operator's record"


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ("log a", "log b", ("log",)),
        ("log a buffer=1k", "log a buffer=2k", ()),
        ("command Options KTLS", "other", ()),
        ("command Ciphers NULL", "other", ("command",)),
        ("set $gate 1", "set $gate 2", ("log",)),
        ("set $other 1", "set $other 2", ()),
    ],
)
def test_directives_may_differ_by_what_parameters_are_for(
    folder: Path, one: str, other: str, found: tuple[str, ...]
) -> None:
    """Their options, the words excepted, and variables that mean nothing listed."""
    says(folder, LIST)
    assert reached("toy", statements(one), statements(other)) == found


def test_a_server_without_a_list_has_what_is_said_of_the_host(folder: Path) -> None:
    """A server without a list has the kernel's."""
    (folder / "kernel").mkdir()
    host = "never: [{why: it opens the host, names: [mitigations]}]"
    (folder / "kernel" / "_never.yaml").write_text(host, encoding="utf-8")
    assert refusal("toy", "log") == ""
    assert refusal("toy", "mitigations") == "it opens the host"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("never: [{names: [log]}]", r"_never\.yaml:1: .*'why' is missing"),
        ("never: [{why: a, names: [b, b]}]", r"_never\.yaml:1: 'b' is listed twice"),
        ("never: []\nvariables: {gate: log}", r"_never\.yaml:2: .*'log' is not allowed"),
    ],
)
def test_a_wrong_list_is_an_error_at_its_line(folder: Path, text: str, words: str) -> None:
    """Never a list that guards less than it seems to."""
    says(folder, text)
    with pytest.raises(DefinitionError, match=words):
        refusal("toy", "log")
