"""``--metrics``: a study that is scraped while it runs."""

from __future__ import annotations

import http.client
import re
import socket

import pytest

from tests.cli.conftest import SHORT, STUDY, Tuner
from tuner.app.progress import TerminalProgress

BRIEF = ("--study", "static", "--time", "10s", "--rate", "600")


@pytest.mark.usefixtures("host")
def test_a_running_study_is_scraped(tuner: Tuner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each phase answers with itself and the blocks so far, and the study ends as usual."""
    texts: list[str] = []
    ports: list[int] = []
    note, phase = TerminalProgress.note, TerminalProgress.phase

    def noted(self: TerminalProgress, text: str) -> None:
        note(self, text)
        ports.extend(map(int, re.findall(r"metrics at http://127.0.0.1:(\d+)/metrics", text)))

    def scraped(self: TerminalProgress, title: str, expected_s: float) -> None:
        phase(self, title, expected_s)
        connection = http.client.HTTPConnection("127.0.0.1", ports[0], timeout=60)
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        texts.append(f"{answer.status} {answer.read().decode()}")
        connection.close()

    monkeypatch.setattr(TerminalProgress, "note", noted)
    monkeypatch.setattr(TerminalProgress, "phase", scraped)
    asked = ("--metrics", "127.0.0.1:0", "--name", STUDY.name)
    done = tuner("compare", "stock", "hand", *BRIEF, *asked)
    assert done.code == 0, done.err
    assert all(text.startswith("200 ") and text.endswith("# EOF\n") for text in texts)
    assert 'tuner_phase_info{study="mine",phase="noise of identical instances' in "".join(texts)
    assert 'tuner_blocks{study="mine",phase="aa",state="complete"}' in texts[-1]


def test_an_address_that_cannot_be_used_starts_nothing(tuner: Tuner) -> None:
    """Exit code 2 for a wrong one and 3 for a busy one, in one line, without a study."""
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        done = tuner("optimize", *SHORT, "--metrics", str(port))
    assert done.code == 3
    assert "--metrics: cannot listen on 127.0.0.1" in done.err
    assert len(done.err.strip().splitlines()) == 1
    wrong = tuner("compare", "stock", "hand", *BRIEF, "--metrics", "here")
    assert wrong.code == 2
    assert "--metrics: 'here' is not an address" in wrong.err
    assert not STUDY.parent.exists()
