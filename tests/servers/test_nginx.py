"""Tests that are particular to Nginx: detection, queries, validation, start and proof."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from tests.hosts.nginxes import NGINX
from tests.servers import builds
from tests.spaces import load_space
from tuner.errors import HostError
from tuner.machine.facts import ServerFacts
from tuner.servers import backend, nginx
from tuner.servers.certificate import Certificate
from tuner.servers.ground import TargetGround
from tuner.workload.wire import Tls, Wire, WireProtocol
from tuner.workload.workload import load_workload

DEBIAN = """\
nginx version: nginx/1.22.1
built with OpenSSL 3.0.8 7 Feb 2023 (running with OpenSSL 3.0.15 3 Sep 2024)
TLS SNI support enabled
configure arguments: --with-cc-opt='-g -O2' --prefix=/usr/share/nginx --with-compat \
--with-threads --with-http_ssl_module --with-http_v2_module --with-http_image_filter_module=dynamic
"""
GROUND = TargetGround(
    binary="/usr/sbin/nginx",
    instances_dir=Path("/lab/instances"),
    backends_dir=Path("/lab/backends"),
    site_dir=Path("/lab/site"),
    cpus=(1, 3),
    backend_cpus=(2,),
    upstreams=("127.0.0.1:18079",),
)


def test_version_and_modules_are_read_from_its_own_words() -> None:
    """Version and static modules are read from ``nginx -V``; dynamic modules are left out."""
    found = nginx.parse_build(DEBIAN, "/usr/sbin/nginx")
    assert found == ServerFacts(
        name="nginx",
        binary="/usr/sbin/nginx",
        version="1.22.1",
        modules=("cc-opt", "compat", "http_ssl", "http_v2", "threads"),
        build=DEBIAN.strip(),
    )


@pytest.mark.parametrize(
    ("text", "words", "version"),
    [
        ("nginx version: nginx/1.29.0 (x)", "nginx 1.29.0", (1, 29, 0)),
        (builds.OPENRESTY, "OpenResty 1.15.8.1 (nginx 1.15.8)", (1, 15, 8)),
        (builds.ANGIE, "Angie 1.11.0 (nginx 1.29.3)", (1, 29, 3)),
        (builds.ANGIE_PRO, "Angie 1.11.0 (nginx 1.29.3)", (1, 29, 3)),
        (builds.ANGIE_FIRST, "Angie 1.0.0", (1, 22, 0)),
        (builds.FREENGINX, "freenginx 1.31.1", (1, 25, 4)),
        ("nginx version: shop/1.25.3", "shop 1.25.3", (1, 25, 3)),
    ],
    ids=["nginx", "openresty", "angie", "angie pro", "first angie", "freenginx", "renamed"],
)
def test_relatives_of_nginx_are_recognised(text: str, words: str, version: tuple[int, ...]) -> None:
    """Reports name the product; conditions on versions use that of the Nginx in it."""
    found = nginx.parse_build(text, "/opt/nginx")
    assert (found.name, found.words, found.version_tuple) == ("nginx", words, version)


def test_modules_of_relatives_are_read_as_those_of_nginx() -> None:
    """They decide which protocols a build serves."""
    angie, openresty = (nginx.parse_build(t, "x") for t in (builds.ANGIE, builds.OPENRESTY))
    assert {"http_v3", "http_ssl"} <= set(angie.modules)
    assert "http_v3" not in openresty.modules
    assert nginx.refuses(openresty, Wire("http3", Tls()))
    assert not nginx.refuses(angie, Wire("http3", Tls()))


def test_a_program_that_tells_no_version_is_not_nginx() -> None:
    """The message quotes it."""
    with pytest.raises(HostError, match=r"does not print a version: 'hello"):
        nginx.parse_build("hello", "/bin/hello")


def test_a_missing_nginx_is_said_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the usual distributions."""
    monkeypatch.setattr(nginx, "_CANDIDATES", (str(tmp_path / "nginx"),))
    with pytest.raises(HostError, match=r"no Nginx found.*apt-get install nginx-light.*dnf"):
        nginx.detect()


def test_an_nginx_that_does_not_answer_is_said_in_its_words(tmp_path: Path) -> None:
    """A broken installation."""
    broken = tmp_path / "nginx"
    broken.write_text("#!/bin/sh\necho 'libpcre.so: not found' >&2; exit 127\n")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(HostError, match=r"nginx -V failed: libpcre\.so: not found"):
        nginx.detect(str(broken))


