"""``tuner optimize`` on the simulated lab: a study from its beginning to its end, and resumed."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.conftest import SHORT, STUDY, Tuner, windows_of, written
from tuner.app import optimizing, resume
from tuner.errors import Interrupted
from tuner.hosts import idle_polling, local
from tuner.hosts.host_locks import LOCK
from tuner.machine import idle
from tuner.stats.margin import Margin
from tuner.store.store import Store, sqlite_url
from tuner.testing.lab import Effect, Faults, SimulatedHost
from tuner.testing.simulate import SimulatedStalls


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


def test_the_exported_configuration_is_a_baseline(finished: Tuner, host: SimulatedHost) -> None:
    """``--baseline FILE`` reads what ``export`` wrote, and there is nothing better any more."""
    best = str(STUDY / "best" / "configuration.yaml")
    done = finished("optimize", *SHORT, "--name", "again", "--baseline", best, "--json")
    assert done.code == 0
    assert json.loads(done.out)["verdict"] != "better"
    assert host.windows > 0


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
    assert any(window.server_spans for window in windows_of())
    assert {window.excluded_share for window in windows_of()} == {0.0}
    assert "off, as was wanted: stalls are kept" in written()["report.md"].decode()


def test_a_storage_of_the_users_own(tuner: Tuner, host: SimulatedHost, tmp_path: Path) -> None:
    """The record lies there, the report in the study's folder; later commands take it too."""
    url = f"sqlite:///{tmp_path / 'fleet.db'}"
    host.faults = Faults(interrupted={20})
    assert tuner("optimize", *SHORT, "--name", "mine", "--storage", url).code == 130
    assert not (STUDY / "record.db").exists()
    done = tuner("optimize", "--resume", "--name", "mine", "--storage", url, "--quiet")
    assert done.code == 0
    assert tuner("report", "mine", "--storage", url, "--quiet").code == 0


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
    before = {w.started_unix_s for w in windows_of()}
    assert len(before) == 50
    done = tuner("optimize", "--resume", "--quiet")
    assert done.code == 0
    assert done.out.startswith("Better: ")
    assert before <= {w.started_unix_s for w in windows_of()}


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


def test_a_study_goes_on_only_with_idle_cpus_that_wait_as_before(
    tuner: Tuner, host: SimulatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may begin a study, and another account resume it."""
    monkeypatch.setattr(idle, "should_poll", lambda *_: True)
    monkeypatch.setattr(idle_polling, "refusal", lambda _: "")
    monkeypatch.setattr(idle_polling, "polling", nullcontext)
    host.faults = Faults(interrupted={5})
    tuner("optimize", *SHORT, "--name", "mine")
    monkeypatch.setattr(idle_polling, "refusal", lambda _: "not allowed")
    done = tuner("optimize", "--resume", "--name", "mine")
    assert done.code == 2
    assert "idle CPUs changed since 'mine' began" in done.err


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


def test_what_a_dead_command_left_of_a_finished_study_is_removed(finished: Tuner) -> None:
    """A lock of a command that died after its last window goes when the outcome is shown again."""
    lock = STUDY / LOCK
    lock.write_text("")
    assert finished("optimize", "--resume").code == 0
    assert not lock.exists()


def test_a_finished_study_that_another_command_writes_is_not_shown_again(finished: Tuner) -> None:
    """The results are written by one command at a time."""
    with (STUDY / LOCK).open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = finished("optimize", "--resume")
    assert done.code == 3
    assert f"{STUDY} is being run by process {os.getpid()}" in done.err


def test_there_must_be_something_to_resume(tuner: Tuner, host: SimulatedHost) -> None:
    """In this folder, or by the name given."""
    done = tuner("optimize", "--resume")
    assert done.code == 2
    assert "--resume: no study in studies/" in done.err
    done = tuner("optimize", "--resume", "--name", "mine")
    assert done.code == 2
    assert "no study called 'mine'" in done.err
    assert host.windows == 0
