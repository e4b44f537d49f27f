"""``--config``: the user's own server, from its files to a patch of them."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Tuner
from tests.hosts.nginxes import needs_nginx
from tuner.testing.lab import Effect, SimulatedHost

pytestmark = needs_nginx
TEXT = """\
# the shop's server
events { worker_connections 1024; }
http {
    keepalive_timeout 65;   # as it always was
    server {
        listen 80;
        server_name shop.example;
        root /srv/shop;
    }
}
"""
OPTIONS = ("--time", "20s", "--quiet", "--name", "mine", "--rate", "1000")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration of one's own."""
    (tmp_path / "etc").mkdir()
    path = tmp_path / "etc" / "nginx.conf"
    path.write_text(TEXT)
    return path


@pytest.mark.usefixtures("host")
def test_the_outcome_is_a_patch_of_the_users_files(tuner: Tuner, config: Path) -> None:
    """On the simulated lab, where ``sendfile on`` is what helps; the files themselves stay."""
    done = tuner("compare", "own", "hand", "--config", str(config), *OPTIONS)
    assert done.code == 0, done.err
    best = Path("studies/mine/best")
    assert config.read_text() == TEXT
    diff = tuner("export", "mine", "--diff")
    assert diff.code == 0
    assert diff.out == (best / "own.patch").read_text()
    command = ["patch", "-p0", "-s", "-d", str(config.parent)]
    subprocess.run(command, input=diff.out, text=True, check=True)
    assert "sendfile on;" in config.read_text()
    assert "# the shop's server" in config.read_text()
    assert (best / "own" / "nginx.conf").read_text() == config.read_text()
    report = Path("studies/mine/report.md").read_text()
    assert "root /srv/shop is not carried over" in report
    # The files are others now: blocks of the study could not be compared with new ones.
    done = tuner("compare", "own", "hand", "--resume", "--name", "mine")
    assert done.code == 2
    assert "configuration changed since 'mine' began" in done.err


ONE_WORKER = """\
worker_processes 1;
events { worker_connections 1024; }
http {
    server {
        listen 8080 reuseport;
        location / { root /srv/shop; }
    }
}
"""


def test_a_finding_has_the_effect_that_a_study_of_its_setting_measured(
    tuner: Tuner, host: SimulatedHost, tmp_path: Path
) -> None:
    """The finding names the command of a study that searches this setting only."""
    path = tmp_path / "nginx.conf"
    path.write_text(ONE_WORKER)
    command = ["tuner", "optimize", "--config", str(path), "--only", "reuseport"]
    (before,) = findings(tuner, path)
    assert (before["measure"], before["measured"]) == (shlex.join(command), [])
    host.truth = lambda values: Effect(
        ln_latency=0.5 * ("reuseport" in str(values["text"])), capacity_per_s=4_000.0
    )
    assert tuner(*command[1:], *OPTIONS).code == 0
    (after,) = findings(tuner, path)
    (words,) = after["measured"]
    assert re.fullmatch(
        r"p99 with reuseport = off is 0\.6\d\d times that with on \(0\.\d+ to 0\.\d+; study mine\)",
        words,
    )
    shown = tuner("doctor", "--config", str(path)).out
    assert f"    measured {words}\n    measure  {shlex.join(command)}\n" in shown


def findings(tuner: Tuner, path: Path) -> list[dict[str, Any]]:
    """Return the findings about ``reuseport``; others depend on the cores of this machine."""
    found = json.loads(tuner("doctor", "--config", str(path), "--json").out)
    return [finding for finding in found if finding["rule"] == "reuseport-one-worker"]


CADDYFILE = """\
# the shop's front
http://shop.example {
\tencode gzip   # as it always was
\treverse_proxy 127.0.0.1:8000
}
"""


@pytest.mark.usefixtures("host")
def test_the_outcome_is_a_patch_of_a_caddyfile(tuner: Tuner, tmp_path: Path) -> None:
    """The patch keeps lines, comments and layout; the environment is a file of its own."""
    config = tmp_path / "Caddyfile"
    config.write_text(CADDYFILE)
    options = ("--server", "caddy", "--workload", "proxy", "--config", str(config))
    done = tuner("compare", "own", "hand", *options, *OPTIONS)
    assert done.code == 0, done.err
    assert config.read_text() == CADDYFILE
    diff = tuner("export", "mine", "--diff", "--candidate")
    assert diff.code == 0
    command = ["patch", "-p0", "-s", "-d", str(tmp_path)]
    subprocess.run(command, input=diff.out, text=True, check=True)
    assert config.read_text().startswith(
        CADDYFILE.replace(":8000\n}\n", ":8000 {\n\t\ttransport http {\n")
    )
    files = tuner("export", "mine", "--candidate", "--output", str(tmp_path / "out"))
    assert files.code == 0
    assert (tmp_path / "out" / "own" / "Caddyfile").read_text() == config.read_text()
    variables = (tmp_path / "out" / "caddy.env").read_text()
    assert "GOGC=400" in variables
    assert "GOMAXPROCS" not in variables, "the lab's cores are not advice"
    report = Path("studies/mine/report.md").read_text()
    assert "the workload's backend stands behind 127.0.0.1:8000" in report
    config.write_text(CADDYFILE.replace("gzip", "zstd"))
    done = tuner("compare", "own", "hand", "--resume", "--name", "mine")
    assert done.code == 2
    assert "configuration changed since 'mine' began" in done.err


@pytest.mark.parametrize(
    ("old", "new", "options", "words"),
    [
        ("listen 80;", "listen 80", (), "nginx.conf:6: Nginx refuses it: invalid parameter"),
        ("root /srv", "index a b; sendfile maybe; root /srv", (), "sendfile"),
        ("root /srv", "limit_rate x; root /srv", (), "nginx.conf:8: Nginx refuses it"),
        ("", "", ("--server-name", "other.example"), "here are: shop.example"),
        ("", "", ("--workload", "https"), "nginx.conf:5: the workload asks over TLS"),
        ("", "", ("--server", "nghttpx"), "not yet nghttpx"),
    ],
)
@pytest.mark.usefixtures("host")
def test_what_is_wrong_is_said_before_anything_starts(
    tuner: Tuner, config: Path, *, old: str, new: str, options: tuple[str, ...], words: str
) -> None:
    """With file, line, and the way out."""
    config.write_text(TEXT.replace(old, new) if old else TEXT)
    done = tuner("optimize", "--config", str(config), *options)
    assert done.code == 2, done.err
    assert words in done.err
    assert not Path("studies").exists()
