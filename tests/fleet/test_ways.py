"""Other ways of use on real hosts: sudo, a backend of its own, HTTPS, Caddy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fleet.bed import Bed, BedHost, bed
from tests.fleet.conftest import skip_without_bed
from tests.fleet.test_remote import tuner
from tests.own.caddyfiles import here

pytestmark = pytest.mark.integration

USER = "deploy"
BODY_BYTES = 200
"""Less than the backend of the workload answers with."""


@pytest.fixture(scope="module")
def trio() -> Iterator[Bed]:
    """A target, a generator and a backend, each with a user that may do everything by sudo."""
    skip_without_bed()
    groups = {"targets": ["web"], "generators": ["load"], "backends": ["back"]}
    with bed(groups) as hosts:
        for host in hosts.hosts.values():
            _admit(host)
        yield hosts


@pytest.fixture
def inventory(trio: Bed, tmp_path: Path) -> Path:
    """The hosts as that user reaches them."""
    reported = yaml.safe_load(trio.inventory.read_text())
    reported["all"]["vars"] |= {"ansible_user": USER, "ansible_become": True}
    path = tmp_path / "hosts.yml"
    path.write_text(yaml.safe_dump(reported))
    return path


def test_a_proxys_backend_runs_on_a_host_of_its_own(
    trio: Bed, inventory: Path, tmp_path: Path
) -> None:
    """The backend's answers cross its own cable, and all hosts are left as before."""
    before = _files(trio)
    sent_bytes = _sent_bytes(trio["back"])
    windows = _measured(tmp_path, inventory, "proxy")
    answers = sum(window["completed_per_s"] * window["duration_s"] for window in windows)
    assert _sent_bytes(trio["back"]) - sent_bytes > answers * BODY_BYTES
    assert _files(trio) == before
    assert not any(list(host.root.glob("var/tmp/tuner-*")) for host in trio.hosts.values())


@pytest.mark.fleet
def test_caddy_serves_https_on_another_host(trio: Bed, inventory: Path, tmp_path: Path) -> None:
    """With a certificate that the generator trusts; nothing of Caddy's own stays behind."""
    shutil.copy(here().binary, trio["web"].root / "usr/local/bin/caddy")
    before = _files(trio)
    windows = _measured(tmp_path, inventory, "https", "--server", "caddy")
    assert {window["protocol"] for window in windows} == {"h2"}
    assert _files(trio) == before


def _measured(folder: Path, inventory: Path, workload: str, *more: str) -> list[Mapping[str, Any]]:
    """Return windows of a short measurement, each of which had answers and no errors."""
    options = ("--workload", workload, *more, "--rate", "300", "--time", "4s", "--json")
    options = (*options, "--stalls", "keep")  # Figures do not matter here.
    done = tuner(folder, "measure", "stock", "--inventory", str(inventory), *options)
    assert done.returncode == 0, done.stderr
    windows: list[Mapping[str, Any]] = json.loads(done.stdout)["windows"]
    assert windows
    for window in windows:
        assert window["completed_per_s"] > 0
        assert not window["errors"]
    return windows


def _files(bed: Bed) -> dict[tuple[str, str], str]:
    """Return the differences from fresh hosts, without the traces of Ansible and sudo."""
    return {
        (name, path): described
        for name, host in bed.hosts.items()
        for path, described in host.files().items()
        if not path.startswith((f"home/{USER}/.", "var/lib/sudo"))
    }


def _sent_bytes(host: BedHost) -> int:
    """Return the bytes that the host has sent over its cable so far."""
    for line in host.run("cat", "/proc/net/dev").splitlines():
        name, _, counters = line.strip().partition(":")
        if name == "eth0":
            return int(counters.split()[8])
    raise AssertionError(f"{host.name} has no cable")


def _admit(host: BedHost) -> None:
    """A user with the bed's key, who asks sudo for nothing."""
    # No password, which is not the same as a locked account: sshd would refuse that.
    host.run("useradd", "--create-home", "--shell", "/bin/sh", "--password", "*", USER)
    host.run("install", "-d", "-o", USER, "-m", "700", f"/home/{USER}/.ssh")
    keys = f"/home/{USER}/.ssh/authorized_keys"
    host.run("install", "-o", USER, "-m", "600", "/root/.ssh/authorized_keys", keys)
    rule = host.root / "etc/sudoers.d/deploy"
    rule.write_text(f"{USER} ALL=(ALL) NOPASSWD: ALL\n")
    rule.chmod(0o440)
