"""A copied configuration is complete in itself, and this machine's files never stand in for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.own.caddyfiles import here
from tuner.errors import DefinitionError
from tuner.own import copies
from tuner.own.caddy.origin import CaddyOrigin, read
from tuner.own.caddy.reader import with_copies
from tuner.own.home import LocalHome
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


def test_a_copy_below_a_folder_of_the_system_has_its_own_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One in /opt or /config, say: relative includes are the copy's."""
    monkeypatch.setattr(copies, "_SYSTEM", ("/etc", str(tmp_path.parent)))
    main = "http {{ include mime.types; include {at}/sites-enabled/*; }}"
    tree = parse(copied(tmp_path, FILES, main=main))
    assert names(tree) == ["copied.example"]
    assert str(tmp_path / "mime.types") in tree.texts


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


def test_the_folder_of_a_copy_stands_for_one_of_several_paths(tmp_path: Path) -> None:
    """Containers have their files below one path, and those of the package below another."""
    main = "http {{ include /etc/nginx/mime.types; include {at}/sites/*.conf; include {at}/a; }}"
    path = copied(tmp_path, {"sites/a.conf": SITE, "a": ""}, "/config/nginx", main)
    with pytest.raises(DefinitionError, match=r"the copy has no /etc/nginx/mime.types;"):
        parse(path)
    own = copied(tmp_path / "own", {"mime.types": ""}, main="")
    tree = parse(path, prefix=[f"/etc/nginx={Path(own).parent}"])
    assert names(tree) == ["copied.example"]
    assert f"{tmp_path} is read for /config/nginx " in tree.notes[0]


def test_files_that_every_nginx_comes_with_are_read_here_if_the_user_says_so(
    tmp_path: Path,
) -> None:
    """The refusal has the options, for paths from the root and for relative ones."""
    if not Path("/etc/nginx/mime.types").exists():
        pytest.skip("no Nginx of a package is here: its files were not read")
    site = "include uwsgi_params; include sites/a;"
    main = "http {{ include {at}/mime.types; server {{ server_name x; " + site + " }} }}"
    path = copied(tmp_path, {"sites/a": ""}, main=main)
    with pytest.raises(DefinitionError) as error:
        parse(path)
    words = error.value.message.partition("this machine's Nginx with ")[2].split()
    assert words[::2] == ["--prefix", "--prefix"]
    tree = parse(path, prefix=words[1::2])
    assert {"/etc/nginx/mime.types", "/etc/nginx/uwsgi_params"} < set(tree.texts)


def test_a_file_of_one_site_is_part_of_a_main_file(tmp_path: Path) -> None:
    """The refusal names the main file above it and the site, or the main file to write."""
    site = "server { listen 80; server_name a.example; include snippets/tls.conf; }\n"
    path = tmp_path / "sites-enabled" / "a"
    path.parent.mkdir()
    path.write_text(site)
    with pytest.raises(DefinitionError) as error:
        parse(path).http()
    alone = error.value.message.partition("or write one: ")[2]
    (tmp_path / "snippets").mkdir()
    (tmp_path / "snippets" / "tls.conf").touch()
    (tmp_path / "nginx.conf").write_text(alone)
    with pytest.raises(DefinitionError) as error:
        parse(path).http()
    option = f"--config {tmp_path}/nginx.conf --server-name a.example"
    assert error.value.message.endswith(option)
    assert names(parse(tmp_path / "nginx.conf")) == ["a.example"]


@pytest.mark.parametrize("word", ["{{ domain }}", "{% if tls %}", "{SERVER_PORT}"])
def test_a_template_is_named_as_one(tmp_path: Path, word: str) -> None:
    """With its line, and the file to name instead."""
    path = tmp_path / "nginx.conf"
    path.write_text(f"events {{}}\nhttp {{ server {{\n listen {word};\n}} }}\n")
    with pytest.raises(DefinitionError, match=r"nginx.conf:3: .* is of a template, .*nginx -T"):
        parse(path)


# --- Caddy -----------------------------------------------------------------------------------

CADDY_MAIN = """\
{
\tadmin off
}
import {at}/sites/*.caddy
:8080 {
\timport {at}/common.caddy
\troot * /srv
\tfile_server
}
"""
COMMON = "header X-Copied yes\n"


def copied_caddy(folder: Path, files: Mapping[str, str], main: str = CADDY_MAIN) -> str:
    """Return the path of a Caddyfile, copied with its imports to a folder."""
    texts = {"Caddyfile": main.replace("{at}", "/etc/caddy"), **files}
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return str(folder / "Caddyfile")


def caddy_origin(path: str, *prefix: str) -> CaddyOrigin:
    """Return what Caddy reads at a path."""
    home = LocalHome(here().binary, copies=copies.named(prefix))
    return read(path, with_copies(path, home))


@pytest.mark.integration
def test_a_copied_caddyfile_imports_from_its_own_folder(tmp_path: Path) -> None:
    """As Nginx's: not from this machine's /etc/caddy; its patch fits the copied files."""
    site = "shop.example {\n\trespond hello\n}\n"
    path = copied_caddy(tmp_path, {"sites/shop.caddy": site, "common.caddy": COMMON})
    found = caddy_origin(path)
    assert set(found.texts) == {
        str(tmp_path / name) for name in ("Caddyfile", "sites/shop.caddy", "common.caddy")
    }
    assert "shop.example" in json.dumps(found.config)
    assert "X-Copied" in json.dumps(found.config)
    assert "/tuner-" not in json.dumps(found.config)
    assert found.patched, found.opaque


@pytest.mark.integration
def test_what_a_copied_caddyfile_lacks_is_named_and_never_read_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This machine has a file at the imported path; the way out reads it."""
    elsewhere = tmp_path / "etc"
    monkeypatch.setattr(copies, "_SYSTEM", (str(elsewhere),))
    theirs = copied_caddy(
        elsewhere, {"common.caddy": COMMON, "sites/own.caddy": "own.example {\n}\n"}
    )
    main = Path(theirs).read_text().replace("/etc/caddy", str(elsewhere))
    path = copied_caddy(tmp_path / "copy", {}, main)
    with pytest.raises(DefinitionError) as refused:
        caddy_origin(path)
    assert f"import {elsewhere}/common.caddy: the copy has no" in refused.value.message
    assert (refused.value.path, refused.value.line) == (path, 6)
    assert "put it there, or name the folder that has it: --prefix /" in refused.value.message
    found = caddy_origin(path, f"{elsewhere}={elsewhere}")
    assert "own.example" in json.dumps(found.config)
    (tmp_path / "copy" / "common.caddy").write_text(COMMON)
    # A mask that the copy does not match is an empty import, and not this machine's sites.
    found = caddy_origin(path, f"{elsewhere}={tmp_path / 'copy'}")
    assert "own.example" not in json.dumps(found.config)
    assert "X-Copied" in json.dumps(found.config)


@pytest.mark.integration
def test_a_mistake_in_a_copied_caddyfile_is_shown_where_it_is(tmp_path: Path) -> None:
    """Not in the temporary folder from which Caddy reads the copy."""
    path = copied_caddy(tmp_path, {"common.caddy": "nonsense\n"})
    with pytest.raises(DefinitionError) as refused:
        caddy_origin(path)
    assert "unrecognized directive: nonsense" in refused.value.message
    assert refused.value.path == str(tmp_path / "common.caddy")
    assert refused.value.line == 1
