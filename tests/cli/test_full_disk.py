"""A disk that fills while a study runs: one line, what was measured is kept, and it goes on."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import SHORT, STUDY, Deployer, Tuner
from tuner.app import this_machine
from tuner.hosts import local
from tuner.store.store import Store, sqlite_url
from tuner.testing.lab import Faults, SimulatedHost

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a file system")


@pytest.fixture
def small(tuner: Tuner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with 16 MB of room, for the fixture's command."""
    del tuner
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tuner-test", folder], check=True)
    monkeypatch.chdir(folder)
    yield folder
    monkeypatch.chdir(tmp_path)
    subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder: Path) -> None:
    """Leave no byte of room."""
    with (folder / "filler").open("wb", buffering=0) as stream:
        try:
            while True:
                stream.write(bytes(4096))
        except OSError:
            return


def windows() -> set[float]:
    """Return the start of each window in the record."""
    record = Store.open(sqlite_url(STUDY), "mine").record()
    return {window.started_unix_s for block in record.blocks for window in block.windows}


@pytest.mark.root
@as_root
@pytest.mark.parametrize("phase", ["aa", "search", "confirm", "report"])
def test_a_disk_that_fills_loses_nothing(
    tuner: Tuner, host: SimulatedHost, small: Path, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    """Exit code 3 and one line with the way out; no claim is left; resuming ends the study."""
    seen: list[set[float]] = []
    name = "set_ended" if phase == "report" else "open_block"
    original = getattr(Store, name)

    def filled(store: Store, *arguments: Any, **options: Any) -> Any:
        found = original(store, *arguments, **options)
        if not seen and (phase == "report" or arguments[0] == phase):
            seen.append(windows())
            fill(small)
        return found

    monkeypatch.setattr(Store, name, filled)
    done = tuner("optimize", *SHORT, "--name", "mine")
    assert seen, done.err
    assert done.code == 3
    assert "Traceback" not in done.err
    said = [line for line in done.err.splitlines() if not line.startswith("  ")]
    assert len(said) == 1, done.err
    assert any(word in done.err for word in ("disk is full", "No space left on device"))
    assert any(word in done.err for word in ("room", "--resume"))
    assert local.claims() == []
    assert not host.running
    (small / "filler").unlink()
    again = tuner("optimize", "--resume", "--name", "mine", "--quiet")
    assert again.code == 0, again.err
    assert again.out.startswith("Better: ")
    assert seen[0] <= windows()
    assert (STUDY / "report.html").stat().st_size > 10_000


def test_a_lab_that_no_playbook_can_stop_leaves_no_claim(
    tuner: Tuner, host: SimulatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk Ansible cannot run; the lab is then taken down without it."""

    def fails(_: Deployer) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Deployer, "stop", fails)
    stopped: list[local.Claim] = []
    monkeypatch.setattr(this_machine, "stop_lab", stopped.append)
    host.faults = Faults(host_gone=range(100))
    done = tuner("optimize", *SHORT, "--name", "mine")
    assert done.code == 3
    assert "the host does not answer" in done.err
    assert [Path(claim.study).name for claim in stopped] == ["mine"]
    assert local.claims() == []
