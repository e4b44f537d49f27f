"""``tuner ablate`` and ``tuner replicate``: a winner taken apart, and confirmed again."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.cli import surfaces
from tests.cli.conftest import SHORT, STUDY, Tuner, windows_of, written
from tuner.store.store import Store, sqlite_url
from tuner.testing.lab import Effect, Faults, SimulatedHost


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
    before = {w.started_unix_s for w in windows_of("mine-replica")}
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
    assert before <= {w.started_unix_s for w in windows_of("mine-replica")}


def test_only_a_confirmation_is_repeated(tuner: Tuner, host: SimulatedHost) -> None:
    """A study that was cut short has none."""
    host.faults = Faults(interrupted={60})
    assert tuner("optimize", *SHORT, "--name", "mine").code == 130
    done = tuner("replicate", "mine", "--quiet")
    assert done.code == 2
    assert "the study has no confirmation to replicate" in done.err
