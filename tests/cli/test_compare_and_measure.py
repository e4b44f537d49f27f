"""``tuner compare`` and ``tuner measure`` on the simulated lab."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import SHORT, STUDY, Tuner, windows_of, written
from tuner.app import comparing
from tuner.store.store import Store, sqlite_url
from tuner.testing.lab import Faults, SimulatedHost


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
    before = {w.started_unix_s for w in windows_of()}
    assert len(before) == 50
    done = tuner(*pair, "--resume", "--quiet")
    assert done.code == 0, done.err
    assert done.out.startswith("Better: ")
    assert before <= {w.started_unix_s for w in windows_of()}
    again = tuner(*pair, "--resume", "--name", "mine", "--quiet")
    assert again.out == done.out
    record = Store.open(sqlite_url(STUDY), "mine").record()
    confirmed = [b.index for b in record.blocks if b.phase == "confirm" and b.state == "complete"]
    assert record.protocol is not None
    assert sorted(confirmed) == list(range(record.protocol.blocks))


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
    """In the words of ``tuner studies``, not as an unfinished study, which could be resumed."""
    assert tuner("measure", "hand", "--time", "10s", "--rate", "600", "--name", "mine").code == 0
    row = json.loads(tuner("studies", "--json").out)["here"][0]
    assert re.match(r"hand: p99 \d.* at 600.*/s, median of \d+ of \d+ windows", row["sentence"])
    shown = tuner("report", "mine", "--quiet")
    assert shown.code == 0
    assert shown.out.splitlines()[0] == row["sentence"]
    assert "Not calibrated" not in written()["report.md"].decode()
    found = json.loads(tuner("report", "mine", "--json").out)
    assert (found["status"], found["sentence"]) == ("measured", row["sentence"])
    again = tuner("measure", "hand", "--time", "10s", "--rate", "600", "--name", "mine")
    assert again.code == 3
    assert "choose another --name, or leave it out" in " ".join(again.err.split())
    assert "--resume" not in again.err


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
