"""Metrics of a running study, and the dashboard that shows them."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tuner.app.metrics_server import check_listen, listen_address, serving
from tuner.app.progress import TerminalProgress
from tuner.app.web_guard import TOKEN_VARIABLE, ServiceToken, token_for
from tuner.errors import DefinitionError, HostError
from tuner.judge.results import StudyResult, evaluate
from tuner.outputs.live_metrics import live_families, reason_kind
from tuner.outputs.openmetrics import MetricFamily, render_openmetrics
from tuner.outputs.phase_now import PhaseNow

DASHBOARD = Path(__file__).resolve().parents[2] / "docs" / "grafana.json"
NOW = PhaseNow("confirmation: 12 blocks", 90.0)


def values(families: tuple[MetricFamily, ...]) -> dict[str, float]:
    """Return the samples of an exposition by name and labels other than the study."""
    text = render_openmetrics(families)
    return {
        " ".join([s.name, *(v for k, v in s.labels.items() if k != "study")]): s.value
        for family in text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
        for s in family.samples
    }


def test_a_running_study_shows_its_progress(sample: StudyResult) -> None:
    """Phase, time left, blocks, windows, invalid ones by reason, trials, and the estimate."""
    record = sample.record
    found = values(live_families([sample], NOW))
    assert found["tuner_phase_info confirmation: 12 blocks"] == 1
    assert found["tuner_phase_left_seconds"] == 90
    complete = sum(b.phase == "confirm" and b.state == "complete" for b in record.blocks)
    assert found["tuner_blocks confirm complete"] == complete
    windows = [window for block in record.blocks for window in block.windows]
    totals = {name: value for name, value in found.items() if "windows" in name}
    assert sum(v for n, v in totals.items() if "invalid" not in n) == len(windows)
    assert sum(v for n, v in totals.items() if "invalid" in n) == sum(not w.valid for w in windows)
    assert sample.verdict is not None
    assert found["tuner_estimate_ratio p99"] == pytest.approx(sample.verdict.estimate.ratio)


def test_the_studies_of_a_run_share_their_metrics(sample: StudyResult) -> None:
    """A metric appears once, with a sample of each study; the phase is that of the last one."""
    second = evaluate(replace(sample.record, name="second"))
    families = live_families([sample, second], NOW)
    names = [family.name for family in families]
    assert len(set(names)) == len(names)
    (phase,) = [family for family in families if family.name == "tuner_phase"]
    assert [each.labels["study"] for each in phase.samples] == ["second"]
    (blocks,) = [family for family in families if family.name == "tuner_blocks"]
    assert {each.labels["study"] for each in blocks.samples} == {sample.record.name, "second"}
    assert live_families([], NOW) == live_families([], None)


def test_a_study_that_has_just_begun_has_no_made_up_figure(sample: StudyResult) -> None:
    """Without a phase and a block there are no samples of them."""
    begun = evaluate(replace(sample.record, blocks=(), trials=(), protocol=None, calibration=None))
    assert not any(re.search("phase|estimate|windows", name) for name in values(
        live_families([begun], None)
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("3 of 9 requests failed (status 3)", "errors"),
        ("achieved less than offered: 9 of 99 requests", "rate"),
        ("the generator could not keep up: it was 95% busy", "generator"),
        ("an effective sample of 3 requests, 10,000 are needed", "samples"),
        ("stalls: 57% of the requests were touched", "stalls"),
        ("the host stalled: 57% of the requests were touched", "stalls"),
        ("nginx ended", "other"),
    ],
)
def test_reasons_have_few_kinds(reason: str, kind: str) -> None:
    """Texts with figures would make a new series for every window."""
    assert reason_kind(reason) == kind


def test_the_dashboard_names_exported_metrics_only(sample: StudyResult) -> None:
    """Every metric of every expression has a sample while a study runs, and labels that exist."""
    exported = {name.split()[0] for name in values(live_families([sample], NOW))}
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    expressions += [each["query"] for each in dashboard["templating"]["list"]]
    named = {name for each in expressions for name in re.findall(r"\btuner_\w+", each)}
    assert len(named) >= 10
    assert named <= exported


def test_progress_knows_the_phase() -> None:
    """The remainder is that of the last step, and never negative."""
    progress = TerminalProgress(quiet=True)
    before = progress.now
    assert before is None
    progress.phase("search", 60.0)
    begun = progress.now
    assert begun is not None
    assert begun.title == "search"
    assert 0 < begun.left_s <= 60
    progress.step("block 1", -5.0)
    assert progress.now == PhaseNow("search", 0.0)


@contextmanager
def asking(text: str = "# EOF\n") -> Iterator[http.client.HTTPConnection]:
    """Yield a connection to a server of an exposition."""
    with serving(("127.0.0.1", 0), lambda: text) as url:
        port = int(re.findall(r":(\d+)/", url)[0])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        yield connection
        connection.close()


@pytest.mark.parametrize(
    ("path", "host", "status"),
    [
        ("/metrics", "127.0.0.1:9464", 200),
        ("/metrics?x=1", "localhost:1", 200),
        ("/metrics", "[::1]:9464", 200),
        ("/metrics", "evil.example", 421),
        ("/metrics", "evil.example:9464", 421),
        ("/metrics", "", 421),
        ("/", "127.0.0.1", 404),
        ("/metrics/../etc/passwd", "127.0.0.1", 404),
    ],
)
def test_nothing_but_the_metrics_is_served(path: str, host: str, status: int) -> None:
    """Another path is not found, and a name from DNS rebinding is refused."""
    with asking() as connection:
        connection.request("GET", path, headers={"Host": host})
        assert connection.getresponse().status == status


def test_another_address_needs_the_token() -> None:
    """Without it, or with a wrong one, a scrape is refused; Prometheus sends it as a bearer's."""
    token = ServiceToken("0123456789abcdef", given=False)
    with serving(("127.0.0.1", 0), lambda: "# EOF\n", token) as url:
        port = int(re.findall(r":(\d+)/", url)[0])
        found = []
        for sent in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": token.words()[15:]}):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("GET", "/metrics", headers=sent)
            found.append(connection.getresponse().status)
            connection.close()
    assert found == [401, 401, 200]


