"""Whole commands on the simulated lab: what they write, say and end with."""

from __future__ import annotations

import json
import re
import shutil
import sys
import types
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
import yaml

from tests.cli import surfaces
from tests.cli.conftest import SHORT, STUDY, Tuner
from tests.phases.rig import NAME
from tests.store.workers import begin, simulated, whole, work
from tuner.app import comparing, optimizing, resume
from tuner.errors import Interrupted
from tuner.hosts import local
from tuner.judge.scoring import mean_loss
from tuner.stats.margin import Margin
from tuner.store.store import Store, sqlite_url
from tuner.testing.lab import Effect, Faults, SimulatedHost
from tuner.testing.simulate import SimulatedStalls


def written(folder: Path = STUDY) -> dict[str, bytes]:
    """Return the files of a study by path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".db"
    }


@pytest.mark.usefixtures("host")
def test_the_margin_is_the_users(tuner: Tuner) -> None:
    """A study freezes it in its protocol; a replication may have another."""
    done = tuner("optimize", *SHORT, "--margin", "4%", "--name", STUDY.name, "--json")
    assert json.loads(done.out)["margin"] == 0.04
    protocol = Store.open(sqlite_url(STUDY), STUDY.name).record().protocol
    assert protocol is not None
    assert protocol.band == Margin(0.04)
    again = tuner("replicate", STUDY.name, "--margin", "0.1", "--json", "--quiet")
    assert json.loads(again.out)["margin"] == 0.1


def test_a_study_from_beginning_to_end(tuner: Tuner, host: SimulatedHost) -> None:
    """Verdict on standard output, report and configuration in the study's folder; exit code 0."""
    done = tuner("optimize", *SHORT, "--name", "mine")
    assert done.code == 0
    assert done.out.startswith("Better: ")
    assert "report   studies/mine/report.html" in done.out
    assert done.err == ""
    assert set(written()) == {
        "report.html",
        "report.md",
        "best/nginx.conf",
        "best/configuration.yaml",
    }
    best = (STUDY / "best" / "nginx.conf").read_text()
    assert "sendfile on;" in best
    assert "From tuner" in best
    record = Store.open(sqlite_url(STUDY), "mine").record()
    assert record.ended_unix_s is not None
    assert record.command == f"tuner optimize {' '.join(SHORT)} --name mine"
    assert record.definition["rate"] == 600
    assert not host.running
    assert not (STUDY / "work").exists()
    assert local.claims() == []


def test_what_will_happen_is_said_before_it_does(tuner: Tuner, host: SimulatedHost) -> None:
    """On standard error: server, workload, host, cores, baseline, parameters, time."""
    host.faults = Faults(host_gone=range(100))
    done = tuner("optimize", *SHORT[:-1], "--name", "mine")
    assert done.code == 3
    assert "the host does not answer" in done.err
    assert done.out == ""
    for words in ("nginx 1.22.1", "objective p99", "static: ", "generator", "stock (", "sendfile"):
        assert words in done.err, words
    assert done.err.index("nginx 1.22.1") < done.err.index("capacity of the baseline")
    assert "instead of 10 s, the least for calibration, one block of the search, 6 " in done.err


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


