"""Parameters are found where they stand, changed there, and the patch says the same as the tree."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from tests.spaces import load_space
from tuner.own.bound import BoundSpace
from tuner.own.nginx.edits import change_texts, change_tree
from tuner.own.nginx.serving import NginxServing, serving
from tuner.own.nginx.table import GROUPS, UNPLACED, bind, changes
from tuner.own.nginx.tree import equal, parse
from tuner.own.patch import common_folder, patch
from tuner.space.configuration import Configuration, Value
from tuner.space.parameter import OWN
from tuner.space.space import Space, bind_space, spaces
from tuner.workload.wire import PROTOCOLS

MAIN = """\
user www-data;
worker_processes auto;   # one for each core

events { worker_connections 768; }

http {
\tsendfile on;
\tkeepalive_timeout 65 60;
\taccess_log /var/log/nginx/access.log;
\topen_file_cache max=200 inactive=20s;
\tinclude sites/*;
}
"""
SITE = """\
# the shop
upstream app {
    least_conn;
    server 127.0.0.1:3000 max_fails=2;
}

server {
    listen 80 default_server;
    listen [::]:80 default_server;
    server_name shop.example;
    proxy_set_header Host $host;
    keepalive_timeout 20s;   # shorter here

    location / {
        try_files $uri @app;
    }
    location @app {
        proxy_pass http://app;
        proxy_buffers 8 16k; proxy_buffer_size 16k;
    }
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A configuration of two files."""
    (tmp_path / "sites").mkdir()
    (tmp_path / "nginx.conf").write_text(MAIN)
    (tmp_path / "sites" / "shop").write_text(SITE)
    return tmp_path


def space(name: str, version: tuple[int, ...] = (1, 22, 1)) -> Space:
    """Return a built-in space on some host."""
    return load_space(
        f"nginx/{name}",
        server_cores=3,
        server_version=version,
        modules=("http_ssl", "http_v2", "threads"),
    )


def found(folder: Path, path: str, *, proxied: bool) -> NginxServing:
    """Return what a workload of one path reaches."""
    tree = parse(folder / "nginx.conf")
    return serving(tree, [path], server_name="", tls=False, proxied=proxied)


def tuned(
    folder: Path, bound: BoundSpace, reached: NginxServing, **values: Value
) -> tuple[Configuration, dict[str, str]]:
    """Return the configuration with some values changed, and the texts of the files that change.

    Checks on the way that the patched files, read again, are the changed tree.
    """
    wanted = bound.space.complete(values, bound.baseline)
    edits = list(changes(bound, reached, wanted, reference=bound.baseline))
    texts = change_texts(reached.tree, edits)
    copy = folder.parent / f"{folder.name}-patched"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    diff = patch(reached.tree.texts, texts, common_folder(texts, reached.tree.file))
    command = ["patch", "-p0", "-s", "-d", str(copy)]
    subprocess.run(command, input=diff.encode(), check=True)
    assert equal(parse(copy / "nginx.conf").directives, change_tree(reached.tree, edits))
    return wanted, {str(Path(file).relative_to(folder)): text for file, text in texts.items()}


def test_every_parameter_of_the_built_in_spaces_is_placed_or_has_a_reason() -> None:
    """A parameter that is new in a space is placed, or said to be left as the user has it."""
    placed = {name for group in GROUPS for name in group.names} | UNPLACED.keys()
    base = space("static", (99,)).facts
    for protocol, tls in product(PROTOCOLS, (False, True)):
        facts = replace(
            base,
            protocol=protocol,
            tls=tls,
            streams=999,
            response_bytes=1 << 30,
            request_bytes=1 << 20,
            modules=(*base.modules, "http_v3"),
            kernel=(99,),
            kernel_tls=True,
            openssl=(99,),
        )
        for name in (name for name in spaces() if name.startswith("nginx/")):
            known = {parameter.name for parameter in bind_space(name, facts).parameters}
            assert known <= placed, (name, protocol)


def test_the_baseline_is_what_the_files_say(folder: Path) -> None:
    """The baseline has the innermost value of the files, else the compiled-in one."""
    bound = bind(space("static"), found(folder, "/index.html", proxied=False))
    values = bound.baseline.values
    assert values["worker_processes"] == 3
    assert values["worker_connections"] == 768
    assert values["sendfile"] is True
    assert values["keepalive_timeout"] == 20
    assert values["open_file_cache"] == 200
    assert values["open_file_cache_inactive"] == 20
    assert values["access_log_buffer"] == 0
    assert values["tcp_nopush"] is False
    assert values["reuseport"] is False
    assert values["backlog"] == 511
    assert bound.space.parameter("sendfile").defaults[OWN] is True


def test_the_baseline_changes_nothing(folder: Path) -> None:
    """Not even where a value is outside of the search's range."""
    reached = found(folder, "/api/x", proxied=True)
    bound = bind(space("proxy"), reached)
    assert list(changes(bound, reached, bound.baseline)) == []


def test_a_value_is_changed_where_it_stands_and_nothing_else(folder: Path) -> None:
    """Comments, layout and further arguments stay."""
    reached = found(folder, "/index.html", proxied=False)
    bound = bind(space("static"), reached)
    _, texts = tuned(folder, bound, reached, keepalive_timeout=40, worker_processes=2)
    assert texts == {
        "nginx.conf": MAIN.replace("worker_processes auto;", "worker_processes 2;"),
        "sites/shop": SITE.replace("keepalive_timeout 20s;", "keepalive_timeout 40s;"),
    }


def test_what_stands_nowhere_is_added_to_its_block_with_its_indentation(folder: Path) -> None:
    """Behind the block's last plain directive."""
    reached = found(folder, "/index.html", proxied=False)
    bound = bind(space("static"), reached)
    _, texts = tuned(folder, bound, reached, tcp_nopush=True, multi_accept=True)
    cache = "\topen_file_cache max=200 inactive=20s;\n"
    wanted = MAIN.replace(cache, f"{cache}\ttcp_nopush on;\n")
    wanted = wanted.replace("768;", "768; multi_accept on;")
    assert texts == {"nginx.conf": wanted}


def test_options_of_the_socket_change_for_both_families(folder: Path) -> None:
    """IPv4 and IPv6 clients meet the same."""
    reached = found(folder, "/index.html", proxied=False)
    bound = bind(space("static"), reached)
    _, texts = tuned(folder, bound, reached, reuseport=True, backlog=4096)
    words = "default_server reuseport backlog=4096;"
    assert texts == {"sites/shop": SITE.replace("default_server;", words)}
    _, texts = tuned(folder, bound, reached, reuseport=True)
    assert texts == {"sites/shop": SITE.replace("default_server;", "default_server reuseport;")}


def test_the_options_of_a_shared_socket_are_changed_where_they_are_said(folder: Path) -> None:
    """Nginx refuses them in two servers."""
    (folder / "sites" / "other").write_text("server { listen 80 backlog=1000; return 404; }\n")
    reached = found(folder, "/index.html", proxied=False)
    bound = bind(space("static"), reached)
    assert bound.baseline.values["backlog"] == 1000
    _, texts = tuned(folder, bound, reached, backlog=2000)
    assert "listen 80 backlog=2000;" in texts["sites/other"]
    assert "listen 80 default_server;" in texts["sites/shop"]


def test_a_log_gets_its_buffer_and_its_format(folder: Path) -> None:
    """The format's name must stand before the buffer."""
    reached = found(folder, "/index.html", proxied=False)
    bound = bind(space("static"), reached)
    _, texts = tuned(folder, bound, reached, access_log_buffer=65536, access_log_flush=2)
    log = "access_log /var/log/nginx/access.log"
    assert texts == {"nginx.conf": MAIN.replace(log, f"{log} combined buffer=64k flush=2s")}


def test_kept_upstreams_are_three_changes_that_belong_together(folder: Path) -> None:
    """The header joins the others, or it would replace them."""
    reached = found(folder, "/api/x", proxied=True)
    bound = bind(space("proxy"), reached)
    assert bound.baseline.values["proxy_http_version"] == "1.0"
    _, texts = tuned(folder, bound, reached, proxy_http_version="1.1", upstream_keepalive=64)
    site = texts["sites/shop"]
    assert "max_fails=2;\n    keepalive 64;\n    keepalive_requests 100000;" not in site
    assert "max_fails=2;\n    keepalive 64;\n" in site
    assert "proxy_buffer_size 16k;\n        proxy_http_version 1.1;\n    }" in site
    assert 'shorter here\n    proxy_set_header Connection "";\n' in site


@pytest.mark.parametrize(
    ("target", "location", "passed", "redirect"),
    [
        ("http://10.0.0.5:3000", "/", "http://kept_10_0_0_5_3000;", "http://10.0.0.5:3000/ /;"),
        ("http://web:80/v1/", "/api/", "http://kept_web_80/v1/;", "http://web:80/v1/ /api/;"),
    ],
)
def test_an_address_gets_an_upstream_block_and_the_backend_hears_the_same(
    folder: Path, target: str, location: str, passed: str, redirect: str
) -> None:
    """The Host header and the redirects that Nginx made of the address are said in words."""
    address = target.removeprefix("http://").partition("/")[0]
    main = (
        "events {}\nhttp {\n\tsendfile on;\n\tserver {\n\t\tlisten 80;\n"
        f"\t\tlocation {location} {{\n\t\t\tproxy_pass {target};\n\t\t}}\n\t}}\n}}\n"
    )
    (folder / "nginx.conf").write_text(main)
    reached = found(folder, "/api/x", proxied=True)
    bound = bind(space("proxy"), reached)
    values: dict[str, Value] = {"proxy_http_version": "1.1", "upstream_keepalive": 64}
    _, texts = tuned(folder, bound, reached, **values, upstream_keepalive_requests=5000)
    block = (
        f"\tupstream kept_{address.replace('.', '_').replace(':', '_')} {{\n"
        f"\t\tserver {address};\n\t\tkeepalive 64;\n\t\tkeepalive_requests 5000;\n\t}}\n"
    )
    inside = (
        f"proxy_pass {passed}",
        "proxy_http_version 1.1;",
        f"proxy_set_header Host {address};",
        f"proxy_redirect {redirect}",
        'proxy_set_header Connection "";',
    )
    wanted = main.replace("\tsendfile on;\n", f"\tsendfile on;\n{block}")
    wanted = wanted.replace(f"proxy_pass {target};", "\n\t\t\t".join(inside))
    assert texts == {"nginx.conf": wanted}


SOCKETS = """\
    map $http_upgrade $connection_upgrade { default upgrade; '' close; }
    proxy_http_version 1.1;
    proxy_set_header Upgrade $http_upgrade;
    proxy_set_header Connection WORD;
"""


def test_connections_are_kept_next_to_websockets(folder: Path) -> None:
    """A map's word for requests that upgrade nothing is changed, and HTTP/1.1 is not."""
    for word, other in (("$connection_upgrade", "''  \"\";"), ('"upgrade"', "'' close;")):
        site = SITE.replace("proxy_set_header Host $host;", "")
        (folder / "sites" / "shop").write_text(SOCKETS.replace("WORD", word) + site)
        reached = found(folder, "/api/x", proxied=True)
        bound = bind(space("proxy"), reached)
        version = bound.space.parameter("proxy_http_version")
        assert not version.searchable
        assert bound.space.baseline("stock").values["proxy_http_version"] == "1.1"
        _, texts = tuned(folder, bound, reached, upstream_keepalive=64)
        before = SOCKETS.replace("WORD", word)
        kept = site.replace("max_fails=2;\n", "max_fails=2;\n    keepalive 64;\n")
        assert texts == {"sites/shop": before.replace("'' close;", other.replace("  ", " ")) + kept}


def test_buffers_bring_the_size_that_must_fit_them(folder: Path) -> None:
    """Nginx would refuse the compiled-in one."""
    reached = found(folder, "/api/x", proxied=True)
    bound = bind(space("proxy"), reached)
    _, texts = tuned(
        folder,
        bound,
        reached,
        proxy_buffers_number=8,
        proxy_buffers_size=4096,
        proxy_buffer_size=24576,
    )
    assert "proxy_buffers 8 4k; proxy_buffer_size 24k;\n" in texts["sites/shop"]
    assert "        proxy_busy_buffers_size 28k;\n    }" in texts["sites/shop"]


def test_the_other_baselines_fit_the_space_too(folder: Path) -> None:
    """The hand tuning joins the search; its patch is whole."""
    for name, path in (("static", "/index.html"), ("proxy", "/api/x")):
        reached = found(folder, path, proxied=name == "proxy")
        bound = bind(space(name), reached)
        hand = bound.space.adopt(bound.space.baseline("hand"), bound.baseline)
        tuned(folder, bound, reached, **hand.values)


@pytest.mark.parametrize(
    ("old", "new", "name", "words"),
    [
        ("access_log /var/log/nginx/access.log;", "access_log off;", "access_log_buffer", "no log"),
        ("keepalive_timeout 20s;", "keepalive_timeout 1d;", "keepalive_timeout", "cannot express"),
        ("least_conn;", "keepalive 8; #", "upstream_keepalive", ""),
        ("http://app;", "http://$app;", "upstream_keepalive", "another for each request"),
        ("http://app;", "https://127.0.0.1:3000;", "upstream_keepalive", "in cleartext"),
        ("Host $host;", "Upgrade on;\n", "upstream_keepalive", ""),
        (
            "http://app;",
            "http://127.0.0.1:3000; proxy_set_header Host $proxy_host;",
            "upstream_keepalive",
            "$proxy_host",
        ),
        (
            "http://app;",
            "http://127.0.0.1:3000; proxy_redirect default;",
            "upstream_keepalive",
            "proxy_redirect default",
        ),
        (
            "proxy_set_header Host $host;",
            "proxy_set_header Connection $connection_upgrade;",
            "proxy_http_version",
            "not from a map",
        ),
        (
            "proxy_set_header Host $host;",
            "proxy_set_header Connection upgrade;",
            "proxy_http_version",
            "WebSockets, which need proxy_http_version 1.1",
        ),
    ],
)
def test_what_cannot_be_changed_safely_stays_and_is_said(
    folder: Path, old: str, new: str, name: str, words: str
) -> None:
    """With the user's file and line, and what depends on it is left out too."""
    for file in ("nginx.conf", "sites/shop"):
        text = (folder / file).read_text()
        (folder / file).write_text(text.replace(old, new))
    kind = "static" if name == "keepalive_timeout" else "proxy"
    reached = found(folder, "/api/x", proxied=kind == "proxy")
    bound = bind(space(kind), reached)
    reasons = dict(bound.space.left_out)
    if not words:
        assert name not in reasons
        return
    assert words in reasons[name]
    assert name not in {parameter.name for parameter in bound.space.parameters}
    if name == "upstream_keepalive":
        assert words in reasons["upstream_keepalive_timeout"]


@pytest.mark.parametrize(
    "command", [("patch", "-p0", "--binary"), ("patch", "-p1", "--binary"), ("git", "apply", "-")]
)
@pytest.mark.parametrize("tracked", [False, True])
def test_the_patch_applies_in_every_usual_way(
    folder: Path, command: tuple[str, ...], *, tracked: bool
) -> None:
    """From the folder of the files, also below a checkout; CRLF and a missing line feed stay."""
    checkout = folder.parent / f"{folder.name}-checkout"
    shutil.copytree(folder, checkout / "etc" / "nginx")
    folder = checkout / "etc" / "nginx"
    if tracked:
        subprocess.run(["git", "init", "-q", str(checkout)], check=True)
    (folder / "nginx.conf").write_bytes(MAIN.replace("\n", "\r\n").rstrip().encode())
    reached = found(folder, "/index.html", proxied=False)
    bound = bind(space("static"), reached)
    wanted = bound.space.complete({"tcp_nopush": True, "reuseport": True}, bound.baseline)
    edits = list(changes(bound, reached, wanted, reference=bound.baseline))
    texts = change_texts(reached.tree, edits)
    diff = patch(reached.tree.texts, texts, folder)
    said = f"Words before it\n\n{diff}".encode()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    subprocess.run([*command], input=said, cwd=folder, check=True)
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert after == before | {Path(file): text.encode() for file, text in texts.items()}
    assert len(texts) == 2
