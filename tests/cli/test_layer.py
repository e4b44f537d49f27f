"""``--layer kernel`` on the command line: refused without root, and put back at the end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.cli.conftest import Tuner
from tests.space.test_kernel import SEEN
from tuner.app import premises
from tuner.hosts import kernel, local
from tuner.hosts.ansible import Loan
from tuner.hosts.kernel import seen
from tuner.space.configuration import Value
from tuner.store.store import Store, sqlite_url
from tuner.testing.lab import Effect, SimulatedHost

SHORT = ("--time", "10s", "--rate", "600", "--trials", "1", "--quiet", "--name", "mine")
IDLE = "net.ipv4.tcp_slow_start_after_idle"


def kernel_helps(values: Mapping[str, Value]) -> Effect:
    """One setting of the kernel takes 40 % away."""
    settings: object = values.get("kernel")
    helps = isinstance(settings, dict) and settings.get(IDLE) == "0"
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
    """Also where its lab is gone: the claim says that it had the kernel's settings."""
    stopped = []

    class Deployer:
        def __init__(self, lab: Path, _work: Path, *, loan: object, **_: object) -> None:
            self._which = (str(lab), loan)

        def stop(self) -> None:
            stopped.append(self._which)

    monkeypatch.setattr(premises, "AnsibleDeployer", Deployer)
    made = local.claim(tmp_path / "study", tmp_path / "lab", tmp_path / "work", kernel=True)
    path = next(Path(tmp_path / "state").rglob("*.json"))
    path.write_text(json.dumps({**asdict(made), "started": made.started + 1}))
    tuner("studies")
    assert stopped == []
    done = tuner("compare", "stock", "stock")
    assert stopped == [(str(tmp_path / "lab"), Loan())]
    assert "and put the kernel's settings back" in done.err
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
    assert f"{IDLE} = 0" in best.splitlines()
    assert "From tuner" in best
    assert "net.ipv4.tcp_wmem" not in best, "what trades something was not allowed"
    record = Store.open(sqlite_url(Path("studies/mine")), "mine").record()
    assert record.configurations[record.baseline].kernel[IDLE] == "1"
    assert (host.running, host.kernel) == ({}, {})
    assert local.claims() == []
