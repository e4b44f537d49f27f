"""``--dry-run``: what a run would do, proved by one request of each kind, and nothing started."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli import surfaces
from tests.cli.conftest import SHORT, Tuner
from tests.hosts.nginxes import needs_nginx
from tests.servers.labs import here
from tuner.app import announce
from tuner.own.installed import InstalledServer
from tuner.testing.lab import SimulatedHost

pytestmark = needs_nginx
SHOP = """\
events {}
http {
    server { listen 80; server_name shop.example; return 301 https://$host$request_uri; }
    server {
        listen 8080;
        server_name www.shop.example;
        root /srv/shop;
        location / { try_files $uri =404; }
        location /api/ { proxy_pass http://127.0.0.1:3000; }
    }
}
"""
WORKLOAD = """\
workload: shop
protocol: http1
connections: 4
backend:
  content_type: application/json
  body: '{"id":"b3f1c2a4"}'
requests:
  - {path: /api/orders, weight: 3}
  - {path: /api/baskets, method: POST, body: text, weight: 1}
"""
CADDYFILE = """\
http://shop.example {
\tencode gzip
\treverse_proxy 127.0.0.1:8000
}
"""
PROXY = ("--server", "caddy", "--workload", "proxy")


def written(path: Path, text: str) -> str:
    """Return the name of a file with a text."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_dry_run_shows_site_locations_and_answers_of_nginx(
    tuner: Tuner, host: SimulatedHost, tmp_path: Path
) -> None:
    """Each kind of request with its share, its answer, and the location that gave it."""
    config = written(tmp_path / "etc" / "nginx.conf", SHOP)
    workload = written(tmp_path / "etc" / "shop.yaml", WORKLOAD)
    done = tuner("optimize", "--dry-run", "--config", config, "--workload", workload)
    assert done.code == 0, done.err
    assert f"bound      server www.shop.example ({config}:4)\n" in done.out
    assert "a mix of 2 requests over 4 connections, at the load point" in done.out
    assert "search     " in done.out
    assert "seed" not in done.out
    end = f"location /api/ ({config}:9)\n"
    assert f"  75.0%  200         17 B  GET /api/orders  {end}" in done.out
    assert f"  25.0%  200         17 B  POST /api/baskets  {end}" in done.out
    assert done.out.endswith("dry run: no study was started, and nothing was written\n")
    assert not Path("studies").exists()
    assert host.windows == 0


def test_a_dry_run_proves_a_caddyfile(tuner: Tuner, host: SimulatedHost, tmp_path: Path) -> None:
    """With ``--json`` for scripts; the same keys for every command."""
    config = written(tmp_path / "etc" / "Caddyfile", CADDYFILE)
    done = tuner("measure", "own", "--dry-run", "--json", "--config", config, *PROXY)
    assert done.code == 0, done.err
    said = json.loads(done.out)
    surfaces.check("dry-run-json", surfaces.json_keys(said))
    (plan,) = said["plans"]
    assert plan["site"] == f"shop.example ({config})"
    (configuration,) = plan["configurations"]
    (request,) = configuration["requests"]
    assert request["answered_by"] == f"reverse_proxy ({config}:3)"
    assert (request["status"], request["difference"]) == (200, None)
    assert host.windows == 0


@pytest.mark.usefixtures("host")
def test_a_wrong_answer_is_named_and_fails(tuner: Tuner, tmp_path: Path) -> None:
    """Each kind of request has an answer, including those that are expected to fail."""
    config = written(tmp_path / "etc" / "nginx.conf", SHOP)
    gone = "  - {path: /api/gone, weight: 1, expect: {status: 404}}\n"
    workload = written(tmp_path / "etc" / "shop.yaml", WORKLOAD + gone)
    done = tuner("optimize", "--dry-run", "--config", config, "--workload", workload)
    assert done.code == 3, done.err
    assert "WRONG: 404 was expected" in done.out
    assert (
        "1 request is not answered as the workload expects, first GET /api/gone with 200: 404 was"
        " expected" in done.err
    )
    assert not Path("studies").exists()


