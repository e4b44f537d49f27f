"""``--server-binary``: another program of a server, and two of them in one comparison."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.hosts.nginxes import needs_nginx
from tuner.app import server_binary
from tuner.cli.meet import entries_of
from tuner.definition.study import load_study
from tuner.errors import DefinitionError
from tuner.record.contenders import server_keys, server_words
from tuner.servers import nginx
from tuner.servers.program import named_program
from tuner.testing.sample_record import sample_record

OPTION = server_binary.OPTION


def test_a_study_names_its_program(tmp_path: Path) -> None:
    """As an option, and in a study file relative to its folder; it survives in the record."""
    given = load_study("static", {"server_binary": ["/opt/nginx"]})
    assert given.server_binary == "/opt/nginx"
    assert load_study("static", given.as_dict()).server_binary == "/opt/nginx"
    file = tmp_path / "mine.yaml"
    file.write_text("server_binary: sbin/nginx\n")
    assert load_study(str(file)).server_binary == str(tmp_path / "sbin/nginx")


def test_a_study_has_one_program() -> None:
    """Two are for a comparison of servers, and the message says how."""
    with pytest.raises(DefinitionError, match="compare nginx:stock nginx:stock"):
        load_study("static", {"server_binary": ["/a", "/b"]})


def test_a_service_in_place_runs_its_own_program() -> None:
    """Both options together are refused."""
    both = {"server_binary": ["/a"], "in_place": "restarts-my-service", "inventory": "h.yml"}
    with pytest.raises(DefinitionError, match="runs its own program"):
        load_study("static", both)


@pytest.mark.parametrize(
    ("name", "mode", "said"),
    [
        ("gone", None, "No such file or directory"),
        ("plain", 0o644, "is not executable"),
        ("folder", 0o755, "is not a file"),
        ("a\nb", None, "is not the path of a program"),
    ],
)
def test_a_wrong_path_is_refused(tmp_path: Path, name: str, mode: int | None, said: str) -> None:
    """It must be an executable regular file; the message is one line with the option."""
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
    elif mode is not None:
        path.write_text("#!/bin/sh\n")
        path.chmod(mode)
    with pytest.raises(DefinitionError, match=said) as error:
        named_program(str(path), OPTION)
    assert error.value.path == OPTION
    assert "\n" not in str(error.value)


def test_another_program_is_not_taken_for_the_server(tmp_path: Path) -> None:
    """Its first line of output is quoted."""
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\necho hello\n")
    other.chmod(0o755)
    with pytest.raises(DefinitionError, match=r"does not print a version.*; name a program of"):
        server_binary.detect(nginx, str(other))


@needs_nginx[0]
@needs_nginx[1]
def test_a_named_program_is_the_one_that_is_detected(tmp_path: Path) -> None:
    """A copy at another path has the same version."""
    copy = tmp_path / "nginx"
    shutil.copy(nginx.detect().binary, copy)
    found = server_binary.detect(nginx, str(copy))
    assert (found.binary, found.version) == (str(copy), nginx.detect().version)


def test_a_record_of_others_names_no_program() -> None:
    """Only the user's own record may say what runs on this machine."""
    record = sample_record()
    foreign = replace(record, definition={**record.definition, server_binary.KEY: "/opt/evil"})
    assert server_binary.KEY not in server_binary.own_definition(foreign)


def test_each_arm_has_its_program() -> None:
    """Arms that differ only in it have letters; one program is that of all arms."""
    old, new = entries_of(("nginx:stock", "nginx:stock"), ("/old", "/new"))
    assert (old.label, old.program) == ("nginx-stock-a", "/old")
    assert (new.label, new.program) == ("nginx-stock-b", "/new")
    stock, hand = entries_of(("nginx:stock", "nginx:hand"), ("/new",))
    assert (stock.label, hand.label) == ("nginx-stock", "nginx-hand")
    assert {stock.program, hand.program} == {"/new"}


@pytest.mark.parametrize(
    ("arms", "programs", "said"),
    [
        (("nginx:stock", "caddy:stock"), ("/a",), "once for each arm"),
        (("nginx:stock", "nginx:hand"), ("/a", "/b", "/c"), "3 programs for 2 arms"),
        (("nginx:stock", "nginx:stock"), (), "is named twice; two programs"),
        (("nginx:stock", "nginx:stock"), ("/a", "/a"), "is named twice; two programs"),
    ],
)
def test_programs_that_do_not_fit_the_arms_are_refused(
    arms: tuple[str, ...], programs: tuple[str, ...], said: str
) -> None:
    """The message says which one is missing."""
    with pytest.raises(DefinitionError, match=said):
        entries_of(arms, programs)


def test_two_programs_of_one_server_have_different_names() -> None:
    """By version, and by path where versions repeat; different servers keep their names."""
    one = nginx.parse_build("nginx version: nginx/1.22.1", "/old")
    newer = nginx.parse_build("nginx version: nginx/1.28.0", "/new")
    copy = replace(one, binary="/copy")
    assert server_words((one, newer)) == ("nginx 1.22.1", "nginx 1.28.0")
    assert server_words((one, copy)) == ("nginx 1.22.1 (/old)", "nginx 1.22.1 (/copy)")
    assert server_keys((one, newer)) == ("nginx 1.22.1", "nginx 1.28.0")
    assert server_keys((one, replace(newer, name="caddy"))) == ("nginx", "caddy")
