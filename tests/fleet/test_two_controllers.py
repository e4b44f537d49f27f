"""Two controllers on one target: users with states of their own, and locks on the host alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.fleet.bed import Bed
from tests.fleet.test_remote import PATIENCE_S, TOP

LOCKS = "tmp/tuner-core-*.lock"
"""On a host whose /run/lock is root's alone."""
pytestmark = [pytest.mark.integration, pytest.mark.fleet]


@contextmanager
def controller(folder: Path, hosts: Bed, name: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Yield ``tuner measure`` of a study, as a user with a folder and a state of their own."""
    folder.mkdir()
    options = ("--inventory", str(hosts.inventory), "--rate", "300", "--time", "60s")
    # Without the locks of this session: those of the host are what is tested.
    environment = {key: value for key, value in os.environ.items() if key != "TUNER_LOCKS"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tuner", "measure", "stock", *options, "--name", name, *more],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(TOP), "XDG_STATE_HOME": str(folder / "state")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)


def said(process: subprocess.Popen[str], words: str) -> str:
    """Return the first line that holds these words; it is waited for."""
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        if words in line:
            return line
        seen.append(line)
    raise AssertionError("".join(seen))


def test_a_second_controller_is_refused_or_waits(pair: Bed, tmp_path: Path) -> None:
    """A second controller names the first one, and begins when it ends."""
    with ExitStack() as both:
        first = both.enter_context(controller(tmp_path / "one", pair, "first"))
        root = pair["web"].root
        deadline = time.monotonic() + PATIENCE_S
        while not any("first" in path.read_text() for path in root.glob(LOCKS)):
            assert first.poll() is None, said(first, "never")
            assert time.monotonic() < deadline
            time.sleep(0.1)
        where = f"study first in {tmp_path / 'one' / 'studies' / 'first'} (process {first.pid} on "
        with controller(tmp_path / "two", pair, "second") as second:
            line = said(second, "tuner: ")
            assert second.wait(PATIENCE_S) == 3
        assert " of web is in use by the " + where in line
        assert not (tmp_path / "two" / "studies").exists()
        with controller(tmp_path / "three", pair, "third", "--wait") as third:
            assert where in said(third, "waiting: ")
            assert first.poll() is None
            both.close()
            said(third, "waiting is over")
