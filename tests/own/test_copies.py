"""A copied configuration is complete in itself, and this machine's files never stand in for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tuner.errors import DefinitionError
from tuner.own.nginx.tree import Tree, parse

MAIN = """\
include {at}/modules-enabled/*.conf;
events {{}}
http {{
    include {at}/mime.types;
    include {at}/conf.d/*.conf;
    include {at}/sites-enabled/*;
    ssl_dhparam {at}/dh.pem;
}}
"""
SITE = "server { listen 80; server_name copied.example; }\n"
FILES = {"mime.types": "types { text/html html; }\n", "sites-enabled/shop": SITE}


def copied(folder: Path, files: Mapping[str, str], at: str = "/etc/nginx", main: str = MAIN) -> str:
    """Return the path of the main file of a copy that is written to a folder."""
    for name, text in {"nginx.conf": main.format(at=at), **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return str(folder / "nginx.conf")


def names(tree: Tree) -> list[str]:
    """Return the names of the servers."""
    found = [server.children("server_name") for server in tree.http().children("server")]
    return [name for each in found for directive in each for name in directive.args]


@pytest.mark.parametrize("at", ["/etc/nginx", "/config/nginx", "/usr/local/openresty/nginx/conf"])
def test_the_folder_of_a_copy_stands_for_the_path_that_its_includes_share(
    tmp_path: Path, at: str
) -> None:
    """All files are the copy's, a note names the path, and an empty mask is named."""
    tree = parse(copied(tmp_path, FILES, at))
    assert names(tree) == ["copied.example"]
    assert all(Path(path).is_relative_to(tmp_path) for path in tree.texts)
    assert tree.located(f"{at}/dh.pem") == str(tmp_path / "dh.pem")
    assert f"{tmp_path} is read for {at} " in tree.notes[0]
    masks = f"no file of the copy matches {at}/conf.d/*.conf"
    assert any(masks in note for note in tree.notes)


def test_one_include_below_a_folder_of_the_path_is_enough(tmp_path: Path) -> None:
    """The shortest path under which files are found keeps the folders as they were."""
    main = "http {{ include {at}/conf.d/*.conf; }}"
    tree = parse(copied(tmp_path, {"conf.d/a.conf": SITE, "b.conf": "broken {"}, main=main))
    assert names(tree) == ["copied.example"]


def test_all_files_that_a_copy_lacks_are_named_and_the_way_out_works(tmp_path: Path) -> None:
    """This machine's mime.types is read only if the user says so."""
    main = "http {{ include {at}/mime.types; include {at}/gone.conf; }}"
    path = copied(tmp_path, {}, main=main)
    with pytest.raises(DefinitionError) as error:
        parse(path)
    missing = f"the copy has no {tmp_path}/mime.types, {tmp_path}/gone.conf"
    assert missing in error.value.message
    assert (error.value.path, error.value.line) == (path, 1)
    assert "--prefix /etc/nginx=FOLDER" in error.value.message
    other = tmp_path / "other"
    copied(other, {"mime.types": "", "gone.conf": SITE})
    assert names(parse(path, prefix=[f"/etc/nginx={other}"])) == ["copied.example"]


def test_a_second_path_is_named_by_the_user(tmp_path: Path) -> None:
    """A container has files below two paths; the refusal names the option for the second."""
    main = MAIN.replace("    ssl_dhparam", "    include /opt/tls/options.conf;\n    ssl_dhparam")
    path = copied(tmp_path / "nginx", FILES, "/config/nginx", main)
    with pytest.raises(DefinitionError, match=r"no /opt/tls/options.conf.*--prefix /opt/tls="):
        parse(path, prefix=[f"/config/nginx={tmp_path}/nginx"])
    copied(tmp_path / "tls", {"options.conf": "ssl_session_timeout 1d;\n"})
    both = [f"/opt/tls={tmp_path}/tls", f"/config/nginx={tmp_path}/nginx"]
    assert names(parse(path, prefix=both)) == ["copied.example"]


def test_a_link_in_a_copy_leads_to_the_copys_own_file(tmp_path: Path) -> None:
    """Links of sites-enabled have the paths of the server that they were copied from."""
    path = copied(tmp_path, {"mime.types": "", "sites-available/shop": SITE, "conf.d/x.conf": ""})
    (tmp_path / "sites-enabled").mkdir()
    (tmp_path / "sites-enabled" / "shop").symlink_to("/etc/nginx/sites-available/shop")
    tree = parse(path)
    assert names(tree) == ["copied.example"]
    assert str(tmp_path / "sites-available/shop") in tree.texts
    (tmp_path / "sites-enabled" / "default").symlink_to("/etc/nginx/sites-available/default")
    with pytest.raises(DefinitionError, match=r"the copy has no .*sites-available/default"):
        parse(path)


def test_an_absolute_include_of_the_users_own_folder_is_read_as_it_is(tmp_path: Path) -> None:
    """A checkout outside of the system's folders is no copy."""
    main = "http {{ include {at}/shop.conf; }}"
    path = copied(tmp_path / "a", {}, str(tmp_path / "b"), main)
    copied(tmp_path / "b", {"shop.conf": SITE})
    tree = parse(path)
    assert (names(tree), tree.notes) == (["copied.example"], ())