@pytest.mark.usefixtures("host")
def test_a_dry_run_refuses_what_the_run_would(tuner: Tuner, tmp_path: Path) -> None:
    """With the same message and exit code."""
    config = written(tmp_path / "etc" / "nginx.conf", SHOP)
    given = ("optimize", "--config", config, "--server-name", "other.example")
    real, dry = tuner(*given), tuner(*given, "--dry-run")
    assert (dry.code, dry.err) == (real.code, real.err)
    assert dry.code == 2


@pytest.mark.usefixtures("host")
def test_both_arms_of_a_comparison_are_asked(tuner: Tuner) -> None:
    """Arms may be configurations or servers."""
    done = tuner("compare", "stock", "hand", "--dry-run", "--workload", "static")
    assert done.code == 0, done.err
    assert "sent to stock (" in done.out
    assert "sent to hand (" in done.out
    done = tuner("ladder", "nginx:stock", "nginx:hand", "--dry-run", "--workload", "static")
    assert done.code == 0, done.err
    assert "sent to nginx-hand (" in done.out
    assert "10 min for all; results in studies/nginx-stock-nginx-hand/" in done.out
    assert not Path("studies").exists()


@pytest.mark.usefixtures("host")
def test_a_winner_is_asked_before_it_is_measured_again(finished: Tuner) -> None:
    """For a replication, and for an ablation with the changes that it would measure."""
    done = finished("replicate", "mine", "--dry-run")
    assert done.code == 0, done.err
    assert "sent to winner (" in done.out
    assert not Path("studies/mine-replica").exists()
    done = finished("ablate", "mine", "--dry-run")
    assert done.code == 0, done.err
    assert re.search(r"^changes    .*\bsendfile\b", done.out, re.MULTILINE)


@pytest.mark.parametrize("command", [("optimize",), ("compare", "stock", "hand")])
def test_a_dry_run_resumes_nothing(tuner: Tuner, command: tuple[str, ...]) -> None:
    """A resumed study keeps what it has."""
    done = tuner(*command, "--dry-run", "--resume", *SHORT[-1:])
    assert done.code == 2
    assert "--dry-run: a resumed study keeps its definition" in done.err


@pytest.mark.usefixtures("host")
def test_a_first_run_names_the_servers_of_this_machine(
    tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On standard error, with the option that tunes them; not with ``--quiet``."""
    found = InstalledServer("nginx", "1.26.0", "/etc/nginx/nginx.conf", 3)
    monkeypatch.setattr(announce, "installed", lambda: (found,))
    done = tuner("optimize", "--dry-run", "--workload", "static")
    assert done.err == (
        "found      nginx 1.26.0 with 3 sites in /etc/nginx; tune it with --config"
        " /etc/nginx/nginx.conf\n"
    )
    assert tuner("optimize", "--dry-run", "--workload", "static", "--quiet").err == ""


SITE = """\
workload: site
protocol: {protocol}
tls: on
connections: 4
site: [{{path: /index.html, size: 2k}}, {{path: /site.css, size: 1k}}]
requests:
  - {{path: /index.html, weight: 2}}
  - {{path: /site.css, weight: 1{more}}}
"""


@pytest.mark.parametrize(("server", "protocol"), [("nginx", "http2"), ("caddy", "http3")])
def test_requests_speak_the_protocol_of_the_workload(
    tuner: Tuner, tmp_path: Path, server: str, protocol: str
) -> None:
    """The generator sends them, as in a study."""
    here(server)
    workload = written(tmp_path / "etc" / "site.yaml", SITE.format(protocol=protocol, more=""))
    done = tuner("measure", "--dry-run", "--json", "--server", server, "--workload", workload)
    assert done.code == 0, done.err
    (plan,) = json.loads(done.out)["plans"]
    (configuration,) = plan["configurations"]
    answers = [(each["status"], each["size_bytes"]) for each in configuration["requests"]]
    assert answers == [(200, 2048), (200, 1024)]
    assert not Path("studies").exists()


def test_a_wrong_answer_over_http2_is_named(tuner: Tuner, tmp_path: Path) -> None:
    """Its size is unknown."""
    more = ", expect: {status: 404}"
    workload = written(tmp_path / "etc" / "site.yaml", SITE.format(protocol="http2", more=more))
    done = tuner("measure", "--dry-run", "--workload", workload)
    assert done.code == 3, done.err
    assert "  33.3%  200               GET /site.css  WRONG: 404 was expected" in done.out
