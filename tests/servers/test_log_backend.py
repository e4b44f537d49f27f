"""A workload of a log with a backend: real proxies pass on the answers that the log has."""

from __future__ import annotations

import http.client
import json
import os
import time
from pathlib import Path

import pytest

from tests.reading.test_access_log import AT, tally
from tests.servers.labs import server_lab
from tuner.generators.generator import Endpoint, Next, WindowPlan, WindowSpec
from tuner.generators.native import NativeGenerator
from tuner.machine.placement import split_cores
from tuner.measurement.stalls import StallRule
from tuner.measurement.window import RawWindow
from tuner.paths import loadgen_binary
from tuner.workload.log_mix import make_mix
from tuner.workload.workload import Request, Workload, load_workload

pytestmark = pytest.mark.integration


def entry(
    method: str, uri: str, status: int, size: int, *, upstream_s: float = 0, body: int = 0
) -> str:
    """Return a JSON line of Nginx with the time of its backend."""
    return json.dumps(
        {
            "msec": AT,
            "request": f"{method} {uri} HTTP/1.1",
            "status": status,
            "body_bytes_sent": size,
            "upstream_response_time": f"{upstream_s:.3f}",
            "content_length": str(body) if body else "",
            "content_type": "application/json" if body else "",
        }
    )


LINES = (
    *[entry("GET", f"/orders/{n}", 200, n * 2_000) for n in range(1, 9)],
    *[entry("POST", "/orders", 201, 40, body=n * 500) for n in range(1, 9)],
    *[entry("GET", "/slow", 200, 9_000, upstream_s=0.08)] * 4,
    *[entry("GET", "/gone", 404, 150), entry("GET", "/broken", 500, 70)],
    *[entry("GET", "/moved", 302, 0), entry("HEAD", "/orders/1", 200, 0)],
    *[entry("DELETE", "/orders/1", 204, 0), entry("GET", "/same", 304, 0)],
)


def made(folder: Path) -> Workload:
    """Return the workload of the log."""
    mix = make_mix(tally(*LINES), name="shop", source="a.log", serve=None, top=50)
    path = folder / "shop.yaml"
    path.write_text(mix.text)
    return load_workload(str(path))


def answer(port: int, request: Request) -> tuple[int, int, float]:
    """Return status, length of the body, and time of an answer, seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    begun = time.monotonic()
    try:
        headers = dict(request.headers)
        connection.request(request.method, request.path, request.body or None, headers)
        found = connection.getresponse()
        return found.status, len(found.read()), time.monotonic() - begun
    finally:
        connection.close()


def window(workload: Workload, port: int) -> RawWindow:
    """Return a window of the load generator, which checks every answer."""
    cores = split_cores(sorted(os.sched_getaffinity(0)), backend=False)
    spec = WindowSpec("0", "one", "open", 200.0, 7, warmup_s=0.1, duration_s=1.0)
    plan = WindowPlan(workload, (Endpoint("one", f"127.0.0.1:{port}"),), (spec,))
    found: list[RawWindow] = []

    def keep(raw: RawWindow) -> Next:
        found.append(raw)
        return Next()

    NativeGenerator(loadgen_binary(), cores, StallRule()).run(plan, keep)
    assert found[0].completed > 100
    return found[0]


@pytest.mark.parametrize("space", ["nginx/proxy", "caddy/proxy"])
def test_a_proxy_passes_on_the_status_size_and_time_of_the_log(tmp_path: Path, space: str) -> None:
    """Every request of the workload gets its own answer, at the earliest when the log says."""
    workload = made(tmp_path)
    with server_lab(tmp_path / "study", space, workload=workload) as lab:
        port, state = lab.start(lab.configuration())
        assert (state.state, state.message) == ("live", "")
        for request in workload.requests:
            status, length, lasted_s = answer(port, request)
            assert request.answer is not None
            assert status == request.expect_status == request.answer.status, request
            if request.expect_length is not None:
                assert length == request.expect_length, request
            assert lasted_s >= 0.9 * min(request.answer.times_s), request
        assert window(workload, port).errors == {}
    assert {r.expect_status for r in workload.requests} == {200, 201, 204, 302, 304, 404, 500}
    posted = sorted(len(r.body) for r in workload.requests if r.method == "POST")
    assert posted == [1_000, 2_000, 3_000, 4_000]
    slow = next(r for r in workload.requests if r.path == "/slow")
    assert slow.answer is not None
    assert set(slow.answer.times_s) == {0.08}
