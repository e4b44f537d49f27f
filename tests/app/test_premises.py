"""The lab of a study on this machine, and its end."""

from __future__ import annotations

import resource
import shutil
from pathlib import Path

import pytest

from tuner.app.this_machine import ThisMachine
from tuner.hosts import local
from tuner.hosts.ansible import AnsibleDeployer


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims of these tests stay among themselves."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_a_lab_that_was_removed_needs_no_claim(tmp_path: Path) -> None:
    """While it runs, another process can find it."""
    with ThisMachine().lab(tmp_path / "study", None):
        (claim,) = local.claims()
        place = Path(claim.lab)
        place.mkdir(parents=True)
    assert not place.exists()
    assert local.claims() == []


def test_a_lab_that_cannot_be_removed_keeps_its_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With too many open files nothing is found or removed; the next command clears up."""
    monkeypatch.setattr(AnsibleDeployer, "stop", lambda _: None)
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        with ThisMachine().lab(tmp_path / "study", None):
            (claim,) = local.claims()
            place = Path(claim.lab)
            (place / "instances").mkdir(parents=True)
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, most))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
    assert place.exists()
    assert local.claims() == [claim]
    shutil.rmtree(place)