def test_an_instance_lives_in_a_folder_of_its_own() -> None:
    """Everything it reads, writes and listens on is its own; it proves itself by its digest."""
    space = load_space("nginx/static", server_cores=2)
    stock = space.baseline("stock")
    spec = nginx.instance("c1", stock, space, replace(GROUND, upstreams=()), 18_081)
    text = spec.files["nginx.conf"]
    assert spec.directory == "/lab/instances/c1"
    assert spec.validate == (*spec.start, "-t")
    assert spec.start[1:5] == ("-p", "/lab/instances/c1/", "-c", "/lab/instances/c1/nginx.conf")
    assert spec.pid_file == "/lab/instances/c1/run/nginx.pid"
    assert spec.pid_file in text
    assert "127.0.0.1:18081" in text
    assert "/lab/site" in text
    assert (spec.live_token, stock.digest in text) == (stock.digest, True)
    assert spec.live_url == "http://127.0.0.1:18081/.tuner/live"
    assert spec.cpus == (1, 3)


def test_the_backend_is_an_nginx_of_its_own_on_its_own_cpus() -> None:
    """The backend has a folder and a CPU of its own and answers the workload's body."""
    spec = backend.instance(load_workload("proxy"), GROUND, 18_079)
    assert spec.directory == "/lab/backends/backend"
    assert (spec.cpus, spec.live_token) == ((2,), "backend")
    assert "127.0.0.1:18079" in spec.files["nginx.conf"]


@pytest.mark.integration
@pytest.mark.skipif(NGINX is None, reason="no nginx on this machine")
def test_the_installed_nginx_is_found_and_understood() -> None:
    """The installed Nginx is found with its program, version and modules."""
    found = nginx.detect()
    assert Path(found.binary).is_file()
    assert found.version_tuple > (1, 0)
    assert found.modules


@pytest.mark.parametrize(
    ("version", "wire", "words"),
    [
        ("1.22.1", Wire("http2", Tls()), ""),
        ("1.22.1", Wire("http2"), "before 1.25.1 speaks HTTP/2 in cleartext and nothing else"),
        ("1.27.4", Wire("http2"), ""),
        ("1.27.4", Wire("http3", Tls()), "without --with-http_v3_module, which http/3 over TLS"),
    ],
)
def test_what_a_build_cannot_speak_is_said(version: str, wire: Wire, words: str) -> None:
    """With the module that is missing, or the way out."""
    server = ServerFacts("nginx", "/usr/sbin/nginx", version, ("http_ssl", "http_v2"), "")
    found = nginx.refuses(server, wire)
    assert words in found
    assert bool(words) == bool(found)


@pytest.mark.parametrize(
    ("version", "protocol", "lines"),
    [
        ((1, 22, 1), "http2", ["listen 127.0.0.1:18080 ssl http2 backlog=511;"]),
        ((1, 25, 1), "http2", ["listen 127.0.0.1:18080 ssl backlog=511;", "http2 on;"]),
        (
            (1, 27, 4),
            "http3",
            ["listen 127.0.0.1:18080 ssl backlog=511;", "listen 127.0.0.1:18080 quic reuseport;"],
        ),
        ((1, 22, 1), "http1", ["listen 127.0.0.1:18080 ssl backlog=511;"]),
    ],
)
def test_an_instance_listens_as_its_version_wants_it_said(
    version: tuple[int, ...], protocol: WireProtocol, lines: list[str]
) -> None:
    """Each version has its form of `listen`; the lab's certificate and TLS proof go with it."""
    space = load_space("nginx/static", server_version=version)
    ground = replace(
        GROUND, upstreams=(), protocol=protocol, certificate=Certificate("ca", "chain", "key")
    )
    spec = nginx.instance("c1", space.baseline("stock"), space, ground, 18080)
    text = spec.files["nginx.conf"]
    said = [line.strip() for line in text.splitlines() if "listen " in line or "http2" in line]
    assert said == lines
    assert f"ssl_certificate {spec.directory}/tls/cert.pem;" in text
    assert (spec.files["tls/cert.pem"], spec.files["tls/key.pem"]) == ("chain", "key")
    assert spec.live_url == "https://127.0.0.1:18080/.tuner/live"
