"""A whole study on other hosts, from calibration to its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fleet.bed import Bed
from tests.fleet.test_remote import tuner
from tuner.hosts.idle_polling import refusal
from tuner.judge.results import evaluate
from tuner.machine.idle import should_poll
from tuner.store.store import Store, sqlite_url

pytestmark = [pytest.mark.integration, pytest.mark.fleet]


def test_a_study_on_other_hosts_comes_to_its_end(pair: Bed, tmp_path: Path) -> None:
    """Every phase over SSH; the report has the target's resources; both hosts are as before."""
    before = {name: host.files() for name, host in pair.hosts.items()}
    options = (
        "--study",
        "static",
        "--time",
        "60s",
        "--rate",
        "1000",
        "--objective",
        "p50",
        "--name",
        "whole",
        "--quiet",
    )
    done = tuner(tmp_path, "optimize", "--inventory", str(pair.inventory), *options)
    assert done.returncode == 0, done.stderr
    record = Store.open(sqlite_url(tmp_path / "studies" / "whole"), "whole").record()
    study = evaluate(record)
    # What a busy machine lets be said is not the point here; that the study comes to its end is.
    assert record.ended_unix_s is not None
    assert study.sentence in done.stdout
    phases = [time.phase for time in study.times]
    assert phases[:3] == ["capacity", "aa", "search"]
    windows = [window for block in record.blocks for window in block.windows]
    for window in windows:
        assert window.resources is not None
        assert window.resources.server is not None
        assert window.resources.server.descriptors
        # What the server sent went over the cable, and so through the target's counters.
        assert window.resources.sent_bytes > window.completed_per_s * window.duration_s * 100
    # The target has this machine's kernel and CPUs.
    polls = should_poll("auto", record.host.virtualisation) and not refusal(record.cores.server)
    blocks = [block for block in record.blocks if block.phase != "load-points"]
    assert {window.polled for block in blocks for window in block.windows} == {polls}
    assert not study.confirm or any("generator" in reason for reason in study.unread)
    assert (tmp_path / "studies" / "whole" / "report.html").is_file()
    assert {name: host.files() for name, host in pair.hosts.items()} == before
