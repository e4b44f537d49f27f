"""``tuner run``, ``ladder``, and ``compare`` of servers, on the simulated lab."""

from __future__ import annotations

import json
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest

from tests.cli.conftest import Tuner
from tuner.app import contests, dashboard_server, signing
from tuner.judge.results import evaluate
from tuner.phases.contest import run_contest
from tuner.stats.margin import Margin
from tuner.store.listing import list_names, open_all
from tuner.store.store import Store, sqlite_url
from tuner.testing.lab import Faults, SimulatedHost

pytestmark = pytest.mark.usefixtures("host")
RUN = ("run", "https-proxy-500", "--server", "nginx", "--case", "20B", "--time", "30s")


def test_a_published_experiment_from_beginning_to_end(
    tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All arms are measured, reported with the published figures, exported, and shown."""
    done = tuner(*RUN, "--name", "mine")
    assert done.code == 0, done.err
    for label in ("nginx-stock", "nginx-published", "nginx-tuned"):
        assert label in done.out
    assert "p50 287 µs, p95 524 µs, p99 682 µs" in done.out
    folder = Path("studies/mine")
    page = (folder / "report.html").read_text()
    assert "Not carried over" in page
    assert "access_log off: all arms write the same log" in page
    assert "# https-proxy-500" in (folder / "report.md").read_text()
    assert {path.suffix for path in (folder / "configurations").iterdir()} == {".yaml", ".conf"}
    again = tuner("report", "mine", "--json")
    (contest,) = json.loads(again.out)["contests"]
    assert contest["case"] == "20B"
    assert contest["rate_per_s"] == 500
    assert len(contest["arms"]) == 3
    assert contest["blocks"] >= 9
    assert "mine.20B" in tuner("studies").out
    kept = tuner("export", "mine", "--results", "results/mine")
    assert kept.code == 0, kept.err
    assert "results/README.md" in kept.out
    kept_record = "results/mine/record-20B.json.gz"
    refused = tuner("report", "mine", "--junit", "ci.xml")
    assert (refused.code, "--fail-if" in refused.err) == (2, True)
    anew = tuner("report", kept_record, "--json", "--charts", "svg", "--output", "drawn")
    assert Path("drawn/charts/ratio-p99-20b.svg").is_file()
    assert json.loads(anew.out)["contests"] == json.loads(again.out)["contests"]
    extra = types.ModuleType("optuna_dashboard")
    monkeypatch.setattr(extra, "wsgi", lambda _url: None, raising=False)
    monkeypatch.setitem(sys.modules, "optuna_dashboard", extra)
    monkeypatch.setattr(dashboard_server, "serve", lambda *_: None)
    assert "the studies of the run mine" in tuner("dashboard", "mine").err


def test_the_cases_of_an_experiment_may_speak_several_protocols(tuner: Tuner) -> None:
    """A configuration tuned over HTTP/2 loses its settings of HTTP/2 where HTTP/1.1 is measured."""
    run = ("run", "file-100k-h1-h2-terminator", "--server", "nginx", "--time", "30s")
    done = tuner(*run, "--case", "c160m1", "--case", "http1-c160", "--name", "both", "--json")
    assert done.code == 0, done.err
    contests = json.loads(done.out)["contests"]
    assert [contest["case"] for contest in contests] == ["c160m1", "http1-c160"]
    page = Path("studies/both/report.html").read_text()
    assert "http2_chunk_size" in page
    assert "it is for http2; the workload is http1 over TLS" in page


def test_a_ladder_of_given_configurations(tuner: Tuner) -> None:
    """Every arm has its rungs; the charts are in the page."""
    done = tuner(
        *("ladder", "nginx:stock", "nginx:hand", "--time", "20s", "--name", "up"),
        *("--limit", "p99<2ms", "--json", "--quiet"),
    )
    assert done.code == 0, done.err
    (contest,) = json.loads(done.out)["contests"]
    assert [arm["arm"] for arm in contest["ladder"]] == ["nginx-stock", "nginx-hand"]
    for arm in contest["ladder"]:
        assert len(arm["rungs"]) >= 6
        assert arm["limit"] == "p99 <= 2ms"
        # The simulated server answers 4,000/s with every configuration.
        assert 3_000 < arm["highest_within_limit_per_s"] < 5_000
        assert arm["low_per_s"] <= arm["highest_within_limit_per_s"] <= arm["high_per_s"]
    page = Path("studies/up/report.html").read_text()
    assert 'id="chart-ladder-latency-0"' in page
    assert "vegaEmbed" in page


def test_two_configurations_of_servers_are_compared_in_common_blocks(tuner: Tuner) -> None:
    """``hand`` has sendfile, which takes 40 % away here; the verdict ends a pipeline."""
    done = tuner(
        *("compare", "nginx:hand", "nginx:stock", "--time", "20s", "--name", "duel"),
        *("--fail-if", "worse", "--json", "--quiet"),
    )
    assert done.code == 4, done.err
    (contest,) = json.loads(done.out)["contests"]
    (p99,) = [row for row in contest["compared"] if row["figure"] == "p99"]
    assert (p99["first"], p99["second"], p99["verdict"]) == ("nginx-hand", "nginx-stock", "worse")
    assert p99["ratio_low"] < 1.65 < p99["ratio_high"]
    assert any(alike["what"] == "compression" for alike in contest["alike"])


def test_several_servers_are_compared_with_each_other(tuner: Tuner) -> None:
    """The verdict that ends a pipeline is that on the last one."""
    done = tuner(
        *("compare", "nginx:stock", "nginx:distro", "nginx:hand", "--time", "20s"),
        *("--name", "three", "--fail-if", "better", "--json", "--quiet"),
    )
    assert done.code == 4, done.err
    (contest,) = json.loads(done.out)["contests"]
    rows = [row for row in contest["compared"] if row["figure"] == "p99"]
    assert {(row["first"], row["second"]) for row in rows} == {
        ("nginx-stock", "nginx-distro"),
        ("nginx-stock", "nginx-hand"),
        ("nginx-distro", "nginx-hand"),
    }


def test_configurations_are_compared_two_at_a_time(tuner: Tuner) -> None:
    """The way out for several of them compares them as arms."""
    refused = tuner("compare", "stock", "hand", "distro")
    assert refused.code == 2
    assert "tuner ladder nginx:stock nginx:hand nginx:distro" in refused.err


def test_servers_are_compared_by_the_users_margin(tuner: Tuner) -> None:
    """The plan of the comparison records the margin, and every claim uses it."""
    done = tuner(
        *("compare", "nginx:hand", "nginx:stock", "--time", "20s", "--name", "wide"),
        *("--margin", "30%", "--json", "--quiet"),
    )
    assert done.code == 0, done.err
    record = Store.open(sqlite_url(Path("studies/wide")), "wide.contest").record()
    assert record.contest is not None
    assert (record.contest.margin, record.contest.margin_symmetric) == (0.3, True)
    found = evaluate(record).contest
    assert found is not None
    assert {row.claim.margin for row in found.compared} == {Margin(0.3)}
    assert {row.verdict.margin for row in found.compared} == {Margin(0.3)}


def windows_in(name: str) -> dict[str, set[str]]:
    """Return every window that the record of a run holds, by the study that holds it."""
    url = sqlite_url(Path("studies") / name)
    return {
        record.name: {
            f"{block.number}/{window.window_id}"
            for block in record.blocks
            for window in block.windows
        }
        for record in (store.record() for store in open_all(url))
    }


@pytest.fixture(scope="module")
def length() -> dict[str, int]:
    """Windows of an uninterrupted run, by phase boundaries; filled by the first test that runs."""
    return {}


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_an_interrupted_run_goes_on_from_its_record(
    tuner: Tuner, host: SimulatedHost, length: dict[str, int], share: float
) -> None:
    """Ctrl-C in the search, the capacities or the common blocks: no window is lost or repeated."""
    if not length:
        assert tuner(*RUN, "--name", "whole", "--quiet").code == 0
        length["windows"] = host.windows
        host.windows = 0
    host.faults = replace(host.faults, interrupted={round(share * length["windows"])})
    cut = tuner(*RUN, "--name", "mine")
    assert cut.code == 130
    before = windows_in("mine")
    host.faults = replace(host.faults, interrupted=set())
    done = tuner("run", "https-proxy-500", "--resume")
    assert done.code == 0, done.err
    after = windows_in("mine")
    assert all(seen <= after[study] for study, seen in before.items())
    contest = Store.open(sqlite_url(Path("studies/mine")), "mine.20B").record()
    complete = [b.index for b in contest.blocks if b.phase == "contest" and b.state == "complete"]
    assert contest.contest is not None
    assert sorted(complete) == list(range(contest.contest.blocks))
    assert Path("studies/mine/report.html").is_file()
    # Gone on with once more, nothing is measured again.
    again = tuner("run", "https-proxy-500", "--resume", "--name", "mine")
    assert again.code == 0
    assert windows_in("mine") == after


def test_a_run_that_ended_while_its_contest_began_resumes(
    tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tuned studies are whole, and the contest's record begins again."""
    begin = signing.begin

    def interrupted(store: Store) -> None:
        if store.record().name == "mine.20B":
            raise KeyboardInterrupt
        begin(store)

    with monkeypatch.context() as patch:
        patch.setattr(signing, "begin", interrupted)
        assert tuner(*RUN, "--name", "mine", "--quiet").code == 130
    tuned = windows_in("mine")
    done = tuner("run", "https-proxy-500", "--resume", "--quiet")
    assert done.code == 0, done.err
    after = windows_in("mine")
    assert {name: after[name] for name in tuned} == tuned
    assert "mine.20B" in after


def test_how_to_resume_is_printed_even_where_no_report_can_be_written(
    tuner: Tuner, host: SimulatedHost
) -> None:
    """A folder lies where the page belongs; the record is whole."""
    host.faults = replace(host.faults, interrupted={20})
    Path("studies/mine/report.html").mkdir(parents=True)
    cut = tuner("compare", "nginx:stock", "nginx:hand", "--time", "30s", "--name", "mine")
    assert cut.code == 130
    assert "the report could not be written" in cut.err
    assert "tuner compare nginx:stock nginx:hand --resume --name mine" in cut.err


def test_an_interrupted_ladder_goes_on_at_the_rates_that_are_left(
    tuner: Tuner, host: SimulatedHost
) -> None:
    """A resumed ladder keeps its measurements and offers each rate as often as planned."""
    up = ("ladder", "nginx:stock", "nginx:hand")
    host.faults = replace(host.faults, interrupted={45})
    cut = tuner(*up, "--time", "20s", "--name", "up", "--limit", "p99<2ms")
    assert cut.code == 130
    assert "resume with: tuner ladder nginx:stock nginx:hand --resume --name up" in cut.err
    assert Path("studies/up/report.html").is_file()
    host.faults = replace(host.faults, interrupted=set())
    assert tuner(*up, "--resume").code == 0
    record = Store.open(sqlite_url(Path("studies/up")), "up.contest").record()
    assert record.contest is not None
    planned = record.contest.ladder
    assert planned is not None
    ended = [b.index for b in record.blocks if b.phase == "ladder" and b.state != "failed"]
    assert sorted(ended) == list(range(len(planned.rates_per_s) * planned.passes))


def test_common_blocks_that_the_host_spoilt_go_on_after_the_ladder(
    tuner: Tuner, host: SimulatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host may be quieter by then; a run of an hour does not end without a claim before."""
    faults = iter((Faults(starved=range(10_000)), Faults()))

    def spoilt_at_first(*given: Any) -> bool:
        host.faults = next(faults)
        return run_contest(*given)

    monkeypatch.setattr(contests, "run_contest", spoilt_at_first)
    done = tuner("ladder", "nginx:stock", "nginx:hand", "--time", "20s", "--name", "up")
    assert done.code == 0, done.err
    assert done.err.count("the host spoilt too many blocks") == 1
    record = Store.open(sqlite_url(Path("studies/up")), "up.contest").record()
    assert record.contest is not None
    whole = [b for b in record.blocks if b.phase == "contest" and b.state == "complete"]
    assert len(whole) == record.contest.blocks
    assert record.ended_unix_s is not None


def test_a_resumed_run_keeps_its_options(tuner: Tuner, host: SimulatedHost) -> None:
    """Other ones are refused, as is a run that is not there; nothing is deployed."""
    host.faults = replace(host.faults, interrupted={3})
    assert tuner("ladder", "nginx:stock", "nginx:hand", "--time", "20s").code == 130
    deployed = host.deployments
    for arguments, words in (
        (("ladder", "nginx:stock", "nginx:hand", "--resume", "--time", "1h"), "leave out --time"),
        (("ladder", "nginx:stock", "nginx:distro", "--resume"), "nothing in studies/"),
        ((*RUN, "--resume"), "give NAME and --name only"),
        (("run", "http3-page", "--resume"), "nothing in studies/"),
        (("run", "http3-page", "--resume", "--name", "other"), "nothing in studies/other"),
        (("compare", "stock", "hand", "--resume"), "resumed with the arguments: stock hand"),
    ):
        done = tuner(*arguments)
        assert done.code == 2, arguments
        assert words in done.err
    assert host.deployments == deployed


def test_a_search_that_was_given_up_for_noise_is_tried_again(
    tuner: Tuner, host: SimulatedHost
) -> None:
    """The host's fault (exit code 3), and what the message says to do works when it is quiet."""
    duel = ("compare", "nginx", "nginx:stock")
    host.faults = replace(host.faults, starved=range(100_000))
    given_up = tuner(*duel, "--time", "30s", "--name", "duel")
    assert given_up.code == 3, given_up.err
    assert "nginx could not be tuned here" in given_up.err
    assert "resume with: tuner compare nginx nginx:stock --resume --name duel" in given_up.err
    host.faults = replace(host.faults, starved=())
    done = tuner(*duel, "--resume", "--json", "--quiet")
    assert done.code == 0, done.err
    (contest,) = json.loads(done.out)["contests"]
    assert [arm["arm"] for arm in contest["arms"]] == ["nginx-tuned", "nginx-stock"]


def test_a_run_without_a_valid_block_is_the_hosts_failure(
    tuner: Tuner, host: SimulatedHost
) -> None:
    """Exit code 3 and the reason in the report; with --resume the blocks are measured later."""
    duel = ("compare", "nginx:stock", "nginx:hand")
    # After the two arms' capacities.
    host.faults = replace(host.faults, starved=range(6, 100_000))
    lost = tuner(*duel, "--time", "20s", "--name", "duel")
    assert lost.code == 3, lost.err
    assert "so there is no comparison" in lost.err
    assert "planned blocks are there; the last that was repeated: " in (
        Path("studies/duel/report.md").read_text()
    )
    host.faults = replace(host.faults, starved=())
    done = tuner(*duel, "--resume", "--name", "duel", "--json", "--quiet")
    assert done.code == 0, done.err
    (contest,) = json.loads(done.out)["contests"]
    assert contest["blocks"] > 0
    assert not any("planned blocks" in warning for warning in contest["warnings"])


def test_a_run_with_common_blocks_resumes_without_what_it_gave_up(
    tuner: Tuner, host: SimulatedHost
) -> None:
    """A new arm in half of the blocks would be compared with nothing."""
    # Calibration in vain, then the capacities, then blocks of the two arms that are left.
    host.faults = replace(host.faults, starved=range(30))
    whole = tuner(*RUN, "--name", "whole", "--json", "--quiet")
    (contest,) = json.loads(whole.out)["contests"]
    assert contest["blocks"] > 0
    assert [arm["arm"] for arm in contest["arms"]] == ["nginx-stock", "nginx-published"]
    before = windows_in("whole")
    resumed = ("run", "https-proxy-500", "--resume", "--name", "whole")
    assert tuner(*resumed).code == 0
    assert windows_in("whole") == before
    # Nor does it begin a record of the search again that somebody has removed.
    url = sqlite_url(Path("studies/whole"))
    for name in ("whole.tuned-nginx", "whole.tuned-nginx/blocks"):
        optuna.delete_study(study_name=name, storage=url)
    assert tuner(*resumed).code == 0
    assert list_names(url) == ["whole.20B"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "nothing"), "no experiment 'nothing'"),
        (("run", "https-proxy-500", "--server", "iis"), "'iis' is not a server of"),
        (("run", "https-proxy-500", "--case", "1MB"), "no case '1MB'"),
        (("run", "https-proxy-500", "--time", "1s"), "out of range"),
        (("compare", "nginx", "hand"), "write nginx:hand"),
        (("compare", "nginx:stock", "nginx:published"), "tuner run NAME"),
        (("compare", "nginx:stock", "nginx:stock"), "named twice"),
        (("compare", "nginx:stock", "nginx:hand", "--junit", "ci.xml"), "use --fail-if"),
        (("ladder", "stock"), "write nginx:stock"),
        (("ladder", "nginx:stock", "--limit", "fast"), "'fast'"),
    ],
)
def test_what_cannot_be_run_is_answered_before_anything_starts(
    tuner: Tuner, host: SimulatedHost, arguments: tuple[str, ...], words: str
) -> None:
    """Exit code 2, and nothing was deployed."""
    done = tuner(*arguments)
    assert done.code == 2
    assert words in done.err
    assert host.deployments == 0


@pytest.mark.usefixtures("host")
def test_both_is_the_former_name_of_all_servers(tuner: Tuner) -> None:
    """Published commands keep working; the help names the new one only."""
    for server in ([], ["--server", "all"], ["--server", "both"]):
        done = tuner("run", "https-proxy-500", "--dry-run", "--json", *server)
        assert done.code == 0, done.err
        plans = json.loads(done.out)["plans"]
        assert {each["server"] for each in plans} == {"nginx", "caddy"}
    assert "both" not in tuner("run", "--help").out
    refused = tuner("run", "https-proxy-500", "--server", "both", "--resume")
    assert "nothing in studies/" in refused.err, "it is the default, as without the option"


def test_the_list_of_experiments_has_their_subjects_and_times(tuner: Tuner) -> None:
    """For people and for scripts."""
    said = tuner("studies").out
    assert "https-proxy-500" in said
    assert "1 h 30 min" in said
    found = json.loads(tuner("studies", "--json").out)["experiments"]
    assert {entry["name"] for entry in found} >= {"http3-page", "reverse-proxy-ladder"}
    assert all(entry["time_s"] > 0 for entry in found)
    assert [entry["name"] for entry in found if not entry["published"]] == ["reverse-proxies"]
