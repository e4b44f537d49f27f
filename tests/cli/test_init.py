"""``tuner init``: four questions, and a study that runs."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Terminal, Tuner
from tests.hosts.nginxes import needs_nginx
from tests.reading.test_access_log import line
from tuner.app import draft
from tuner.app.draft import Suggestions
from tuner.definition.study import load_study
from tuner.own.installed import InstalledServer
from tuner.workload.workload import load_workload

pytestmark = [*needs_nginx, pytest.mark.usefixtures("host")]
SHOP = """\
events {}
http {
    server {
        listen 8080;
        server_name shop.example;
        location / { proxy_pass http://127.0.0.1:3000; }
    }
}
"""
OPTIONS = ("--server", "nginx", "--access-log", "none", "--objective", "p99")


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration that is found on this machine."""
    path = tmp_path / "etc" / "nginx.conf"
    path.parent.mkdir()
    path.write_text(SHOP, encoding="utf-8")
    found = InstalledServer("nginx", "1.26.0", str(path), 1)
    monkeypatch.setattr(draft, "installed", lambda: (found,))
    monkeypatch.setattr(Suggestions, "access_log", lambda *_: "none")
    return path


def typed(monkeypatch: pytest.MonkeyPatch, *answers: str) -> None:
    """Let a user at a terminal type lines."""
    monkeypatch.setattr(sys, "stdin", Terminal("".join(f"{answer}\n" for answer in answers)))


def test_the_suggestions_make_a_study_that_runs(
    tuner: Tuner, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Return at every question: the configuration of this machine, and the plan before the file."""
    typed(monkeypatch, "", "", "", "", "")
    done = tuner("init")
    assert done.code == 0, done.err
    assert done.err.startswith(f"found      nginx 1.26.0 with 1 site in {config.parent}\nServer")
    assert f"bound      server shop.example ({config}:3)" in done.out
    assert f"GET /api/orders/b3f1c2a4  location / ({config}:6)" in done.out
    assert done.out.endswith(
        "written    nginx.yaml\nrun        tuner optimize --study nginx.yaml\n"
    )
    study = load_study("nginx.yaml")
    assert (study.server, study.config, study.workload) == ("nginx", str(config), "proxy")
    assert (study.objective, study.baseline, study.sequential) == (("p99",), "own", True)
    assert tuner("optimize", "--study", "nginx.yaml", "--dry-run").code == 0


def test_a_log_becomes_the_workload_that_the_configuration_serves(
    tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log of nothing but GET looks like a site; this configuration is a proxy."""
    Path("access.log").write_text("\n".join(line("GET", f"/api/{n % 2}/x") for n in range(9)))
    typed(monkeypatch, "nginx", "", "nowhere.log", "access.log", "bogus", "capacity", "", "y")
    done = tuner("init", "--output", "shop.yaml")
    assert done.code == 0, done.err
    assert "nowhere.log is not a file" in done.err
    assert "unknown objective 'bogus'" in done.err
    study = load_study("shop.yaml")
    assert (study.workload, study.slo) == ("shop-workload.yaml", "p99 <= 10ms")
    assert load_workload(study.workload).backend is not None
    assert Path("shop-workload.yaml").stat().st_mode & 0o077 == 0, "a log is personal data"


def test_the_larger_part_of_a_log_is_taken_where_the_lab_has_only_a_part(
    tuner: Tuner, config: Path
) -> None:
    """The lab answers with files or with a backend, and this server needs both."""
    both = "location / { proxy_pass http://127.0.0.1:3000; } location /img/ { root /srv; }"
    config.write_text(SHOP.replace("location / { proxy_pass http://127.0.0.1:3000; }", both))
    targets = ("/api/x", "/api/y", "/img/a.png")
    Path("access.log").write_text("\n".join(line("GET", target) for target in targets))
    options = ("--server", "nginx", "--config", str(config), "--objective", "p99")
    done = tuner("init", *options, "--access-log", "access.log")
    assert done.code == 0, done.err
    assert (
        "log        66.7% of access.log; left out, 33.3%: answered by another part of the"
        " configuration, such as GET /img/a.png 200\n" in done.out
    )
    workload = load_workload("nginx-workload.yaml")
    assert [request.path for request in workload.requests] == ["/api/x", "/api/y"]


def test_a_log_that_nothing_can_serve_is_refused_with_a_way_out(tuner: Tuner, config: Path) -> None:
    """A server that answers by itself needs no log."""
    config.write_text(SHOP.replace("proxy_pass http://127.0.0.1:3000", "return 200 ok"))
    Path("access.log").write_text(line("GET", "/api/x"))
    options = ("--server", "nginx", "--config", str(config), "--objective", "p99")
    done = tuner("init", *options, "--access-log", "access.log")
    assert done.code == 2
    assert done.err.endswith("; or leave out the log: --access-log none\n")


def test_a_refusal_keeps_what_was_typed(
    tuner: Tuner, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers as options, to which the way out of the refusal can be added."""
    config.write_text(SHOP.replace("proxy_pass http://127.0.0.1:3000", "return 200 ok"))
    typed(monkeypatch, "", "", "", "cpu")
    done = tuner("init")
    assert done.code == 2
    again = f"again      tuner init --server nginx --config {config} --access-log none"
    assert f"{again} --objective cpu --output nginx.yaml\n" in done.err


def test_a_file_is_replaced_only_after_a_yes(tuner: Tuner, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a terminal, without one, and with ``--yes``."""
    given = ("init", *OPTIONS, "--config", "none", "--output", "mine.yaml")
    Path("mine.yaml").write_text("precious")
    typed(monkeypatch, "")
    done = tuner(*given)
    assert done.code != 0
    assert "Replace mine.yaml? [y/N]" in done.err
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    done = tuner(*given)
    assert done.code == 2
    assert "mine.yaml exists; name another file, or replace it with --yes" in done.err
    assert Path("mine.yaml").read_text() == "precious"
    assert tuner(*given, "--yes", "--json").code == 0
    assert load_study("mine.yaml").config == ""


@pytest.mark.parametrize("options", [("--yes",), ("--objective", "cpu")])
def test_without_anyone_to_ask_the_line_that_works_is_named(
    tuner: Tuner, config: Path, options: tuple[str, ...]
) -> None:
    """With what was found and given; nothing is written."""
    done = tuner("init", *options)
    assert done.code == 2
    goal = options[1] if options[1:] else "p99"
    assert done.err.endswith(
        f"write: tuner init --server nginx --config {config} --access-log none --objective {goal}"
        " --output nginx.yaml\n"
    )
    assert not list(Path().glob("*.yaml"))


def test_a_script_reads_what_was_written(tuner: Tuner, config: Path) -> None:
    """``--json`` has the files, and the plan with the keys of ``--dry-run``."""
    done = tuner("init", *OPTIONS, "--config", str(config), "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert (said["study"], said["workload"]) == ("nginx.yaml", None)
    (asked,) = said["plan"]["configurations"][0]["requests"]
    assert asked["answered_by"] == f"location / ({config}:6)"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--config", "gone.conf"), "cannot be read"),
        (("--config", "none", "--location", "/app/"), "--location: belongs to a configuration"),
        (("--config", "none", "--time", "soon"), "--time"),
        (("--config", "none", "--output", "study.txt"), "--output: study.txt does not end with"),
        (("--config", "none", "--output", "a b.yaml"), "'a b' is not a name"),
    ],
)
def test_answers_that_make_no_study_are_refused(
    tuner: Tuner, options: tuple[str, ...], words: str
) -> None:
    """With the option, before anything is written."""
    done = tuner("init", *OPTIONS, *options)
    assert done.code == 2
    assert words in done.err
    assert "tuner-init" not in done.err, "the temporary folder is nobody's file"
    assert not list(Path().glob("*.yaml"))


def test_the_newest_log_with_content_is_suggested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty log after a rotation says nothing, and an error log is no access log."""
    monkeypatch.undo()
    folder = tmp_path / "nginx"
    folder.mkdir()
    (folder / "access.log").touch()
    (folder / "error.log").write_text("x")
    assert Suggestions(()).access_log("nginx", "none", tmp_path) == "none"
    (folder / "shop.access.log").write_text("x")
    found = Suggestions(()).access_log("nginx", "none", tmp_path)
    assert found == str(folder / "shop.access.log")
    assert Suggestions(()).access_log("caddy", "none", tmp_path) == "none"


NGINX_LOGS = """
events {}
http {
    access_log %s/all.log;
    server { access_log %s/shop.log; location /health { access_log off; } }
    server { access_log %s/$host.log; access_log syslog:server=unix:/dev/log; access_log own.log; }
}
"""
CADDY_LOGS = """
{
    log {
        output file %s/all.log
    }
}
shop.example {
    log {
        output file %s/shop.log {
            roll_size 1gb
        }
    }
}
http://other.example {
    log {
        output file {$LOGS}/other.log
    }
    log {
        output stdout
    }
}
"""


@pytest.mark.parametrize(
    ("server", "text"), [("nginx", NGINX_LOGS), ("caddy", CADDY_LOGS)], ids=["nginx", "caddy"]
)
def test_the_log_that_the_configuration_names_comes_first(
    server: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it lies; what is off, goes elsewhere or has a variable name is no file to read."""
    monkeypatch.undo()
    config = tmp_path / {"nginx": "nginx.conf", "caddy": "Caddyfile"}[server]
    config.write_text(text.replace("%s", str(tmp_path)), encoding="utf-8")
    usual = tmp_path / "log" / server
    usual.mkdir(parents=True)
    (usual / "access.log").write_text("x")
    here = Suggestions(())
    assert here.access_log(server, str(config), usual.parent) == str(usual / "access.log")
    (tmp_path / "shop.log").write_text("x")
    assert here.access_log(server, str(config), usual.parent) == str(tmp_path / "shop.log")
    config.write_text("no configuration {", encoding="utf-8")
    assert here.access_log(server, str(config), usual.parent) == str(usual / "access.log")
