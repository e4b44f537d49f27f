"""Real servers answer a workload that is made of a log as the log says."""

from __future__ import annotations

import http.client
from pathlib import Path

import pytest

from tests.reading.test_access_log import line, tally
from tests.servers.labs import server_lab
from tuner.workload.log_mix import make_mix
from tuner.workload.workload import Request, Workload, load_workload

pytestmark = pytest.mark.integration

LINES = (
    *[line("GET", f"/img/{n:x}0a1b2c3d.jpg", size=n * 1_000) for n in range(1, 9)],
    *[line("GET", "/css/a.css", 200, 300), line("GET", "/css/a.css", 304, 0)],
    *[line("GET", "/film.bin", 206, 5_000), line("HEAD", "/css/a.css", size=0)],
    *[line("GET", "/gone", 404), line("GET", "/admin", 403), line("GET", "/blog", 301)],
)


def made(folder: Path) -> Workload:
    """Return the workload of the log."""
    mix = make_mix(tally(*LINES), name="shop", source="a.log", serve="site", top=50)
    path = folder / "shop.yaml"
    path.write_text(mix.text)
    return load_workload(str(path))


def answer(port: int, request: Request) -> tuple[int, int]:
    """Return status and length of the body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(request.method, request.path, headers=dict(request.headers))
        found = connection.getresponse()
        return found.status, len(found.read())
    finally:
        connection.close()


@pytest.mark.parametrize(("space", "redirect"), [("nginx/static", 301), ("caddy/static", 308)])
def test_a_file_server_gives_every_status_of_the_log(
    tmp_path: Path, space: str, redirect: int
) -> None:
    """200 with each size, 206 with the range's length, 304, 404 and a redirect."""
    workload = made(tmp_path)
    with server_lab(tmp_path / "study", space, workload=workload) as lab:
        port, state = lab.start(lab.configuration())
        assert (state.state, state.message) == ("live", "")
        for request in workload.requests:
            status, length = answer(port, request)
            assert status == (request.expect_status or redirect), request
            if request.expect_length is not None:
                assert length == request.expect_length, request
    statuses = {request.expect_status for request in workload.requests}
    assert statuses == {200, 206, 304, 404, None}
