"""The published JSON schemas hold for what tuner-loadgen reads and writes."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.phases.rig import WORKLOAD
from tuner.generators.generator import Endpoint, WindowPlan, WindowSpec
from tuner.generators.native import NativeGenerator
from tuner.generators.self_test import self_test
from tuner.machine.facts import CoreSplit
from tuner.machine.placement import split_cores
from tuner.measurement.stalls import StallRule
from tuner.paths import loadgen_binary
from tuner.workload.workload import Request

pytestmark = pytest.mark.integration

BODY = b"hello"


class _Hello(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer well."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    """A server that answers."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Hello) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def generator(*arguments: str) -> str:
    """Return the output of tuner-loadgen."""
    command = [str(loadgen_binary()), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def schema(name: str) -> Draft202012Validator:
    """Return the schema that tuner-loadgen prints, itself valid."""
    printed = json.loads(generator("schema", name))
    Draft202012Validator.check_schema(printed)
    return Draft202012Validator(printed)


def short_plan(address: str, **window: object) -> dict[str, Any]:
    """Return one window of a tenth of a second."""
    return {
        "version": 1,
        "spin": "off",
        "requests": [{"path": "/", "expect": {"status": 200, "length": len(BODY)}}],
        "instances": [{"id": "a", "address": address}],
        "windows": [
            {"id": "w", "instance": "a", "mode": "open", "connections": 2, "duration_s": 0.1}
            | window
        ],
    }


@pytest.mark.parametrize(
    "window",
    [
        {"rate_per_s": 200},
        {"mode": "closed"},
        {"rates": [{"for_s": 0.1, "rate_per_s": 100, "to_rate_per_s": 300}]},
        {"rate_per_s": 50, "timeout_s": 0.1},
    ],
)
def test_lines_of_a_plan_are_valid(tmp_path: Path, address: str, window: dict[str, object]) -> None:
    """And so is the plan that they came from; a server that is not there changes nothing."""
    at = "127.0.0.1:1" if "timeout_s" in window else address
    plan = short_plan(at, **window)
    schema("plan").validate(plan)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    line, end = map(json.loads, generator("plan", str(file)).splitlines())
    assert (line["type"], end["type"]) == ("window", "end")
    schema("window").validate(line)


def test_the_document_of_a_run_is_valid(address: str) -> None:
    """With the judgement on it."""
    text = generator("run", f"http://{address}/", "-d100ms", "-w0", "-R200", "--json")
    document = json.loads(text)
    schema("window").validate(document)
    assert "validity" in document


def test_lines_of_the_ticker_are_valid() -> None:
    """The first, an answer to what is written to it, a span where there was one, the last."""
    cpu = min(os.sched_getaffinity(0))
    command = [str(loadgen_binary()), "ticker", "--cpus", str(cpu), "--gap", "1"]
    done = subprocess.run(command, input="7\n", capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    valid = schema("ticker")
    for line in lines:
        valid.validate(line)
    assert {line["type"] for line in lines} >= {"ticker", "clock", "end"}
    assert not valid.is_valid({**lines[0], "type": "tick"})


def test_the_report_of_the_self_test_is_valid_and_gives_a_verdict(tmp_path: Path) -> None:
    """In short; what it says depends on the machine that runs the tests."""
    kept = tmp_path / "report.json"
    program = tmp_path / "tuner-loadgen"
    program.write_text(
        f'#!/bin/sh\n{loadgen_binary()} "$@" >{kept}; code=$?; cat {kept}; exit $code\n'
    )
    program.chmod(0o755)
    cores = split_cores(sorted(os.sched_getaffinity(0)), backend=False)
    found = self_test(program, cores, 4.0)
    schema("self-test").validate(json.loads(kept.read_text()))
    assert found.shared_core == cores.shared
    assert found.closed_per_s > 0
    assert found.fit == (not found.reasons)


def test_the_plan_that_tuner_writes_is_valid(tmp_path: Path) -> None:
    """The plan that the native adapter sends to the generator is valid by the schema."""
    request = Request(1.0, "GET", "/", (("Accept", "*/*"),), b"hello", 200, 5, "0" * 64)
    plan = WindowPlan(
        replace(WORKLOAD, requests=(request,)),
        (Endpoint("one", "127.0.0.1:1"),),
        (WindowSpec("00-one", "one", "open", 10.0, 1, 0.0, 0.1),),
    )
    script = tmp_path / "tuner-loadgen"
    script.write_text(f"""#!/bin/sh
read -r plan; printf '%s' "$plan" > {tmp_path}/plan; echo '{{"type":"end"}}'
""")
    script.chmod(0o755)
    NativeGenerator(script, CoreSplit((0,), (1,), (), shared=False), StallRule()).run(
        plan, lambda _: pytest.fail("there is no window")
    )
    schema("plan").validate(json.loads((tmp_path / "plan").read_text()))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ((), {"versoin": 1}),
        (("version",), 2),
        (("spin",), "fast"),
        (("spin",), {"every_us": 0}),
        (("spin",), {"every_us": 100_001}),
        (("requests",), []),
        (("requests", 0, "path"), "index.html"),
        (("requests", 0, "urls_file"), "urls.txt"),
        (("requests", 0, "expect", "sha256"), "ab"),
        (("requests", 0, "expect", "check"), "some"),
        (("windows", 0, "id"), "../w"),
        (("windows", 0, "rate_per_s"), None),
        (("windows", 0, "rates"), [{"for_s": 0.1, "rate_per_s": 1}]),
        (("windows", 0, "connections"), 0),
        (("windows", 0, "timeout_s"), 0),
    ],
)
def test_schema_and_reader_refuse_the_same(
    tmp_path: Path, place: tuple[str | int, ...], value: object
) -> None:
    """A plan that violates the schema is refused by the generator with exit code 2."""
    plan: Any = short_plan("127.0.0.1:1", rate_per_s=10)
    inner = plan
    for step in place[:-1]:
        inner = inner[step]
    if place:
        inner[place[-1]] = value
    else:
        inner.update(value)
    assert not schema("plan").is_valid(plan)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    with pytest.raises(subprocess.CalledProcessError) as refused:
        generator("plan", str(file))
    assert refused.value.returncode == 2
