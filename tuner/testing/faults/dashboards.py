"""A dashboard that shows a study while it is measured, and is stopped or killed in a request."""

from __future__ import annotations

import contextlib
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from functools import partial

from tuner.paths import record_file
from tuner.testing.faults.fault import Fault, FaultTarget, hurry, later
from tuner.testing.faults.processes import LONGEST_STOP_S, ROW, stop_s

_PATIENCE_S = 60.0
_FIRST = "/api/studies/1"
"""Path of the first study, for which the dashboard reads all trials."""
# A command that is about to end ignores SIGTERM, and would pass that on.
_OPEN = ("env", "--default-signal=TERM", sys.executable, "-m", "tuner", "dashboard")
_CLIENT = """
import sys, urllib.request
while True:
    urllib.request.urlopen(sys.argv[1], timeout=600).read()
"""


def _is_free(target: FaultTarget) -> bool:
    """Return whether there is a trial to show, and nothing writes to the record.

    The command stands still while the dashboard opens, and would keep its lock.
    """
    path = record_file(target.study)
    if not path.exists():
        return False
    record = sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=0)
    try:
        record.execute("BEGIN IMMEDIATE")
        return bool(record.execute("SELECT count(*) FROM trials").fetchone()[0])
    except sqlite3.Error:
        return False
    finally:
        record.close()


def _open(target: FaultTarget) -> tuple[int, str]:
    """Open the dashboard; return its process and the URL of the study."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        (*_OPEN, target.study.name, "--port", str(port)),
        cwd=target.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    url = f"http://127.0.0.1:{port}{_FIRST}"
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url) as answer:
            answer.read()
            return process.pid, url
        time.sleep(0.05)
    process.kill()
    said = process.communicate()[1].decode(errors="replace")[-300:]
    target.complain(f"the dashboard does not answer: {said}")
    return 0, url


def _struck(number: str, target: FaultTarget) -> None:
    pid, url = _open(target)
    if not pid:
        return
    subprocess.Popen(
        (sys.executable, "-S", "-c", _CLIENT, url),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    line = f"kill -{number} {pid}; "
    if number == "STOP":
        line += f"sleep {stop_s(target.share):.2f}; kill -CONT {pid}; sleep 0.2; kill -TERM {pid}"
    later(target.share, line)


def _fault(number: str) -> Fault:
    strike: Callable[[FaultTarget], None] = partial(_struck, number)
    return Fault(
        f"dashboard: SIG{number}",
        ROW,
        strike,
        hurry,
        needs=frozenset({"dashboard"}),
        ready=_is_free,
        by_the_clock=True,
        holds_up_s=_PATIENCE_S + (LONGEST_STOP_S if number == "STOP" else 0.0),
    )


FAULTS = (_fault("KILL"), _fault("STOP"))
