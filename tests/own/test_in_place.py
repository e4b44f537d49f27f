"""The user's own Nginx in place: its files with other values, and nothing else about them."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.servers.test_nginx import DEBIAN
from tests.spaces import load_space
from tuner.errors import DefinitionError
from tuner.own.nginx.in_place import InPlaceNginx, read
from tuner.own.nginx.tree import parse
from tuner.own.server import OwnOptions
from tuner.servers import nginx
from tuner.servers.ground import TargetGround
from tuner.space.configuration import Configuration
from tuner.workload.workload import Workload, load_workload

MAIN = "/etc/nginx/nginx.conf"
SITE = "/etc/nginx/sites-enabled/shop"
TEXTS = {
    MAIN: """\
pid /run/own.pid;
events { worker_connections 1024; }  # as packaged
http {
\tsendfile off;
    include sites-enabled/*;
}
""",
    SITE: """\
server {
    listen 8080;
    server_name shop.example;
    error_page 404 "/moved";    # as ever
    location / { root /srv/shop; }
}
server { listen 8080 default_server; server_name _; root /srv/other; }
""",
}


@dataclass(frozen=True)
class Elsewhere:
    """The files of another host; nothing of them is on this one."""

    texts: Mapping[str, str]

    def read(self, path: str) -> bytes:
        """Implement ``Files.read``."""
        if path not in self.texts:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self.texts[path].encode("utf-8", "surrogateescape")

    def matches(self, pattern: str) -> list[str]:
        """Implement ``Files.matches``."""
        return sorted(fnmatch.filter(self.texts, pattern))


@pytest.fixture
def workload(tmp_path: Path) -> Workload:
    """Two URLs; one of them names a host itself."""
    path = tmp_path / "shop.yaml"
    path.write_text(
        "workload: shop\nsite: own\n"
        "requests: [{path: /a}, {path: /b, headers: {Host: other.example}}]\n"
    )
    return load_workload(str(path))


def in_place(workload: Workload, texts: Mapping[str, str], name: str = "") -> InPlaceNginx:
    """Return the server behind the port."""
    space = load_space(
        "nginx/static", server_cores=2, connections=workload.connections, memory_bytes=1 << 30
    )
    own = read(OwnOptions(MAIN, server_name=name), workload, Elsewhere(texts))
    return own.adapt(space, nginx.parse_build(DEBIAN, "/usr/sbin/nginx"))[0]


def ground() -> TargetGround:
    """Return a ground that no instance in place uses."""
    here = Path("/nowhere")
    return TargetGround("nginx", here, here, here, (), (), ())


def test_an_instance_is_the_hosts_files_and_one_location_more(workload: Workload) -> None:
    """The baseline adds only that location; every other byte is the user's."""
    made = in_place(workload, TEXTS, "shop.example")
    baseline = made.bound.baseline
    spec = made.instance("baseline", baseline, made.bound.space, ground(), 8080)
    (path,) = spec.files
    assert "/" + path == SITE
    lines = (
        "    location = /.tuner/live {\n"
        "        access_log off;\n"
        f"        return 200 {baseline.digest};\n"
        "    }\n"
    )
    assert spec.files[path].replace(lines, "", 1) == TEXTS[SITE]
    assert spec.directory == "/"
    assert spec.validate == ("/usr/sbin/nginx", "-t", "-c", MAIN)
    assert spec.pid_file == "/run/own.pid"
    assert spec.live_url == "http://127.0.0.1:8080/.tuner/live"
    assert (spec.live_host, spec.live_token) == ("shop.example", baseline.digest)


def test_a_candidate_changes_its_values_where_they_stand(workload: Workload) -> None:
    """Both files then, and what is read from them again has the values and the proof."""
    made = in_place(workload, TEXTS, "shop.example")
    values = {**made.bound.baseline.values, "sendfile": True}
    wanted = Configuration.of(made.bound.baseline.space, values)
    texts = {f"/{path}": text for path, text in made.files(wanted).items()}
    assert texts[MAIN] == TEXTS[MAIN].replace("sendfile off", "sendfile on")
    tree = parse(MAIN, Elsewhere({**TEXTS, **texts}))
    live = [found for found in tree.walk() if found.args == ("=", "/.tuner/live")]
    assert [child.args for child in live[0].block or ()] == [("off",), ("200", wanted.digest)]
    assert made.export_files(made.bound.baseline, made.bound.space, None) == {}  # type: ignore[arg-type]  # not looked at


def test_the_server_is_asked_by_its_name(workload: Workload) -> None:
    """A request without a Host gets the server's name; without a server name it gets none."""
    own = read(OwnOptions(MAIN, server_name="shop.example"), workload, Elsewhere(TEXTS))
    hosts = [dict(request.headers)["Host"] for request in own.workload.requests]
    assert hosts == ["shop.example", "other.example"]
    own = read(OwnOptions(MAIN), workload, Elsewhere(TEXTS))
    assert own.workload.requests[0].headers == ()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("listen 8080;", "listen 127.0.0.1:8080;", "shop:2: listen 127.0.0.1:8080: the load comes"),
        ("listen 8080;", "listen [::]:8080;", "IPv6 only"),
        ("listen 8080;", "listen 8080 proxy_protocol;", "does not speak proxy_protocol"),
        ('"/moved"', '"/mov\udce4d"', "shop: holds bytes that are not UTF-8"),
    ],
)
def test_what_cannot_be_asked_in_place_is_refused(
    workload: Workload, old: str, new: str, words: str
) -> None:
    """At the line, before anything is changed on the host."""
    texts = {**TEXTS, SITE: TEXTS[SITE].replace(old, new, 1)}
    with pytest.raises(DefinitionError) as refused:
        in_place(workload, texts, "shop.example")
    assert words in str(refused.value)


def test_the_load_must_fit_the_service_as_it_is(workload: Workload) -> None:
    """A raised baseline would be a configuration that the host does not have."""
    texts = {**TEXTS, MAIN: TEXTS[MAIN].replace("1024", "64")}
    with pytest.raises(DefinitionError, match="worker_connections is 64, and this load needs 128"):
        in_place(workload, texts, "shop.example")
    fewer = replace(workload, connections=0)
    assert in_place(fewer, texts).bound.baseline.values["worker_connections"] == 64
