"""Several generators that share a load: over SSH, each in namespaces of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fleet.bed import bed
from tests.fleet.conftest import skip_without_bed
from tests.fleet.test_remote import tuner
from tuner.record.model import Record
from tuner.store.store import Store, sqlite_url

pytestmark = [pytest.mark.integration, pytest.mark.fleet]

RATE_PER_S = 600


def record(folder: Path, name: str) -> Record:
    """Return the record of a study in the folder."""
    return Store.open(sqlite_url(folder / "studies" / name), name).record()


@pytest.mark.every_run
def test_two_generators_share_the_load(tmp_path: Path) -> None:
    """Each window is that of both, at the whole rate; the record names them, and nothing stays."""
    skip_without_bed()
    with bed({"targets": ["web"], "generators": ["load1", "load2"]}) as hosts:
        options = ("--rate", str(RATE_PER_S), "--time", "4s", "--name", "look")
        done = tuner(tmp_path, "measure", "stock", "--inventory", str(hosts.inventory), *options)
        assert done.returncode == 0, done.stderr
        found = record(tmp_path, "look")
        assert found.generator.endswith(" on load1, load2")
        assert any("2 generators share the load" in note for note in found.notes)
        windows = [window for block in found.blocks for window in block.windows]
        assert windows
        for window in windows:
            assert not window.slice_ms
            if window.mode == "open":
                assert window.rate_per_s == RATE_PER_S
                expected = RATE_PER_S * window.duration_s
                assert abs(window.offered - expected) < 5.5 * expected**0.5
        for host in hosts.hosts.values():
            assert not list(host.root.glob("var/tmp/tuner-*"))
            assert "tuner-loadgen" not in host.run("ps", "-eo", "comm")
