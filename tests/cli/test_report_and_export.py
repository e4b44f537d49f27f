"""``tuner report``, ``export``, ``dashboard`` and ``studies`` of a study that has ended."""

from __future__ import annotations

import json
import re
import shutil
import sys
import types
from pathlib import Path

import optuna
import pytest
import yaml

from tests.cli.conftest import SHORT, STUDY, Tuner, written
from tests.phases.rig import NAME
from tests.store.workers import begin, simulated, whole, work
from tuner.app import dashboard_server
from tuner.app.web_guard import TOKEN_VARIABLE, ServiceToken
from tuner.judge.scoring import mean_loss
from tuner.store.store import sqlite_url
from tuner.testing.lab import Effect, Faults, SimulatedHost


def test_the_outcome_as_json(finished: Tuner) -> None:
    """One object on standard output, and nothing else there."""
    found = json.loads(finished("report", "mine", "--json").out)
    assert (found["study"], found["verdict"], found["objective"]) == ("mine", "better", "p99")
    assert found["ratio_low"] <= found["ratio"] <= found["ratio_high"] < 1
    assert found["changes"]


def test_the_report_again_from_the_record_alone(finished: Tuner) -> None:
    """The same bytes, also where everything but the record is gone."""
    first = written()
    for name in first:
        (STUDY / name).unlink()
    done = finished("report", "mine", "--quiet")
    assert done.code == 0
    assert done.out.startswith("Better: ")
    assert written() == first


def test_the_report_in_other_forms(finished: Tuner, tmp_path: Path) -> None:
    """JUnit, and a folder from which the same report comes again, and one with the study."""
    done = finished("report", "mine", "--quiet", "--junit", str(tmp_path / "ci" / "tuner.xml"))
    assert done.code == 0
    assert 'failures="0"' in (tmp_path / "ci" / "tuner.xml").read_text()
    assert finished("export", "mine", "--results", "kept").code == 0
    again = finished("report", "kept/record.json.gz", "mine", "--quiet")
    assert again.code == 0
    rows = again.out.splitlines()
    assert [row.split()[1] for row in rows[1:3]] == ["better", "better"]
    assert rows[1] == rows[2]
    assert Path("side-by-side.html").is_file()


def test_the_record_for_another_tool(finished: Tuner, tmp_path: Path) -> None:
    """One document on standard output or in a file, and no report; an error names the option."""
    before = written()
    done = finished("report", "mine", "--format", "csv", "--table", "trials")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("study,trial,host,")
    log = tmp_path / "mine.hlog"
    done = finished("report", "mine", "--format", "hlog", "--arm", "tuned", "--out", str(log))
    assert (done.code, done.out) == (0, "")
    assert log.read_text().count("Tag=tuned,") > 0
    assert written() == before
    for wrong, reason in (
        (("--out", "x"), "--out: needs --format"),
        (("--format", "hgrm"), "--arm: name one of several arms"),
        (("--format", "csv", "--json"), "--format: prints one document"),
    ):
        refused = finished("report", "mine", *wrong)
        assert refused.code == 2
        assert reason in refused.err
    lost = finished("report", "mine", "--format", "csv", "--out", str(tmp_path / "no" / "x.csv"))
    assert lost.code == 3
    assert "create its folder first" in lost.err


def test_a_kept_report_is_not_written_over(finished: Tuner) -> None:
    """The report of a kept record goes to a folder of its own, below this one."""
    assert finished("export", "mine", "--results", "kept").code == 0
    kept, study = written(Path("kept")), written()
    done = finished("report", "kept/record.json.gz", "--quiet")
    assert done.code == 0, done.err
    assert "report   report-mine/report.html" in done.out
    assert written(Path("report-mine")) == study
    assert (written(Path("kept")), written()) == (kept, study)


