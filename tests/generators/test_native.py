"""Tests of the native adapter: a misbehaving tuner-loadgen, and the reading of samples."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.hosts.nginxes import processes_in
from tests.phases.rig import WORKLOAD
from tuner.errors import InstrumentError
from tuner.generators import native
from tuner.generators.generator import Endpoint, Next, WindowPlan, WindowSpec
from tuner.generators.native import NativeGenerator, read_samples
from tuner.machine.facts import CoreSplit
from tuner.measurement.stalls import StallRule
from tuner.measurement.window import RawWindow
from tuner.workload.arrivals import Profile, Recorded, Step
from tuner.workload.wire import CLEARTEXT, Tls, Wire

PLAN = WindowPlan(
    WORKLOAD,
    (Endpoint("one", "127.0.0.1:1"),),
    (WindowSpec("00-one", "one", "open", 10.0, 1, 0.0, 0.1),),
)


def generator(folder: Path, script: str) -> NativeGenerator:
    """Return a program in place of tuner-loadgen."""
    path = folder / "tuner-loadgen"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return NativeGenerator(path, CoreSplit((0,), (1,), (), shared=False), StallRule())


def go(_: RawWindow) -> Next:
    """Go on."""
    return Next()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("read plan; echo 'I know nothing'", "wrote a line that is not JSON: 'I know nothing"),
        (
            "read plan; echo 'plan: too many windows' >&2; exit 2",
            "too early: plan: too many windows",
        ),
        ("read plan; exit 0", "ended too early: exit code 0"),
        ("exit 1", "tuner-loadgen (ended too early|was lost)"),
    ],
)
def test_a_generator_that_breaks_its_protocol_is_an_error(
    tmp_path: Path, script: str, words: str
) -> None:
    """With its own words, if it had any."""
    with pytest.raises(InstrumentError, match=words):
        generator(tmp_path, script).run(PLAN, go)


def test_a_generator_that_falls_silent_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A study never waits for ever."""
    monkeypatch.setattr(native, "_SILENCE_S", -1.9)
    with pytest.raises(InstrumentError, match="killed after a silence"):
        generator(tmp_path, f"read plan; exec tail -n 0 -f {tmp_path}/tuner-loadgen").run(PLAN, go)
    assert processes_in(tmp_path) == []


def test_words_of_no_interest_are_passed_over(tmp_path: Path) -> None:
    """A newer generator may say more."""
    script = """read plan; echo '{"type":"hello"}'; echo '{"type":"end"}'"""
    generator(tmp_path, script).run(PLAN, go)


def test_a_refused_question_is_an_error_with_the_answer(tmp_path: Path) -> None:
    """``stalls`` and ``--version`` too."""
    with pytest.raises(InstrumentError, match=r"stalls .*: no such CPU"):
        generator(tmp_path, "echo 'no such CPU' >&2; exit 2").stalls(0.1)


def test_the_plan_is_what_the_generator_receives(tmp_path: Path) -> None:
    """One JSON line: cores, ticker, requests, instances and windows."""
    script = f"""read -r plan; printf '%s' "$plan" > {tmp_path}/plan; echo '{{"type":"end"}}'"""
    generator(tmp_path, script).run(PLAN, go)
    plan = json.loads((tmp_path / "plan").read_text())
    assert (plan["version"], plan["cpus"], plan["ticker"]["cpus"]) == (1, [0], [1])
    assert plan["gap_us"] == StallRule().gap_us
    assert plan["instances"][0]["address"] == "127.0.0.1:1"
    assert plan["windows"][0] == {
        "id": "00-one",
        "instance": "one",
        "mode": "open",
        "rate_per_s": 10.0,
        "arrival": "poisson",
        "seed": 1,
        "connections": 32,
        "warmup_s": 0.0,
        "duration_s": 0.1,
        "timeout_s": 2.0,
    }


def test_the_wire_of_a_workload_is_in_the_plan(tmp_path: Path) -> None:
    """Under the generator's names; what is not asked for is left out."""
    wire = Wire("http2", Tls("shop.test", "/ca.pem", resume=False), 8, 100)
    window = json_plan(tmp_path, replace(PLAN, workload=replace(WORKLOAD, wire=wire)))
    assert window["instances"][0]["protocol"] == "http2"
    assert window["instances"][0]["host"] == "shop.test"
    assert window["instances"][0]["tls"] == {
        "server_name": "shop.test",
        "ca_file": "/ca.pem",
        "verify": True,
        "resume": False,
    }
    assert window["windows"][0]["streams"] == 8
    assert window["windows"][0]["requests_per_connection"] == 100


def test_patterns_of_arrivals_are_in_the_plan(tmp_path: Path) -> None:
    """Rates as pieces of the window, a recording as a file of instants; neither has one rate."""
    profile = Profile((Step(1, 1, 1), Step(1, 3, 3)))
    made = json_plan(tmp_path, replace(PLAN, workload=replace(WORKLOAD, arrival=profile)))
    assert "rate_per_s" not in made["windows"][0]
    assert made["windows"][0]["rates"] == [
        {"for_s": 0.05, "rate_per_s": 5.0, "to_rate_per_s": 5.0},
        {"for_s": 0.05, "rate_per_s": 15.0, "to_rate_per_s": 15.0},
    ]
    recorded = Recorded("day.txt", (0.0, 0.5, 1.0))
    made = json_plan(tmp_path, replace(PLAN, workload=replace(WORKLOAD, arrival=recorded)))
    assert made["windows"][0]["instants_file"].endswith("00-one.instants")