def test_only_an_address_beyond_loopback_has_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """The token is the user's own or a new one; an unusable one is refused before a study."""
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert token_for("127.0.0.1", "--metrics") is None
    one, two = (token_for("192.0.2.1", "--metrics") for _ in range(2))
    assert one is not None
    assert two is not None
    assert len(one.text) >= 16
    assert one.text != two.text
    assert one.text in one.words()
    monkeypatch.setenv(TOKEN_VARIABLE, "of-my-own-choosing")
    assert token_for("192.0.2.1", "--metrics") == ServiceToken("of-my-own-choosing", given=True)
    monkeypatch.setenv(TOKEN_VARIABLE, "with a blank and so on")
    with pytest.raises(DefinitionError, match="TUNER_TOKEN must have at least 16 characters"):
        check_listen("192.0.2.1:9464")
    check_listen("127.0.0.1:0")


def test_only_get_is_answered() -> None:
    """Other methods are not implemented."""
    with asking() as connection:
        connection.request("POST", "/metrics", body="x")
        assert connection.getresponse().status == 501


def test_a_record_that_cannot_be_read_does_not_end_the_study() -> None:
    """The scrape fails with 503, and the next one is answered."""
    answers = iter(["", "# EOF\n"])

    def render() -> str:
        text = next(answers)
        if not text:
            raise HostError("locked")
        return text

    with serving(("127.0.0.1", 0), render) as url:
        port = int(re.findall(r":(\d+)/", url)[0])
        found = []
        for _ in range(2):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("GET", "/metrics")
            found.append(connection.getresponse().status)
            connection.close()
    assert found == [503, 200]
    assert "metrics" not in {thread.name for thread in threading.enumerate()}


def test_a_busy_port_is_an_error_of_one_line() -> None:
    """The error names the option and the port."""
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        with (
            pytest.raises(HostError, match=f"--metrics: cannot listen on 127.0.0.1:{port}: Addr"),
            serving(("127.0.0.1", port), lambda: ""),
        ):
            pass


def test_addresses() -> None:
    """A port alone is on the loopback address; anything else is refused."""
    assert listen_address("9464") == ("127.0.0.1", 9464)
    assert listen_address("[::1]:1") == ("::1", 1)
    assert listen_address("0.0.0.0:80") == ("0.0.0.0", 80)  # noqa: S104 - nothing listens
    for wrong in ("", "x", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "a:b"):
        with pytest.raises(DefinitionError, match="is not an address"):
            listen_address(wrong)
