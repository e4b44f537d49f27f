"""Hosts that die or fall silent in mid-study: nothing that was measured is lost or left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fleet.bed import Bed, bed
from tests.fleet.conftest import skip_without_bed
from tests.fleet.test_remote import TOP
from tuner.errors import StoreError
from tuner.store.store import Store, sqlite_url

pytestmark = [pytest.mark.integration, pytest.mark.fleet]

NAME = "faulty"
PATIENCE_S = 300.0
OPTIONS = ("--study", "static", "--time", "20s", "--rate", "400", "--name", NAME, "--quiet")


@pytest.fixture(scope="module")
def hosts() -> Iterator[Bed]:
    """A target and a generator, which the tests treat badly."""
    skip_without_bed()
    with bed({"targets": ["web"], "generators": ["load"]}) as made:
        yield made


@dataclass
class Study:
    """A study on these hosts, as a process."""

    folder: Path
    hosts: Bed
    process: subprocess.Popen[str]

    def windows(self) -> set[tuple[int, str, float]]:
        """Return the windows in the record."""
        try:
            record = Store.open(sqlite_url(self.folder / "studies" / NAME), NAME).record()
        except StoreError:
            return set()
        return {
            (block.number, window.window_id, window.started_unix_s)
            for block in record.blocks
            for window in block.windows
        }

    def measures(self, more_than: int = 0) -> None:
        """Wait until so many windows are in the record, with another one running."""
        deadline = time.monotonic() + PATIENCE_S
        while len(self.windows()) <= more_than:
            assert self.process.poll() is None, self.process.communicate()[1]
            assert time.monotonic() < deadline, "no window came"
            time.sleep(0.2)

    def close(self) -> None:
        """Wait for a killed one, and close what it wrote to."""
        self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def end(self) -> str:
        """Wait for its end; what it said."""
        return self.process.communicate(timeout=PATIENCE_S)[1]


def started(folder: Path, hosts: Bed, *arguments: str) -> Study:
    """Return ``tuner ARGUMENTS``, in the background."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tuner", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(TOP), "XDG_STATE_HOME": str(folder / "state")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return Study(folder, hosts, process)


@pytest.fixture
def study(hosts: Bed, tmp_path: Path) -> Iterator[Study]:
    """Yield a study that measures; check that the hosts are as before when the test is over."""
    before = {name: host.files() for name, host in hosts.hosts.items()}
    options = ("--inventory", str(hosts.inventory), *OPTIONS)
    made = started(tmp_path, hosts, "optimize", *options)
    try:
        made.measures()
        yield made
    finally:
        with contextlib.suppress(ProcessLookupError):
            made.process.kill()
        made.close()
    assert {name: host.files() for name, host in hosts.hosts.items()} == before
    for host in hosts.hosts.values():
        assert not list(host.root.glob("var/tmp/tuner-*"))
        assert "nginx" not in host.run("ps", "-eo", "comm")


def goes_on(study: Study) -> None:
    """The hosts being back, it goes on where it was: no window is lost, and none counts twice."""
    kept = study.windows()
    again = started(study.folder, study.hosts, "optimize", "--resume", "--name", NAME, "--quiet")
    try:
        again.measures(len(kept))
        again.process.send_signal(signal.SIGINT)
        again.end()
    finally:
        again.process.kill()
        again.close()
    assert kept <= study.windows()
    record = Store.open(sqlite_url(study.folder / "studies" / NAME), NAME).record()
    windows = Counter((b.number, w.window_id) for b in record.blocks for w in b.windows)
    trials = Counter(trial.digest for trial in record.trials)
    assert max(windows.values()) == 1
    assert max(trials.values(), default=1) == 1


@pytest.mark.parametrize("who", [pytest.param("web", marks=pytest.mark.every_run), "load"])
def test_a_host_that_dies_costs_no_window(study: Study, hosts: Bed, who: str) -> None:
    """Target or generator: the study ends with the reason, or repeats the block, and goes on."""
    before = study.windows()
    hosts[who].kill()
    time.sleep(1)
    said = study.end()
    assert study.process.returncode == 3
    assert who in said or "was lost" in said
    assert before <= study.windows()
    hosts[who].start()
    goes_on(study)


def test_a_silent_network_is_noticed(study: Study, hosts: Bed) -> None:
    """Packets vanish without an error: SSH hangs, and the study ends instead of waiting."""
    before = study.windows()
    hosts["web"].unplug()
    try:
        study.end()
    finally:
        hosts["web"].plug()
    assert study.process.returncode == 3
    assert before <= study.windows()
    goes_on(study)


def test_a_controller_that_is_killed_leaves_nothing_behind(study: Study) -> None:
    """After kill -9 the next command stops what ran on the hosts, and the study goes on."""
    study.process.kill()
    study.process.wait()
    goes_on(study)
