"""``tuner workload``: from a log to a workload, checked and shown."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Tuner
from tests.reading.test_access_log import line
from tuner.workload.workload import load_workload

LOG = "\n".join(
    [line("GET", "/", second=n % 3) for n in range(8)] + ["not a request", line("GET", "/a.js")]
)


def test_a_log_becomes_a_workload_that_a_study_reads(tuner: Tuner) -> None:
    """What stands for what is said on standard error, with bad lines by their number."""
    Path("access.log").write_text(LOG)
    done = tuner("workload", "from-log", "access.log", "--output", "shop.yaml")
    assert (done.code, done.out) == (0, "")
    assert "9 requests, 4.5/s on average, at most 4 in one second" in done.err
    assert "access.log:9: neither the combined format nor JSON" in done.err
    assert [r.path for r in load_workload("shop.yaml").requests] == ["/", "/a.js"]
    checked = tuner("workload", "check", "shop.yaml")
    assert (checked.code, checked.out) == (0, "ok: access, 2 requests, http/1.1, cleartext\n")


def test_packed_logs_are_read_and_several_are_one(tuner: Tuner) -> None:
    """Without --output the YAML is standard output."""
    Path("access.log").write_text(LOG)
    Path("access.log.1.gz").write_bytes(gzip.compress(LOG.encode()))
    done = tuner("workload", "from-log", "access.log.1.gz", "access.log", "--quiet")
    assert done.code == 0
    assert '{path: "/", weight: 16}' in done.out


def test_instants_can_be_replayed(tuner: Tuner) -> None:
    """Ascending, spread within the seconds that the log tells."""
    Path("access.log").write_text(LOG)
    done = tuner(
        *("workload", "from-log", "access.log", "--output", "shop.yaml"),
        *("--instants", "shop.instants"),
    )
    assert done.code == 0
    instants = [float(text) for text in Path("shop.instants").read_text().splitlines()]
    assert len(instants) == 9
    assert instants == sorted(instants)
    with Path("shop.yaml").open("a") as file:
        file.write("arrival: {instants: shop.instants}\n")
    shown = tuner("workload", "show", "shop.yaml")
    assert "as recorded" in shown.out


def test_a_workload_is_shown_with_shares_and_right_answers(tuner: Tuner) -> None:
    """For people, and as JSON."""
    shown = tuner("workload", "show", "https")
    assert "h2 over TLS, 8 streams on each connection" in shown.out
    assert "100.00%  GET     200, 1,024 B, hash" in shown.out
    data = json.loads(tuner("workload", "show", "https", "--json").out)
    assert (data["protocol"], data["tls"], data["streams"]) == ("http2", True, 8)
    assert data["requests"][0]["share"] == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "0 of 0 lines are no requests: no lines"),
        (b"a\nb\n", "2 of 2 lines are no requests: access.log:1: neither"),
        (line("GET", "/x", 500).encode(), "no request of it can be asked of the lab (statuses"),
    ],
)
def test_a_log_without_anything_to_ask_is_refused(tuner: Tuner, content: bytes, words: str) -> None:
    """Exit code 2, and why."""
    Path("access.log").write_bytes(content)
    done = tuner("workload", "from-log", "access.log")
    assert done.code == 2
    assert words in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("from-log", "missing.log"), "missing.log: cannot be read: No such file"),
        (("from-log", "broken.gz"), "broken.gz: cannot be read: "),
        (("check", "wrong.yaml"), "wrong.yaml:2: "),
        (("show", "nothing"), "there is no workload 'nothing'"),
    ],
)
def test_what_cannot_be_read_is_said(tuner: Tuner, arguments: tuple[str, ...], words: str) -> None:
    """With file and line."""
    Path("broken.gz").write_bytes(gzip.compress(LOG.encode())[:-12])
    Path("wrong.yaml").write_text("workload: x\nsite: {}\nrequests: []\n")
    done = tuner("workload", *arguments)
    assert done.code == 2
    assert words in done.err
    assert "Traceback" not in done.err
