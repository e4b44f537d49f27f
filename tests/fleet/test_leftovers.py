"""A test run that was killed leaves nothing behind once the next one has begun."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fleet.conftest import skip_without_bed
from tests.fleet.leftovers import bed_folder, mounts, sweep
from tuner.hosts.local import start_time

_BED = """
import sys
from tests.fleet.bed import bed
with bed({"targets": ["one"]}) as made:
    print(made.folder, flush=True)
    sys.stdin.read()
"""


def test_only_the_beds_of_ended_processes_are_removed(tmp_path: Path) -> None:
    """The owner is known by its id and start time, so an id in use again protects nothing."""
    mine, own = bed_folder("0000", tmp_path), start_time(os.getpid())
    reused = tmp_path / f"tuner-bed-1111-{os.getpid()}-{own - 1}-x"
    other = tmp_path / "tuner-bed"
    for folder in (reused, other):
        (folder / "one").mkdir(parents=True)
    assert sweep(tmp_path) == [reused]
    assert sorted(tmp_path.iterdir()) == sorted([mine, other])


@pytest.mark.integration
@pytest.mark.fleet
def test_a_killed_test_run_leaves_no_host() -> None:
    """Processes, namespaces, cables, mounts and files of its hosts are gone."""
    skip_without_bed()
    command = [sys.executable, "-c", _BED]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().strip())
        assert mounts(folder)
        owner.kill()
    bridge = f"tb{folder.name.split('-')[2]}"
    sweep()
    assert not folder.exists()
    assert mounts(folder) == []
    for place in ("/run/netns", "/sys/class/net"):
        assert [path for path in Path(place).iterdir() if path.name.startswith(bridge)] == []