def test_a_result_is_broken_between_words_on_a_terminal(
    finished: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 80 columns; in a pipe every sentence stays in one line."""
    whole = finished("report", "mine", "--quiet").out
    assert max(map(len, whole.splitlines())) > 80
    monkeypatch.setattr("tuner.words.terminal.output_width", lambda: 79)
    narrow = finished("report", "mine", "--quiet").out
    assert max(map(len, narrow.splitlines())) <= 79
    assert narrow.split() == whole.split()


def test_forms_to_deploy(finished: Tuner) -> None:
    """Variables, a role and Compose, each in a folder of its own."""
    for kind, file in (
        ("ansible", "nginx.yml"),
        ("role", "tuned_nginx/tasks/main.yml"),
        ("compose", "compose.yaml"),
    ):
        done = finished("export", "mine", "--format", kind)
        assert done.code == 0, done.err
        assert str(STUDY / kind / file) in done.out.splitlines()


def test_the_export_again(finished: Tuner, tmp_path: Path) -> None:
    """The export goes to the named folder, and the command prints the files."""
    done = finished("export", "mine", "--output", str(tmp_path / "out"))
    assert done.code == 0
    assert done.out.splitlines() == [
        str(tmp_path / "out" / name) for name in ("nginx.conf", "configuration.yaml")
    ]
    assert (tmp_path / "out" / "nginx.conf").read_bytes() == written()["best/nginx.conf"]


def test_what_was_not_shown_to_be_better_is_not_recommended(
    tuner: Tuner, host: SimulatedHost
) -> None:
    """Without a folder best; the baseline and the candidate are exported below their names."""
    host.truth = lambda _: Effect(capacity_per_s=4_000.0)
    done = tuner("optimize", *SHORT, "--name", "mine")
    assert not done.out.startswith("Better")
    assert set(written()) == {"report.html", "report.md"}
    assert "none is recommended; what was tried: tuner export mine --candidate" in done.out
    for folder, *options in (("baseline",), ("candidate", "--candidate")):
        assert tuner("export", "mine", *options).code == 0
        found = yaml.safe_load((STUDY / folder / "configuration.yaml").read_text())
        assert found["values"]["sendfile"] is (folder == "candidate")


def test_a_minimal_export_needs_an_ablation(finished: Tuner) -> None:
    """The way to get one is said."""
    done = finished("export", "mine", "--minimal")
    assert done.code == 2
    assert "tuner ablate mine" in done.err


def test_the_dashboard_is_an_extra(finished: Tuner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the message says how to get it; with it the study's own storage is opened."""
    monkeypatch.setitem(sys.modules, "optuna_dashboard", None)
    done = finished("dashboard", "mine")
    assert done.code == 2
    assert "pip install 'servertune[dashboard]'" in done.err
    opened: list[object] = []
    extra = types.ModuleType("optuna_dashboard")
    monkeypatch.setattr(extra, "wsgi", lambda url: url, raising=False)
    monkeypatch.setitem(sys.modules, "optuna_dashboard", extra)
    monkeypatch.setattr(dashboard_server, "serve", lambda *served: opened.append(served))
    assert finished("dashboard", "mine", "--port", "9000").code == 0
    assert opened == [(sqlite_url(STUDY), "127.0.0.1", 9000, None)]

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(dashboard_server, "serve", interrupted)
    done = finished("dashboard", "mine")
    assert (done.code, done.err.splitlines()[-1]) == (0, "the dashboard has stopped")


def test_a_dashboard_for_other_machines_has_a_token(
    finished: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address contains a new token, or names the variable that has the user's own."""
    tokens: list[ServiceToken] = []
    extra = types.ModuleType("optuna_dashboard")
    monkeypatch.setattr(extra, "wsgi", lambda url: url, raising=False)
    monkeypatch.setitem(sys.modules, "optuna_dashboard", extra)
    monkeypatch.setattr(dashboard_server, "serve", lambda *served: tokens.append(served[3]))
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    made = finished("dashboard", "mine", "--host", "192.0.2.1")
    assert f"http://192.0.2.1:8080/?token={tokens[0].text} " in made.err
    monkeypatch.setenv(TOKEN_VARIABLE, "of-my-own-choosing")
    given = finished("dashboard", "mine", "--host", "192.0.2.1")
    assert tokens[1].text == "of-my-own-choosing"
    assert "of-my-own-choosing" not in given.err
    monkeypatch.setenv(TOKEN_VARIABLE, "short")
    refused = finished("dashboard", "mine", "--host", "192.0.2.1")
    assert refused.code == 2
    assert "TUNER_TOKEN must have at least 16 characters" in refused.err


def test_the_dashboard_of_several_hosts_shows_their_trials(
    tuner: Tuner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the storage they are not trials of Optuna's; here they have values and parameters."""
    storage = sqlite_url(tmp_path)
    begin(storage)
    work(storage, "a", simulated(1))
    shown: list[optuna.Study] = []
    extra = types.ModuleType("optuna_dashboard")

    def wsgi(opened: optuna.storages.BaseStorage) -> None:
        shown.append(optuna.load_study(storage=opened, study_name=NAME))

    monkeypatch.setattr(extra, "wsgi", wsgi, raising=False)
    monkeypatch.setitem(sys.modules, "optuna_dashboard", extra)
    monkeypatch.setattr(dashboard_server, "serve", lambda *_: None)
    done = tuner("dashboard", NAME, "--storage", storage)
    assert done.code == 0, done.err
    assert "a copy of simulated, with 1 host" in " ".join(done.err.split())
    (study,) = shown
    trials = {trial.user_attrs["digest"]: trial for trial in study.trials}
    record = whole(storage)
    assert set(trials) == {trial.digest for trial in record.trials}
    assert trials[record.baseline].values == [0.0]
    for known in record.trials:
        trial = trials[known.digest]
        if known.losses and known.state != "infeasible":
            assert trial.value == pytest.approx(mean_loss(known.losses))
            assert trial.intermediate_values == dict(known.losses)
    assert study.best_trial.params["fast"] is True
    assert study.best_value < -0.3


def test_studies_prints_the_kind_of_each_record(
    tuner: Tuner, done: Path, host: SimulatedHost
) -> None:
    """A study, a measurement with its figures, and a comparison."""
    shutil.copytree(done, STUDY)
    short = ("--time", "10s", "--rate", "600", "--quiet", "--name")
    assert tuner("measure", "hand", *short, "look").code == 0
    host.faults = Faults(interrupted={host.windows + 20})
    assert tuner("compare", "stock", "hand", *short, "pair").code == 130
    here = {row["name"]: row for row in json.loads(tuner("studies", "--json").out)["here"]}
    assert {name: row["kind"] for name, row in here.items()} == {
        "mine": "study",
        "look": "measurement",
        "pair": "comparison",
    }
    said = r"hand: p99 [0-9.,]+ (µs|ms) at 600/s, median of \d+ of \d+ windows"
    assert re.fullmatch(said, here["look"]["sentence"])


def test_studies_lists_what_ships_and_what_is_here(tuner: Tuner, done: Path) -> None:
    """With each one's outcome."""
    empty = tuner("studies")
    assert "quickstart" in empty.out
    assert "Here: none" in empty.out
    shutil.copytree(done, STUDY)
    assert "Better: " in tuner("studies").out
    here = json.loads(tuner("studies", "--json").out)["here"]
    assert [(row["name"], row["status"]) for row in here] == [("mine", "confirmed")]
