"""The stand-in for wrk2 prints what the real one prints, line by line but for the figures."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.generators.wrk2s import FAKE
from tuner.generators.lua import script
from tuner.generators.wrk2 import read_spectra
from tuner.hosts import local
from tuner.workload.workload import Request

KEPT = Path(__file__).parent / "kept" / "wrk2"
REQUEST = Request(1.0, "GET", "/", (), b"", 200, None, None)
_FIGURE = re.compile(r"-?(nan|inf|\d+(\.\d+)?)(us|ms|s|m|KB|MB)?(?=[\s%,\]]|$)")
_ROW = re.compile(r"\s+#\s+#\s+#\s+#$")


class Page(BaseHTTPRequestHandler):
    """Answers every request with five bytes."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of a small server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def printed(folder: Path, port: int, *, rate: str = "1000") -> subprocess.CompletedProcess[str]:
    """Return what the stand-in prints for the command of the kept outputs."""
    hook = folder / "window.lua"
    hook.write_text(script((REQUEST,), 7))
    command = [str(FAKE), "-t1", "-c4", "-d1s", f"-R{rate}", "--timeout", "2s", "--latency", "-U"]
    return subprocess.run(
        [sys.executable, *command, "-s", str(hook), f"http://127.0.0.1:{port}/"],
        capture_output=True,
        text=True,
        check=False,
    )


def shape(text: str) -> list[str]:
    """Return the lines with ``#`` for every figure; spectrum rows once, however many there are."""
    found: list[str] = []
    for line in text.splitlines():
        plain = line if line.startswith("tuner-report") else _FIGURE.sub("#", line)
        plain = re.sub(r"\s+", " ", plain).replace("http://127.0.0.1:#/", "URL")
        if plain.startswith("tuner-report"):
            plain = re.sub(r"\[[\d,\[\]]*\]", "[]", re.sub(r"\d+", "#", plain))
            plain = re.sub(r"\[[#,\[\]]*\]", "[]", plain)
        elif plain.startswith(" Running"):
            plain = plain[:8]
        if not (found and found[-1] == plain):
            found.append(plain)
    return [re.sub(r"@ .*", "@ URL", line) for line in found]


@pytest.mark.parametrize(("kept", "rate"), [("open", "1000"), ("saturated", "1000000000")])
def test_it_prints_the_lines_of_the_real_one(
    tmp_path: Path, port: int, kept: str, rate: str
) -> None:
    """Headings, spectra, summary and the hook's report, in the same order and form."""
    done = printed(tmp_path, port, rate=rate)
    assert done.returncode == 0, done.stderr
    assert shape(done.stdout) == shape((KEPT / f"{kept}.txt").read_text())


def test_it_refuses_as_the_real_one_does(tmp_path: Path) -> None:
    """The same line where nobody listens, and the same exit code."""
    done = printed(tmp_path, local.free_ports(1)[0])
    assert done.returncode == 1
    assert shape(done.stdout) == shape((KEPT / "refused.txt").read_text())


@pytest.mark.parametrize("kept", ["open", "saturated"])
def test_the_adapter_reads_what_the_real_one_printed(kept: str) -> None:
    """Both spectra count every request, and the corrected one is never the faster."""
    spectra = read_spectra((KEPT / f"{kept}.txt").read_text())
    corrected, service = spectra["Recorded Latency"], spectra["Uncorrected Latency"]
    assert corrected.ranks[-1] == service.ranks[-1] > 900
    for share in (0.5, 0.9, 0.99):
        assert corrected.around_us(share)[1] >= service.around_us(share)[0]


def test_an_error_leaves_the_real_ones_spectra_empty() -> None:
    """wrk2 prints ``-nan`` and zero counts, which are not latencies."""
    spectra = read_spectra((KEPT / "status_503.txt").read_text())
    assert {len(spectrum.counts().values_ns) for spectrum in spectra.values()} == {0}
