"""The playbooks by themselves, as an administrator calls them: with ``ansible-playbook`` alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.bed import Bed
from tuner.paths import data_dir, loadgen_binary

pytestmark = pytest.mark.integration

HERE = data_dir("playbooks")
NAMES = sorted(path.name for path in HERE.glob("*.yml"))
BINS = Path(sys.executable).parent
LAB = "/var/tmp/tuner-by-hand"  # noqa: S108 - on the bed's host
RESULTS = "/var/tmp/tuner-results"  # noqa: S108 - likewise
PORT = 18_480
PARTS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
TEMPORARY = "".join(f"    {part}_temp_path {LAB}/instances/a/{part};\n" for part in PARTS)
CONF = f"""daemon on;
pid {LAB}/instances/a/pid;
error_log {LAB}/instances/a/error.log;
events {{}}
http {{
    access_log off;
{TEMPORARY}    server {{
        listen ADDRESS:{PORT};
        root {LAB}/site;
        location = /.tuner/live {{ return 200 "by hand"; }}
    }}
}}
"""


def environment() -> dict[str, str]:
    """Return the environment that ``playbooks/README.md`` requires."""
    path = os.pathsep.join([str(BINS), os.environ.get("PATH", os.defpath)])
    return {**os.environ, "PATH": path, "ANSIBLE_LIBRARY": str(HERE / "library")}


def test_all_playbooks_are_playbooks() -> None:
    """Ansible reads every one of them."""
    command = ["ansible-playbook", "--syntax-check", "-i", "localhost,"]
    done = subprocess.run(
        [*command, *(str(HERE / name) for name in NAMES)],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"playbook: {HERE / name}" in done.stdout for name in NAMES)


@pytest.mark.fleet
@pytest.mark.skipif(not (BINS / "ansible-lint").exists(), reason="ansible-lint is not installed")
def test_ansible_lint_has_nothing_to_say() -> None:
    """With its own rules, none of them left out."""
    done = subprocess.run(
        ["ansible-lint", "--offline", "--strict", *(str(HERE / name) for name in NAMES)],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE,
        env=environment(),
    )
    assert done.returncode == 0, done.stdout + done.stderr


class Administrator:
    """Calls playbooks on a bed, with variables from a file."""

    def __init__(self, hosts: Bed, folder: Path) -> None:
        self._hosts = hosts
        self._variables = folder / "variables.json"
        self._variables.write_text(json.dumps(variables(hosts, folder)))

    def plays(self, name: str, *arguments: str) -> int:
        """Run one; how many tasks changed something, over all hosts."""
        done = subprocess.run(
            [
                *("ansible-playbook", "-i", str(self._hosts.inventory), "-e"),
                *(f"@{self._variables}", str(HERE / f"{name}.yml"), *arguments),
            ],
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return sum(map(int, re.findall(r"changed=(\d+)", done.stdout)))


def variables(hosts: Bed, folder: Path) -> dict[str, object]:
    """Return the playbooks' variables for one Nginx and one short window."""
    site = folder / "site"
    site.mkdir()
    (site / "a.txt").write_text("by hand\n")
    address = hosts["web"].address
    home = f"{LAB}/instances/a"
    command = ["/usr/sbin/nginx", "-p", f"{home}/", "-c", f"{home}/nginx.conf"]
    instance = {
        "instance": "a",
        "directory": home,
        "files": {"nginx.conf": CONF.replace("ADDRESS", address)},
        "validate": [*command, "-t"],
        "start": command,
        "pid_file": f"{home}/pid",
        "live_url": f"http://{address}:{PORT}/.tuner/live",
        "live_token": "by hand",
    }
    (folder / "instances.json").write_text(json.dumps([instance]))
    window = {"id": "w", "instance": "a", "mode": "open", "rate_per_s": 200, "arrival": "poisson"}
    window |= {"seed": 1, "connections": 4, "warmup_s": 0.1, "duration_s": 0.5, "timeout_s": 2.0}
    plan = {
        "version": 1,
        "cpus": [],
        "spin": "off",
        "ticker": None,
        "gap_us": 100,
        "samples_dir": None,
        "requests": [{"weight": 1, "method": "GET", "path": "/a.txt", "headers": []}],
        "instances": [{"id": "a", "address": f"{address}:{PORT}", "host": "localhost"}],
        "windows": [window],
    }
    (folder / "plan.json").write_text(json.dumps(plan))
    return {
        "tuner_loadgen_source": str(loadgen_binary()),
        "tuner_site_source": str(site),
        "tuner_site": f"{LAB}/site",
        "tuner_lab": f"{LAB}/instances",
        "tuner_user": "nobody",
        "tuner_instances_file": str(folder / "instances.json"),
        "tuner_plan": str(folder / "plan.json"),
        "tuner_for_s": 5,
        "tuner_collected": str(folder / "collected"),
        "tuner_labs": [f"{LAB}/instances"],
        "tuner_folder": LAB,
        "tuner_kernel_folder": "/run/tuner-kernel",
        "tuner_kernel_names": ["net.core.somaxconn"],
    }


@pytest.fixture
def administrator(pair: Bed, tmp_path: Path) -> Iterator[Administrator]:
    """One on a target and a generator, which are as before afterwards."""
    made = Administrator(pair, tmp_path)
    made.plays("provision")
    before = {name: host.files() for name, host in pair.hosts.items()}
    yield made
    assert {name: host.files() for name, host in pair.hosts.items()} == before
    for host in pair.hosts.values():
        assert not (host.root / LAB.removeprefix("/")).exists()
        shutil.rmtree(host.root / RESULTS.removeprefix("/"), ignore_errors=True)


@pytest.mark.fleet
def test_a_server_is_measured_with_playbooks_alone(
    administrator: Administrator, pair: Bed, tmp_path: Path
) -> None:
    """Site, instance, load and results; each is tried with --check, which does nothing."""
    for name in ("site", "deploy", "measure"):
        before = {host.name: host.files() for host in pair.hosts.values()}
        administrator.plays(name, "--check")
        assert {host.name: host.files() for host in pair.hosts.values()} == before
        assert administrator.plays(name) > 0
    assert administrator.plays("site") == 0
    administrator.plays("collect", "--check")
    assert not (tmp_path / "collected").exists()
    assert administrator.plays("collect") > 0
    assert administrator.plays("collect") == 0
    reported = (tmp_path / "collected" / "load" / "windows.jsonl").read_text().splitlines()
    windows = [line for line in map(json.loads, reported) if line["type"] == "window"]
    assert [window["id"] for window in windows] == ["w"]
    assert windows[0]["completed"] > 50, windows[0]
    assert (tmp_path / "collected" / "web" / "stalls.jsonl").read_text()
    assert administrator.plays("stop", "--check") > 0
    assert administrator.plays("stop") > 0
    assert administrator.plays("stop") == 0


@pytest.mark.fleet
def test_what_is_there_already_is_not_changed(administrator: Administrator) -> None:
    """Also with --check; and giving back what nobody took is nothing."""
    for name in ("facts", "look", "provision", "restore", "kernel"):
        assert administrator.plays(name) == 0, name
        assert administrator.plays(name, "--check") == 0, name
