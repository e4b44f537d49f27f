"""Tests of h2load: how its log is read, and which workloads it cannot offer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.phases.rig import WORKLOAD
from tuner.errors import InstrumentError
from tuner.generators import h2load
from tuner.generators.generator import Endpoint, Next, WindowPlan, WindowSpec
from tuner.generators.h2load import H2loadGenerator, read_log
from tuner.machine.facts import CoreSplit
from tuner.workload.workload import Request

GET = Request(1.0, "GET", "/", (), b"", 200, None, None)


def generator() -> H2loadGenerator:
    """Return one that is asked questions only."""
    return H2loadGenerator(CoreSplit((0,), (0,), (), shared=True), Path("/bin/true"))


def test_rows_are_put_in_the_order_of_their_start() -> None:
    """They come as they end; further columns are for later versions."""
    log = read_log("1007\t200\t72\n1006\t200\t97\tmore\n1009\t-1\t5\n")
    assert log.started_us.tolist() == [1006, 1007, 1009]
    assert log.status.tolist() == [200, 200, -1]
    assert log.took_us.tolist() == [97, 72, 5]


def test_an_empty_log_is_a_window_without_answers() -> None:
    """h2load ends well where nobody listens."""
    assert len(read_log("").started_us) == 0


@pytest.mark.parametrize("text", ["1007\t200\n", "1007 200 72\n", "soon\t200\t7\n"])
def test_a_row_of_another_kind_is_an_error(text: str) -> None:
    """A log that was cut short is not read on."""
    with pytest.raises(InstrumentError, match="invalid row"):
        read_log(text)


@pytest.mark.parametrize(
    ("requests", "words"),
    [
        ((replace(GET, method="DELETE"),), "sends GET and POST, not DELETE"),
        ((replace(GET, body=b"x"),), "sends POST with a body"),
        ((GET, replace(GET, headers=(("A", "b"),))), "one set of headers"),
        ((replace(GET, expect_status=404),), "every status except 2xx and 3xx"),
        ((GET, replace(GET, weight=1e-6)), "make the list too long"),
    ],
)
def test_a_workload_that_it_cannot_send_is_refused(
    requests: tuple[Request, ...], words: str
) -> None:
    """In words, before anything is started."""
    assert words in generator().refuses(replace(WORKLOAD, requests=requests), "closed")


def test_an_h2load_that_does_not_end_is_ended_and_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A study neither waits for ever nor gives up at the first time."""
    monkeypatch.setattr(h2load, "_PATIENCE_S", 0.5)
    path = tmp_path / "h2load"
    path.write_text(f"#!/bin/sh\necho x >> {tmp_path}/times; exec sleep 600\n")
    path.chmod(0o755)
    stuck = H2loadGenerator(CoreSplit((0,), (0,), (), shared=True), path)
    spec = WindowSpec("00-one", "one", "closed", 0.0, 1, 0.0, 0.1)
    plan = WindowPlan(WORKLOAD, (Endpoint("one", "127.0.0.1:1"),), (spec,))
    with pytest.raises(InstrumentError, match="it did not end within"):
        stuck.run(plan, lambda _: Next())
    assert (tmp_path / "times").read_text() == "x\n" * 3


def test_an_open_loop_is_refused_with_the_reason() -> None:
    """Latency objectives need one, so they need another tool."""
    words = generator().refuses(replace(WORKLOAD, requests=(GET,)), "open")
    assert "bursts of 10 ms" in words
    assert "times from the submit" in words
    assert "--objective throughput" in words


def test_a_plain_mix_is_accepted() -> None:
    """Paths by weight."""
    requests = (GET, replace(GET, path="/a", weight=2.5))
    assert generator().refuses(replace(WORKLOAD, requests=requests), "closed") == ""
