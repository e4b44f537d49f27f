"""Tests of the notes on the lab's copy of a configuration: each is true of that copy."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.own.nginx.gaps import NginxGaps
from tuner.own.nginx.lab import NginxLabConfiguration, carry
from tuner.own.nginx.server import read
from tuner.own.nginx.slot import NginxLabSlot
from tuner.own.nginx.tree import walk
from tuner.own.server import OwnOptions
from tuner.workload.workload import load_workload

STAND = NginxLabSlot(
    address="127.0.0.1:18080",
    run_dir="/lab/run",
    log_dir="/lab/logs",
    modules_dir="/usr/lib/nginx",
    workers=1,
    cpu_mask="1",
    native_backend="",
    backend="127.0.0.1:18079",
    root="",
    own_site=False,
    tls_dir="",
    protocol="http1",
    keep_upstreams=False,
    readable=lambda _: True,
    gaps=NginxGaps(),
    live_path="/live",
    token="a token",  # noqa: S106 - no password
)
SITES = {
    "plain": "location / { proxy_pass http://127.0.0.1:3000; }",
    "https": "location / { proxy_pass https://app.example:8443/base/; }",
    "upstream": "location / { proxy_pass https://app; }",
    "variable": "set $to app.example; location / { proxy_pass https://$to$request_uri; }",
    "unix": "location / { proxy_pass http://unix:/run/app.sock:/base/; }",
    "fastcgi": "location / { proxy_pass http://a; } location ~ .php { fastcgi_pass php:9; }",
    "refusing": "allow 10.0.0.0/8; deny all; limit_req zone=one; auth_basic shop;"
    " location / { proxy_pass http://a.example; }",
    "log": "access_log syslog:server=10.0.0.1; error_log syslog:server=10.0.0.1;"
    " location / { proxy_pass http://a.example; }",
}
CONFIGURATION = """\
worker_processes auto;
worker_cpu_affinity 0001 0010;
events {{}}
http {{
    upstream app {{ server 10.0.0.1:8443; }}
    resolver 10.0.0.2;
    server {{
        listen 80 proxy_protocol;
        {site}
    }}
}}
"""


def carried(folder: Path, site: str, stand: NginxLabSlot = STAND) -> NginxLabConfiguration:
    """Return the lab's copy of a configuration with one site."""
    config = folder / "nginx.conf"
    config.write_text(CONFIGURATION.format(site=site))
    own = read(OwnOptions(str(config)), load_workload("proxy"))
    return carry(own.serving, own.tree.directives, stand)


@pytest.mark.parametrize("name", SITES)
def test_what_is_said_not_to_be_carried_over_is_not_there(tmp_path: Path, name: str) -> None:
    """And what is said to be changed is there."""
    made = carried(tmp_path, SITES[name])
    there = {(found.where, found.name) for found in walk(made.directives)}
    seen = 0
    for note in made.notes:
        said = re.match(r"(\S+:\d+): (\w+) .*? is (not carried over|changed in the lab): ", note)
        if said is not None:
            seen += 1
            assert ((said[1], said[2]) in there) is (said[3] == "changed in the lab"), note
    assert seen >= 3


def test_a_location_that_is_tuned_is_said_to_have_the_workloads_backend(tmp_path: Path) -> None:
    """In cleartext where it was asked over TLS; no note says that it is not carried over."""
    made = carried(tmp_path, SITES["https"])
    at = f"{tmp_path}/nginx.conf:9: "
    assert f"{at}the workload's backend stands behind app.example:8443" in made.notes
    words = "proxy_pass https://app.example:8443/base/ is changed in the lab"
    assert f"{at}{words}: the lab's backend is asked in cleartext" in made.notes
    passed = [found.args for found in walk(made.directives) if found.name == "proxy_pass"]
    assert passed == [("http://127.0.0.1:18079/base/",)]
    assert not any("proxy_pass" in note and "not carried over" in note for note in made.notes)


def test_the_backend_for_applications_stands_behind_their_locations(tmp_path: Path) -> None:
    """Over TCP in cleartext, whatever the target; the one for HTTP stays behind the others."""
    site = """location / { proxy_pass http://a; }
        location /php/ { fastcgi_pass unix:///run/php.sock; }
        location /app/ { uwsgi_pass suwsgi://tls; } location /py/ { uwsgi_pass app; }
        location /cgi/ { scgi_pass $to; } location /rpc/ { grpc_pass grpcs://10.0.0.1:443; }
        location /mem/ { memcached_pass 10.0.0.1:11211; }"""
    stand = replace(STAND, native_backend="127.0.0.1:18078")
    made = carried(tmp_path, site, stand)
    passed = {
        (found.name, found.args[0]) for found in walk(made.directives) if "_pass" in found.name
    }
    assert passed == {
        ("proxy_pass", "http://127.0.0.1:18079"),
        ("fastcgi_pass", "127.0.0.1:18078"),
        ("uwsgi_pass", "uwsgi://127.0.0.1:18078"),
        ("uwsgi_pass", "app"),
        ("scgi_pass", "127.0.0.1:18078"),
        ("grpc_pass", "grpc://127.0.0.1:18078"),
        ("memcached_pass", "127.0.0.1:9"),
    }
    (behind,) = (found for found in walk(made.directives) if found.name == "upstream")
    assert [found.args for found in behind.block or ()] == [("127.0.0.1:18078",)]
    assert any("the workload's backend stands behind unix:///run/php.sock" in n for n in made.notes)
    assert any("grpcs://10.0.0.1:443 is changed in the lab: the lab's" in n for n in made.notes)


def test_a_location_with_nothing_behind_it_is_said_once(tmp_path: Path) -> None:
    """A missing FastCGI server is noted once, like any other missing upstream."""
    notes = carried(tmp_path, SITES["fastcgi"]).notes
    about = [note for note in notes if "fastcgi_pass" in note]
    said = "is changed in the lab: it has no upstream in the lab, and requests to it fail"
    assert about == [f"{tmp_path}/nginx.conf:9: fastcgi_pass php:9 {said}"]
