"""The servers of this machine that a first run names, without running them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tuner.own.caddy import reader as caddy_reader
from tuner.own.files import HERE
from tuner.own.installed import InstalledServer, installed
from tuner.own.nginx import reader as nginx_reader
from tuner.servers import caddy, nginx
from tuner.servers.usual_place import UsualPlace

SITES = """\
server { listen 80 default_server; return 444; }
server { listen 80; server_name shop.example; return 301 https://shop.example$request_uri; }
server { listen 443 ssl; server_name shop.example; root /srv/shop; }
server { listen 80; server_name blog.example; root /srv/blog; }
server { listen 8443 ssl; server_name blog.example; root /srv/blog; }
"""
CADDYFILE = """\
{
\temail me@shop.example
}
(logged) {
\tlog
}
www.shop.example {
\tredir https://shop.example{uri} permanent
}
shop.example,
static.shop.example {
\timport logged
\tredir /old /new
\tfile_server
}
import sites/*
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a folder `proc`, and usual places below a folder of the test."""
    (tmp_path / "proc" / "self" / "ns").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "ns" / "mnt").symlink_to("mnt:[1]")
    for adapter, reader, name in (
        (nginx, nginx_reader, "nginx.conf"),
        (caddy, caddy_reader, "Caddyfile"),
    ):
        place = UsualPlace(str(tmp_path / adapter.name / name), "", adapter.name, "")
        monkeypatch.setattr(adapter, "usual_place", place)
        monkeypatch.setattr(reader, "version", lambda: "1.2.3")
    return tmp_path


def configured(folder: Path, sites: str = SITES) -> Path:
    """Return the main file of an Nginx below a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sites").write_text(sites, encoding="utf-8")
    main = folder / "nginx.conf"
    main.write_text("events {}\nhttp { include sites; }\n", encoding="utf-8")
    return main


def running(machine: Path, name: str, command: str, namespace: str = "mnt:[1]") -> None:
    """Add a process to the folder `proc`."""
    folder = machine / "proc" / str(100 + len(list((machine / "proc").iterdir())))
    (folder / "ns").mkdir(parents=True)
    (folder / "ns" / "mnt").symlink_to(namespace)
    (folder / "comm").write_text(f"{name}\n")
    (folder / "cmdline").write_text(command)


def test_a_machine_without_servers_has_nothing_to_name(machine: Path) -> None:
    """Neither a usual file nor a process."""
    assert installed(machine / "proc") == ()


def test_sites_of_nginx_are_servers_with_pages(machine: Path) -> None:
    """A redirect and a catch-all are no sites, and cleartext and TLS of one name are one site."""
    main = configured(machine / "nginx")
    (found,) = installed(machine / "proc")
    assert found == InstalledServer("nginx", "1.2.3", str(main), 2)
    assert found.words == f"nginx 1.2.3 with 2 sites in {main.parent}"
    assert found.option == f"--config {main}"


@pytest.mark.parametrize(
    ("text", "sites"),
    [
        (CADDYFILE, 3),
        (":80\nroot * /srv\nfile_server\n", 1),
        ("import sites/*\n", 2),
        ("# nothing yet\n", 0),
    ],
)
def test_sites_of_a_caddyfile_are_its_outer_blocks(machine: Path, text: str, sites: int) -> None:
    """Global options, snippets and redirects are none; imports and a file without braces count."""
    folder = machine / "caddy"
    (folder / "sites").mkdir(parents=True)
    (folder / "sites" / "a").write_text("a.example {\n\tfile_server\n}\nb.example {\n}\n")
    main = folder / "Caddyfile"
    main.write_text(text)
    assert caddy_reader.sites(str(main), HERE) == sites


def test_a_running_server_names_its_own_file_first(machine: Path) -> None:
    """Its file comes before the usual one; both are named."""
    usual, other = configured(machine / "nginx"), configured(machine / "srv")
    running(machine, "nginx", f"nginx: master process /usr/sbin/nginx -c {other} -g daemon off;")
    assert [found.main for found in installed(machine / "proc")] == [str(other), str(usual)]


@pytest.mark.parametrize(
    ("command", "namespace"),
    [
        ("nginx: master process nginx -p {folder}/ -c {main} -e log", "mnt:[1]"),
        ("nginx: master process nginx -c {main}", "mnt:[2]"),
        ("nginx: master process nginx -c relative.conf", "mnt:[1]"),
        ("nginx -t -c {main}", "mnt:[1]"),
    ],
)
def test_only_servers_of_this_machine_count(machine: Path, command: str, namespace: str) -> None:
    """Neither labs and containers, whose files are elsewhere, nor a validation."""
    main = configured(machine / "srv")
    running(machine, "nginx", command.format(folder=main.parent, main=main), namespace)
    assert installed(machine / "proc") == ()


def test_a_process_of_another_account_is_not_believed(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any account can call its process nginx."""
    main = configured(machine / "srv")
    running(machine, "nginx", f"nginx: master process nginx -c {main}")
    for folder in (machine / "proc").glob("1*"):
        if os.geteuid() == 0:
            os.chown(folder, 12345, 12345)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    assert installed(machine / "proc") == ()


@pytest.mark.parametrize(
    "text", ["http {", "include /nowhere/*;", "http { include a; include a; }", "\x00\x1b[2J{{{"]
)
def test_files_that_cannot_be_counted_fail_nothing(machine: Path, text: str) -> None:
    """The server is named without a number of sites."""
    main = configured(machine / "nginx")
    main.write_text(text)
    (found,) = installed(machine / "proc")
    assert found.sites is None
    assert found.words == f"nginx 1.2.3 in {main.parent}"


def test_many_files_are_not_counted(machine: Path) -> None:
    """Counting must take no time that a user notices."""
    configured(machine / "nginx", SITES + "# much\n" * 20_000)
    assert installed(machine / "proc")[0].sites is None


def test_names_of_files_are_data(machine: Path) -> None:
    """Quoted for the shell; a name that a terminal would obey is not printed at all."""
    spaced = configured(machine / "my sites")
    hostile = configured(machine / "a\x1b]0;title\x07")
    running(machine, "caddy", f"caddy\0run\0--config\0{hostile}")
    running(machine, "caddy", f"caddy\0run\0--config={spaced}\0")
    (found,) = installed(machine / "proc")
    assert found.option == f"--server caddy --config '{spaced}'"