def test_a_finished_study_is_not_measured_again(
    finished: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its outcome is printed without a look at the host, and its record keeps its end."""
    for module in (optimizing, resume):
        monkeypatch.setattr(module, "preflight", lambda *_, **__: pytest.fail("looked"))
    before = Store.open(sqlite_url(STUDY), "mine").record()
    done = finished("optimize", "--resume")
    assert (done.code, done.out) == (0, finished("report", "mine", "--quiet").out)
    assert "mine is over, so nothing is measured" in done.err
    assert Store.open(sqlite_url(STUDY), "mine").record().ended_unix_s == before.ended_unix_s


def test_the_report_in_other_forms(finished: Tuner, tmp_path: Path) -> None:
    """JUnit, and a folder from which the same report comes again, beside the study itself."""
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


def test_the_dashboard_is_an_extra(finished: Tuner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the message says how to get it; with it the study's own storage is opened."""
    monkeypatch.setitem(sys.modules, "optuna_dashboard", None)
    done = finished("dashboard", "mine")
    assert done.code == 2
    assert "pip install 'servertune[dashboard]'" in done.err
    opened: list[object] = []
    extra = types.ModuleType("optuna_dashboard")
    monkeypatch.setattr(
        extra, "run_server", lambda url, **where: opened.append((url, where)), raising=False
    )
    monkeypatch.setitem(sys.modules, "optuna_dashboard", extra)
    assert finished("dashboard", "mine", "--port", "9000").code == 0
    assert opened == [(sqlite_url(STUDY), {"host": "127.0.0.1", "port": 9000})]


def test_the_dashboard_of_several_hosts_shows_their_trials(
    tuner: Tuner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the storage they are not trials of Optuna's; here they have values and parameters."""
    storage = sqlite_url(tmp_path)
    begin(storage)
    work(storage, "a", simulated(1))
    shown: list[optuna.Study] = []
    extra = types.ModuleType("optuna_dashboard")

    def run_server(opened: optuna.storages.BaseStorage, **_: object) -> None:
        shown.append(optuna.load_study(storage=opened, study_name=NAME))

    monkeypatch.setattr(extra, "run_server", run_server, raising=False)
    monkeypatch.setitem(sys.modules, "optuna_dashboard", extra)
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
    """There is no folder best; the baseline and the candidate are exported below their names."""
    host.truth = lambda _: Effect(capacity_per_s=4_000.0)
    done = tuner("optimize", *SHORT, "--name", "mine")
    assert not done.out.startswith("Better")
    assert set(written()) == {"report.html", "report.md"}
    assert "none is recommended; what was tried: tuner export mine --candidate" in done.out
    for folder, *options in (("baseline",), ("candidate", "--candidate")):
        assert tuner("export", "mine", *options).code == 0
        found = yaml.safe_load((STUDY / folder / "configuration.yaml").read_text())
        assert found["values"]["sendfile"] is (folder == "candidate")


def test_the_exported_configuration_is_a_baseline(finished: Tuner, host: SimulatedHost) -> None:
    """``--baseline FILE`` reads what ``export`` wrote, and there is nothing better any more."""
    best = str(STUDY / "best" / "configuration.yaml")
    done = finished("optimize", *SHORT, "--name", "again", "--baseline", best, "--json")
    assert done.code == 0
    assert json.loads(done.out)["verdict"] != "better"
    assert host.windows > 0


def test_a_name_is_given_where_none_is_wanted(tuner: Tuner, host: SimulatedHost) -> None:
    """The study file's, with a number where that is taken; a name that was asked for is not."""
    host.faults = Faults(host_gone=range(100))
    for _ in range(2):
        assert tuner("optimize", *SHORT).code == 3
    assert sorted(path.name for path in Path("studies").iterdir()) == ["static", "static-2"]
    done = tuner("optimize", *SHORT, "--name", "static")
    assert done.code != 0
    assert "--resume" in done.err
    assert "--name" in done.err


# --- interruption ------------------------------------------------------------------------------


def test_an_interrupted_study_goes_on(tuner: Tuner, host: SimulatedHost) -> None:
    """Exit code 130, a report of what there is, the lab taken down; then the verdict."""
    host.faults = Faults(interrupted={50})
    done = tuner("optimize", *SHORT[:-1], "--name", "mine")
    assert done.code == Interrupted.exit_code == 130
    assert done.out == ""
    assert "resume with: tuner optimize --resume --name mine" in done.err
    assert "simulated Ctrl-C" in done.err
    assert (STUDY / "report.html").is_file()
    assert not host.running
    assert local.claims() == []
    before = {w.started_unix_s for w in _windows()}
    assert len(before) == 50
    done = tuner("optimize", "--resume", "--quiet")
    assert done.code == 0
    assert done.out.startswith("Better: ")
    assert before <= {w.started_unix_s for w in _windows()}


def _windows(name: str = "mine") -> list:  # type: ignore[type-arg]
    record = Store.open(sqlite_url(Path("studies") / name), name).record()
    return [window for block in record.blocks for window in block.windows]


def test_a_resumed_study_keeps_its_definition(tuner: Tuner, host: SimulatedHost) -> None:
    """Every other option is refused by name, and nothing is started."""
    host.faults = Faults(interrupted={5})
    tuner("optimize", *SHORT, "--name", "mine")
    before = host.windows
    for option in (
        ("--rate", "700"),
        ("--seed", "0"),
        ("--time", "5m"),
        ("--objective", "p50"),
        ("--allow", "open_file_cache"),
        ("--study", "proxy"),
        ("--baseline", "hand"),
    ):
        done = tuner("optimize", "--resume", *option)
        assert done.code == 2, option
        assert f"leave out {option[0]}" in done.err
    assert host.windows == before


def test_a_study_goes_on_only_where_it_was_begun(
    tuner: Tuner, host: SimulatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another host's blocks cannot be compared with the old ones."""
    host.faults = Faults(interrupted={5})
    tuner("optimize", *SHORT, "--name", "mine")
    here = local.facts()
    monkeypatch.setattr(local, "facts", lambda: replace(here, hostname="elsewhere"))
    done = tuner("optimize", "--resume", "--name", "mine")
    assert done.code == 2
    assert "host changed since 'mine' began" in done.err


def test_there_must_be_something_to_resume(tuner: Tuner, host: SimulatedHost) -> None:
    """In this folder, or by the name given."""
    done = tuner("optimize", "--resume")
    assert done.code == 2
    assert "--resume: no study in studies/" in done.err
    done = tuner("optimize", "--resume", "--name", "mine")
    assert done.code == 2
    assert "no study called 'mine'" in done.err
    assert host.windows == 0


# --- compare, measure, studies -----------------------------------------------------------------


def test_compare_ends_with_four_on_the_verdict_that_must_not_be(
    tuner: Tuner, host: SimulatedHost
) -> None:
    """``--fail-if worse`` in a pipeline: hand against stock is worse, stock against hand not."""
    short = [word for word in SHORT if word not in ("--trials", "1")]
    worse = tuner("compare", "hand", "stock", *short, "--fail-if", "worse", "--name", "one")
    assert worse.code == 4
    assert worse.out.startswith("Worse: ")
    better = tuner("compare", "stock", "hand", *short, "--fail-if", "worse", "--name", "two")
    assert better.code == 0
    assert better.out.startswith("Better: ")
    assert host.windows > 0


def test_an_interrupted_comparison_goes_on(tuner: Tuner, host: SimulatedHost) -> None:
    """Ctrl-C in the blocks of the claim; then the verdict, with no window lost or made twice."""
    pair = ("compare", "stock", "hand")
    host.faults = Faults(interrupted={50})
    cut = tuner(*pair, "--time", "10s", "--rate", "600", "--name", "mine")
    assert cut.code == 130
    assert "resume with: tuner compare stock hand --resume --name mine" in cut.err
    before = {w.started_unix_s for w in _windows()}
    assert len(before) == 50
    done = tuner(*pair, "--resume", "--quiet")
    assert done.code == 0, done.err
    assert done.out.startswith("Better: ")
    assert before <= {w.started_unix_s for w in _windows()}
    again = tuner(*pair, "--resume", "--name", "mine", "--quiet")
    assert again.out == done.out
    record = Store.open(sqlite_url(STUDY), "mine").record()
    confirmed = [b.index for b in record.blocks if b.phase == "confirm" and b.state == "complete"]
    assert record.protocol is not None
    assert sorted(confirmed) == list(range(record.protocol.blocks))


@pytest.mark.parametrize("objective", ["p99", "throughput"])
def test_an_application_with_few_answers_a_second_is_tuned(
    tuner: Tuner, host: SimulatedHost, objective: str
) -> None:
    """A window of half a second holds 30 of them, which is enough to count."""
    host.truth = lambda _: Effect(capacity_per_s=60.0, cpu_us=0.95e6 / 60.0)
    short = ("--study", "static", "--time", "1m", "--trials", "1", "--name", "mine")
    done = tuner("optimize", "--objective", objective, *short)
    assert done.code == 0, done.err
    calibration = Store.open(sqlite_url(STUDY), "mine").record().calibration
    assert calibration is not None
    assert calibration.capacity_per_s == pytest.approx(60.0, rel=0.15)


@pytest.mark.usefixtures("host")
def test_a_comparison_that_ended_before_its_start_was_complete_begins_again(
    tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record is there, but not B's configuration; the name stays free."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(comparing, "describe", interrupted)
        cut = tuner("compare", "stock", "hand", "--time", "10s", "--rate", "600", "--name", "mine")
    assert cut.code == 130
    pair = ("compare", "stock", "hand", "--name", "mine", "--quiet")
    assert "nothing in studies/mine can be resumed" in tuner(*pair, "--resume").err
    done = tuner(*pair, "--time", "10s", "--rate", "600")
    assert done.code == 0, done.err
    assert done.out.startswith("Better: ")


def test_a_resumed_comparison_is_of_the_same_two(
    tuner: Tuner, host: SimulatedHost, tmp_path: Path
) -> None:
    """Other arms, other options, a file that changed, and a search in its place are refused."""
    other = tmp_path / "b.yaml"
    space = yaml.safe_dump({"space": "nginx/static", "values": {"sendfile": True}})
    other.write_text(space)
    host.faults = Faults(interrupted={20})
    pair = ("compare", "stock", str(other))
    assert tuner(*pair, "--time", "10s", "--rate", "600", "--name", "mine").code == 130
    other.write_text(space.replace("sendfile", "reuseport"))
    measured = host.windows
    for arguments, words in (
        ((*pair, "--resume", "--rate", "700"), "leave out --rate"),
        (("compare", "stock", "hand", "--resume"), "nothing in studies/"),
        ((*pair, "--resume"), "has changed since 'mine' began"),
        (("optimize", "--resume", "--name", "mine"), "tuner compare began 'mine'"),
    ):
        done = tuner(*arguments)
        assert done.code == 2, arguments
        assert words in done.err
    assert host.windows == measured


def test_stalls_are_kept_where_that_is_wanted(tuner: Tuner, host: SimulatedHost) -> None:
    """Nothing is left out of any latency, which report, record and protocol say; else it is."""
    host.stalls = SimulatedStalls(per_s=2.0, mean_us=150.0)
    short = ("stock", "hand", "--time", "10s", "--rate", "600", "--name", "mine")
    refused = tuner("compare", *short, "--stalls", "drop")
    assert (refused.code, host.windows) == (2, 0)
    assert "allowed: exclude, keep" in refused.err
    done = tuner("compare", *short, "--stalls", "keep")
    assert done.code == 0, done.err
    assert "stalls are kept (--stalls)" in " ".join(done.err.split())
    record = Store.open(sqlite_url(STUDY), "mine").record()
    assert record.protocol is not None
    assert record.protocol.stall_rule is None
    assert any(window.server_spans for window in _windows())
    assert {window.excluded_share for window in _windows()} == {0.0}
    assert "off, as was wanted: stalls are kept" in written()["report.md"].decode()


def test_compare_needs_two_configurations(tuner: Tuner, host: SimulatedHost) -> None:
    """The same one twice is a slip."""
    done = tuner("compare", "stock", "stock", "--time", "10s")
    assert done.code == 2
    assert "A and B are the same configuration" in done.err
    assert host.windows == 0


def test_measure_prints_figures_without_a_claim(tuner: Tuner, host: SimulatedHost) -> None:
    """Stall-free and raw, of every window, and the time to first byte."""
    done = tuner("measure", "hand", "--time", "10s", "--rate", "600", "--quiet")
    assert done.code == 0
    assert "capacity " in done.out
    assert "stall-free" in done.out
    assert "raw" in done.out
    assert "first byte  p99" in done.out
    done = tuner("measure", "hand", "--time", "10s", "--rate", "600", "--quiet", "--json")
    found = json.loads(done.out)
    assert found["rate_per_s"] == 600
    assert all(w["stall_free_p99_us"] > w["first_byte_p99_us"] > 0 for w in found["windows"])
    assert host.windows > 0


@pytest.mark.usefixtures("host")
def test_the_report_of_a_measurement_says_what_was_measured(tuner: Tuner) -> None:
    """The report gives the figure in the words of ``tuner studies``, not as an unfinished study."""
    assert tuner("measure", "hand", "--time", "10s", "--rate", "600", "--name", "mine").code == 0
    row = json.loads(tuner("studies", "--json").out)["here"][0]
    assert re.match(r"hand: p99 \d.* at 600.*/s, median of \d+ of \d+ windows", row["sentence"])
    shown = tuner("report", "mine", "--quiet")
    assert shown.code == 0
    assert shown.out.splitlines()[0] == row["sentence"]
    assert "Not calibrated" not in written()["report.md"].decode()
    found = json.loads(tuner("report", "mine", "--json").out)
    assert (found["status"], found["sentence"]) == ("measured", row["sentence"])


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


def test_a_measurement_without_a_valid_window_says_why(tuner: Tuner, host: SimulatedHost) -> None:
    """Exit code 3, no ``nan`` anywhere, and valid JSON; ``studies`` lists it as what it is."""
    host.faults = Faults(starved=range(6, 10_000))
    short = ("measure", "--time", "10s", "--rate", "600", "--quiet", "--name")
    plain = tuner(*short, "mine")
    assert plain.code == 3, plain.err
    assert "windows is valid, so there are no figures; the first: " in plain.err
    assert "nan" not in plain.out
    found = tuner(*short, "other", "--json")
    assert found.code == 3

    def refuse(word: str) -> None:
        pytest.fail(f"{word} is not JSON")

    windows = json.loads(found.out, parse_constant=refuse)["windows"]
    assert all(window["invalid"] for window in windows)
    row = json.loads(tuner("studies", "--json").out)["here"][0]
    assert (row["kind"], row["status"]) == ("measurement", "measured")
    assert row["sentence"].startswith("No valid window: ")
    again = tuner("optimize", "--resume", "--name", "mine")
    assert again.code == 2
    assert "'mine' is a measurement, which cannot be resumed" in again.err


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


def test_a_storage_of_the_users_own(tuner: Tuner, host: SimulatedHost, tmp_path: Path) -> None:
    """The record lies there, the report in the study's folder; later commands take it too."""
    url = f"sqlite:///{tmp_path / 'fleet.db'}"
    host.faults = Faults(interrupted={20})
    assert tuner("optimize", *SHORT, "--name", "mine", "--storage", url).code == 130
    assert not (STUDY / "record.db").exists()
    done = tuner("optimize", "--resume", "--name", "mine", "--storage", url, "--quiet")
    assert done.code == 0
    assert tuner("report", "mine", "--storage", url, "--quiet").code == 0


def test_a_winner_is_taken_apart(tuner: Tuner, host: SimulatedHost) -> None:
    """An ablation reports the changes that matter; the smallest difference is recommended."""
    # The p99 of the few hundred requests of these windows is too noisy for a check within 3 %.
    longer = (*SHORT, "--time", "3m", "--objective", "p50", "--name", "mine")
    assert tuner("optimize", *longer).code == 0
    host.windows = 0
    done = tuner("ablate", "mine", "--time", "60s", "--quiet")
    assert done.code == 0, done.err
    assert "sendfile" in done.out
    assert "matters" in done.out
    assert host.windows > 0
    record = Store.open(sqlite_url(STUDY), "mine").record()
    assert record.protocol is not None
    assert record.ablation is not None
    assert record.ablation.window_s > record.protocol.window_s, "only the study was short of time"
    assert "Why it won" in written()["report.md"].decode()
    assert tuner("export", "mine", "--minimal").code == 0
    assert tuner("export", "mine", "--candidate").code == 0
    best, least, every = (
        (STUDY / folder / "nginx.conf").read_text() for folder in ("best", "minimal", "candidate")
    )
    assert best == least != every
    minimal = yaml.safe_load((STUDY / "minimal" / "configuration.yaml").read_text())
    assert minimal["values"]["sendfile"] is True
    assert "sendfile on;" in (STUDY / "minimal" / "nginx.conf").read_text()
    host.windows = 0
    again = json.loads(tuner("ablate", "mine", "--quiet", "--json").out)
    assert host.windows == 0
    assert again["status"] == "over"
    surfaces.check("ablate-json", surfaces.json_keys(again))
    (matters,) = [part for part in again["parts"] if part["matters"]]
    assert matters["settings"] == ["sendfile"]
    assert matters["without"]["ratio"] > 1.5


@pytest.mark.parametrize("options", [(), ("--ablate", "off")])
def test_an_ablation_that_does_not_fit_is_offered(
    tuner: Tuner, host: SimulatedHost, options: tuple[str, ...]
) -> None:
    """Unless it is off, the study announces it; the result names the command and its time."""
    done = tuner("optimize", *SHORT[:-1], "--name", "mine", *options)
    assert done.code == 0
    assert host.windows > 0
    announced = "ablation   in what is left of the time, if the verdict is better" in done.err
    refused = re.search(
        r"an ablation of the \d+ changes takes .* or more, and .* are left", done.err
    )
    assert announced == bool(refused) == (not options)
    assert re.search(r"tuner ablate mine finds them in about \d+ min", " ".join(done.out.split()))


def test_only_a_winner_is_taken_apart(tuner: Tuner, host: SimulatedHost) -> None:
    """A study without a winner has no ablation; exit code 2."""
    host.truth = lambda _: Effect(capacity_per_s=4_000.0)
    tuner("optimize", *SHORT, "--name", "mine")
    done = tuner("ablate", "mine", "--quiet")
    assert done.code == 2
    assert "the study has no winner to ablate" in done.err


def test_a_minimal_export_needs_an_ablation(finished: Tuner) -> None:
    """The way to get one is said."""
    done = finished("export", "mine", "--minimal")
    assert done.code == 2
    assert "tuner ablate mine" in done.err


def test_a_winner_is_confirmed_again(finished: Tuner, host: SimulatedHost) -> None:
    """A study of its own, with a verdict of its own, which agrees with the first."""
    done = finished("replicate", "mine", "--quiet")
    assert done.code == 0, done.err
    assert done.out.startswith("Better: ")
    assert "Replicated: " in done.out
    assert host.windows > 0
    record = Store.open(sqlite_url(Path("studies/mine-replica")), "mine-replica").record()
    assert record.original is not None
    assert (record.original.study, record.original.verdict) == ("mine", "better")
    assert "Replicated: " in Path("studies/mine-replica/report.md").read_text()


def test_what_does_not_hold_elsewhere_is_not_replicated(
    finished: Tuner, host: SimulatedHost
) -> None:
    """On a host where the winner does nothing; exit code 4 where that was asked for."""
    host.truth = lambda _: Effect(capacity_per_s=4_000.0)
    done = finished("replicate", "mine", "--quiet", "--fail-if-not-replicated")
    assert done.code == 4
    assert "Not replicated: " in done.out


def test_an_interrupted_replication_goes_on(finished: Tuner, host: SimulatedHost) -> None:
    """The printed command resumes from its own record alone, with no window lost."""
    host.faults = Faults(interrupted={50})
    cut = finished("replicate", "mine")
    assert cut.code == 130
    assert "resume with: tuner replicate mine --resume --name mine-replica" in cut.err
    before = {w.started_unix_s for w in _windows("mine-replica")}
    assert len(before) == 50
    shutil.rmtree(STUDY)
    for arguments, words in (
        (("mine", "--resume", "--time", "1h"), "leave out --time"),
        (("other", "--resume"), "nothing in studies/"),
    ):
        refused = finished("replicate", *arguments)
        assert refused.code == 2, arguments
        assert words in refused.err
    wrong = finished("optimize", "--resume", "--name", "mine-replica")
    assert "tuner replicate began" in wrong.err
    done = finished("replicate", "mine", "--resume", "--quiet")
    assert done.code == 0, done.err
    assert "Replicated: " in done.out
    assert before <= {w.started_unix_s for w in _windows("mine-replica")}


def test_only_a_confirmation_is_repeated(tuner: Tuner, host: SimulatedHost) -> None:
    """A study that was cut short has none."""
    host.faults = Faults(interrupted={60})
    assert tuner("optimize", *SHORT, "--name", "mine").code == 130
    done = tuner("replicate", "mine", "--quiet")
    assert done.code == 2
    assert "the study has no confirmation to replicate" in done.err
