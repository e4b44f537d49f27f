"""``tuner doctor`` on a host whose server's core is taken away."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tuner.hosts import local
from tuner.machine.placement import split_cores

pytestmark = pytest.mark.integration

# Half of the core's time, in stretches of 5 ms, above the ticker's own priority.
HOG = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(90))
print(flush=True)
while True:
    until = time.monotonic() + 0.005
    while time.monotonic() < until:
        pass
    time.sleep(0.005)
"""


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may take a core away")
def test_a_core_that_is_taken_away_is_not_ok() -> None:
    """The share of the time and the claimable effect say so, with a way out."""
    core = split_cores(local.facts().cpus, backend=False).server[0]
    with subprocess.Popen(
        [sys.executable, "-c", HOG, str(core)], stdout=subprocess.PIPE, text=True
    ) as hog:
        try:
            assert hog.stdout is not None
            hog.stdout.readline()
            done = subprocess.run(
                [sys.executable, "-m", "tuner", "doctor", "--quick", "--json"],
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            hog.kill()
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    cores = next(row["text"] for row in rows if row["what"] == "cores")
    assert cores.startswith(("generator on core", "one core for both"))
    row = next(row for row in rows if row["what"] == "noise")
    assert row["state"] == "warning"
    assert row["touched_share"] > 0.3
    assert row["claimable_effect"] >= 0.2
    assert "come back when the host is quieter" in row["text"]
