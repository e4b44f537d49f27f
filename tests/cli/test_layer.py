"""``--layer kernel`` on the command line: refused without root, and put back at the end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.conftest import Tuner
from tests.space.test_kernel import SEEN
from tuner.hosts import kernel, local, playbooks, sweep
from tuner.hosts.kernel import seen
from tuner.paths import data_dir
from tuner.space.configuration import Value
from tuner.store.store import Store, sqlite_url
from tuner.testing.lab import Effect, SimulatedHost

SHORT = (
    "--study",
    "static",
    "--time",
    "10s",
    "--rate",
    "600",
    "--trials",
    "1",
    "--quiet",
    "--name",
    "mine",
)
BACKLOG = "net.ipv4.tcp_max_syn_backlog"


def kernel_helps(values: Mapping[str, Value]) -> Effect:
    """One setting of the kernel takes 40 % away."""
    settings: object = values.get("kernel")
    helps = isinstance(settings, dict) and settings.get(BACKLOG) == "65535"
    return Effect(ln_latency=-0.5 * helps, capacity_per_s=4_000.0)


def test_without_root_it_is_refused_with_the_way_out(
    tuner: Tuner, host: SimulatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is started."""
    found = {"texts": {}, "missing": {}, "root": False, "open_files": 1_024}
    monkeypatch.setattr(kernel, "look", lambda _: seen(found))
    done = tuner("optimize", *SHORT, "--layer", "kernel")
    assert done.code == 2
    assert "need root: run tuner as root" in done.err
    assert "leave the layer out" in done.err
    assert host.deployments == 0


def test_what_a_killed_study_borrowed_is_given_back_by_the_next_command(
    tuner: Tuner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By the kernel's own guard, and no playbook; what another study borrowed stays."""
    folder, lab = tmp_path / "kernel", tmp_path / "lab"
    folder.mkdir()
    for source, name in (("tuner_kernel_guard.py", "guard.py"), ("tuner_guard.py",) * 2):
        shutil.copy(data_dir("playbooks") / "files" / source, folder / name)
    lent = {
        "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "namespace": str(Path("/proc/self/ns/net").readlink()),
        "values": {},
        "applied": {},
        "deadline": 0.0,
    }
    saved = folder / "saved.json"
    monkeypatch.setattr(sweep, "KERNEL_FOLDER", str(folder))
    monkeypatch.setattr(playbooks.Playbooks, "play", lambda *_: pytest.fail("a playbook ran"))
    for owner, left in (("another study", True), (str(lab), False)):
        saved.write_text(json.dumps({**lent, "owner": owner}))
        made = local.claim(tmp_path / "study", lab, tmp_path / "work", kernel=True)
        local.keep(replace(made, started=made.started + 1))
        tuner("studies")
        assert local.strays()
        done = tuner("compare", "stock", "stock")
        assert "and restored the kernel's settings" in done.err
        assert saved.exists() is left
        assert local.claims() == []


def test_the_winner_has_settings_of_the_kernel_and_the_host_has_its_own_again(
    tuner: Tuner, host: SimulatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file for sysctl.d beside the server's, with where it comes from."""
    monkeypatch.setattr(kernel, "look", lambda _: SEEN)
    host.truth = kernel_helps
    done = tuner("optimize", *SHORT, "--layer", "kernel")
    assert done.code == 0, done.err
    assert done.out.startswith("Better: ")
    assert "settings of the host's kernel are part of every configuration" in done.out
    best = Path("studies/mine/best/90-tuner.conf").read_text()
    assert f"{BACKLOG} = 65535" in best.splitlines()
    assert "From tuner" in best
    assert "net.ipv4.tcp_wmem" not in best, "what trades something was not allowed"
    record = Store.open(sqlite_url(Path("studies/mine")), "mine").record()
    assert record.configurations[record.baseline].kernel[BACKLOG] == "512"
    assert (host.running, host.kernel) == ({}, {})
    assert local.claims() == []