def test_tls_and_handshakes_are_read_as_far_as_they_are_reported() -> None:
    """A window line of a generator that knows TLS, and of one that does not."""
    summary = {"count": 3, "p50_us": 400.0, "p99_us": 900.0}
    line = {
        "tls": {
            "version": {"TLSv1_3": 16},
            "cipher": {"TLS13_AES_256_GCM_SHA384": 15, "TLS13_AES_128_GCM_SHA256": 1},
            "group": {"X25519": 16},
            "full": 1,
            "resumed": 15,
            "handshake": summary,
        },
        "handshakes": {"before": {"count": 16, "p99_us": 100.0}, "during": summary},
        "blocked": {"count": 0, "p99_us": None},
    }
    agreed = native._agreed(line)
    assert agreed.cipher == "TLS13_AES_128_GCM_SHA256 + TLS13_AES_256_GCM_SHA384"
    assert (agreed.full, agreed.resumed, agreed.handshakes) == (1, 15, 3)
    assert (agreed.handshake_p50_us, agreed.handshake_p99_us) == (400, 900)
    assert native._agreed({}) == CLEARTEXT


def json_plan(folder: Path, plan: WindowPlan) -> dict[str, Any]:
    """Return the plan that the generator receives."""
    script = f"""read -r plan; printf '%s' "$plan" > {folder}/plan; echo '{{"type":"end"}}'"""
    generator(folder, script).run(plan, go)
    made: dict[str, Any] = json.loads((folder / "plan").read_text())
    return made


def test_on_a_single_core_there_is_no_ticker_and_no_spinning(tmp_path: Path) -> None:
    """Both would take the core from the server."""
    script = f"""read -r plan; printf '%s' "$plan" > {tmp_path}/plan; echo '{{"type":"end"}}'"""
    shared = generator(tmp_path, script)
    shared = NativeGenerator(shared._binary, CoreSplit((0,), (0,), (), shared=True), StallRule())
    shared.run(PLAN, go)
    plan = json.loads((tmp_path / "plan").read_text())
    assert plan["ticker"] is None
    assert plan["spin"] != "full"


# --- samples -----------------------------------------------------------------------------------


def samples_file(path: Path, count: int, *, magic: bytes = b"TNRS0002", times: int = 4) -> bytes:
    """Return a samples file whose columns count up."""
    columns = np.arange(times * count, dtype="<i8").tobytes()
    body = magic + count.to_bytes(8, "little") + columns + bytes(range(count))
    path.write_bytes(body)
    return body


def test_samples_are_read_column_by_column(tmp_path: Path) -> None:
    """Intended, written, first byte, completed, outcome."""
    samples_file(tmp_path / "s", 3)
    samples = read_samples(tmp_path / "s")
    assert samples.intended_ns.tolist() == [0, 1, 2]
    assert samples.written_ns.tolist() == [3, 4, 5]
    assert samples.first_ns is not None
    assert samples.first_ns.tolist() == [6, 7, 8]
    assert samples.completed_ns.tolist() == [9, 10, 11]
    assert samples.outcome.tolist() == [0, 1, 2]


def test_an_earlier_generator_reports_no_first_byte(tmp_path: Path) -> None:
    """Its files lack the column; the figure is then absent and not 0."""
    samples_file(tmp_path / "s", 2, magic=b"TNRS0001", times=3)
    samples = read_samples(tmp_path / "s")
    assert samples.first_ns is None
    assert samples.completed_ns.tolist() == [4, 5]


def test_a_request_without_a_first_byte_counts_until_it_was_given_up(tmp_path: Path) -> None:
    """A missing instant is -1 in the file, and never an instant before the request."""
    columns = np.array([[0, 0], [1, 1], [-1, 9], [7, 8]], "<i8").tobytes()
    (tmp_path / "s").write_bytes(b"TNRS0002" + (2).to_bytes(8, "little") + columns + bytes([1, 0]))
    samples = read_samples(tmp_path / "s")
    assert samples.first_ns is not None
    assert samples.first_ns.tolist() == [7, 8]


def test_an_empty_window_has_an_empty_file(tmp_path: Path) -> None:
    """Nothing offered, nothing read."""
    samples_file(tmp_path / "s", 0)
    assert len(read_samples(tmp_path / "s").intended_ns) == 0


@pytest.mark.parametrize("cut", [0, 7, 15, 16, 40, 90])
def test_a_file_that_was_cut_short_is_an_error(tmp_path: Path, cut: int) -> None:
    """A full disk must not become a window with fewer requests."""
    body = samples_file(tmp_path / "s", 3)
    (tmp_path / "s").write_bytes(body[:cut])
    with pytest.raises(InstrumentError, match="not a complete samples file"):
        read_samples(tmp_path / "s")


def test_another_format_is_an_error(tmp_path: Path) -> None:
    """Another version of the generator is not guessed at."""
    samples_file(tmp_path / "s", 3, magic=b"TNRS0003")
    with pytest.raises(InstrumentError, match="not a complete samples file"):
        read_samples(tmp_path / "s")


def test_a_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    """With the system's words."""
    with pytest.raises(InstrumentError, match="samples cannot be read"):
        read_samples(tmp_path / "missing")
