"""A target and a generator that are other hosts: over SSH, with real Debian on either side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fleet.bed import Bed, bed
from tests.fleet.conftest import skip_without_bed
from tuner.store.store import Store, sqlite_url

pytestmark = pytest.mark.integration

TOP = Path(__file__).resolve().parents[2]
PATIENCE_S = 240.0


def tuner(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Return the command as a user would give it in the folder."""
    return subprocess.run(
        [sys.executable, "-m", "tuner", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        env={**os.environ, "PYTHONPATH": str(TOP), "XDG_STATE_HOME": str(folder / "state")},
    )


def test_one_configuration_is_measured_from_another_host(pair: Bed, tmp_path: Path) -> None:
    """The server answers on the target, asked by the generator; both hosts are as before."""
    before = {name: host.files() for name, host in pair.hosts.items()}
    processes = _processes(pair)
    options = ("--rate", "500", "--time", "4s", "--name", "look", "--json")
    done = tuner(tmp_path, "measure", "stock", "--inventory", str(pair.inventory), *options)
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    assert reported["capacity_per_s"] > 0
    assert reported["windows"]
    for window in reported["windows"]:
        assert window["completed_per_s"] > 0
        assert window["protocol"] == "http/1.1"
        assert not window["errors"]
    assert {name: host.files() for name, host in pair.hosts.items()} == before
    # Connections that Ansible keeps for the next run end a minute after the last one.
    patience = time.monotonic() + 90
    while time.monotonic() < patience and _processes(pair) != processes:
        time.sleep(0.5)
    assert _processes(pair) == processes
    assert not list(pair["web"].root.glob("var/tmp/tuner-*"))
    assert not list((tmp_path / "state").glob("tuner/running/*.json"))


def test_a_dry_run_asks_from_the_generators_host(pair: Bed, tmp_path: Path) -> None:
    """The server runs for a moment on the target, and nothing stays, here or there."""
    before = {name: host.files() for name, host in pair.hosts.items()}
    options = ("--dry-run", "--json", "--inventory", str(pair.inventory), "--workload", "https")
    done = tuner(tmp_path, "compare", "stock", "hand", *options)
    assert done.returncode == 0, done.stderr
    (plan,) = json.loads(done.stdout)["plans"]
    for configuration in plan["configurations"]:
        (request,) = configuration["requests"]
        assert (request["status"], request["size_bytes"]) == (200, 1024)
    assert {name: host.files() for name, host in pair.hosts.items()} == before
    assert not list(pair["web"].root.glob("var/tmp/tuner-*"))
    assert not list((tmp_path / "state").glob("tuner/running/*.json"))
    assert not (tmp_path / "studies").exists()


@pytest.mark.fleet
def test_a_generator_with_several_cores_is_sized_on_its_host(tmp_path: Path) -> None:
    """Without a rate its capacity is measured first, in a lab that is gone before the study's."""
    skip_without_bed()
    groups = {"targets": ["web"], "generators": ["load"]}
    everything = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    with bed(groups, cpus={"load": everything}) as made:
        options = ("--inventory", str(made.inventory), "--time", "4s", "--name", "look")
        done = tuner(tmp_path, "measure", "stock", *options)
        assert done.returncode == 0, done.stderr
        folder = tmp_path / "studies" / "look"
        record = Store.open(sqlite_url(folder), "look").record()
        grown = "the generator is the limit on" in " ".join(record.notes)
        assert (len(record.cores.generator) > 1) == grown
        assert not list(folder.glob("generator-size*"))
        assert not list(made["web"].root.glob("var/tmp/tuner-*"))


def test_an_application_stands_behind_a_target_on_a_host_of_its_own(tmp_path: Path) -> None:
    """The backend for FastCGI runs on the host for backends, as the lab's account."""
    skip_without_bed()
    (tmp_path / "nginx.conf").write_text(
        "events {}\nhttp { server { listen 80; root /srv/app;\n"
        "location / { try_files $uri /index.php?$args; }\n"
        "location ~ \\.php$ { try_files $uri =404; fastcgi_pass unix:/run/php.sock; } } }\n"
    )
    options = ("--config", "nginx.conf", "--workload", "proxy", "--rate", "200", "--time", "4s")
    with bed({"targets": ["web"], "generators": ["load"], "backends": ["app"]}) as hosts:
        inventory = ("--inventory", str(hosts.inventory))
        done = tuner(tmp_path, "measure", "own", *inventory, *options, "--name", "app", "--json")
        assert done.returncode == 0, done.stderr
        windows = json.loads(done.stdout)["windows"]
        assert windows
        assert not any(window["errors"] for window in windows)
        assert all(window["completed_per_s"] > 0 for window in windows)
        for name in ("web", "app"):
            assert not list(hosts[name].root.glob("var/tmp/tuner-*"))


def _processes(bed: Bed) -> dict[str, int]:
    return {name: len(host.pids()) for name, host in bed.hosts.items()}
