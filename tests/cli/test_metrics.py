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
@pytest.mark.parametrize(
    ("words", "study", "phase"),
    [
        (("compare", "stock", "hand", *BRIEF), "mine", "noise of identical instances"),
        (("ladder", "nginx:stock", "nginx:hand", *BRIEF), "mine.contest", "capacity of every arm"),
        (("measure", "stock", *BRIEF), "mine", "measuring"),
        (
            ("run", "https-proxy-500", "--server", "nginx", "--case", "20B", "--time", "30s"),
            "mine.20B",
            "capacity of every arm",
        ),
    ],
)
def test_a_running_study_is_scraped(
    tuner: Tuner,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    study: str,
    phase: str,
) -> None:
    """Each phase answers with itself and the blocks so far, and the study ends as usual."""
    texts: list[str] = []
    ports: list[int] = []
    note, began = TerminalProgress.note, TerminalProgress.phase

    def noted(self: TerminalProgress, text: str) -> None:
        note(self, text)
        ports.extend(map(int, re.findall(r"metrics at http://127.0.0.1:(\d+)/metrics", text)))

    def scraped(self: TerminalProgress, title: str, expected_s: float) -> None:
        began(self, title, expected_s)
        connection = http.client.HTTPConnection("127.0.0.1", ports[0], timeout=60)
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        texts.append(f"{answer.status} {answer.read().decode()}")
        connection.close()

    monkeypatch.setattr(TerminalProgress, "note", noted)
    monkeypatch.setattr(TerminalProgress, "phase", scraped)
    asked = ("--metrics", "127.0.0.1:0", "--name", STUDY.name)
    done = tuner(*words, *asked)
    assert done.code == 0, done.err
    assert all(text.startswith("200 ") and text.endswith("# EOF\n") for text in texts)
    assert f'tuner_phase_info{{study="{study}",phase="{phase}' in "".join(texts)
    assert f'tuner_study_started_timestamp_seconds{{study="{study}"}}' in texts[-1]


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
