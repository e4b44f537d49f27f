"""``--sampler``: the choice is recorded and shown, and code comes from users alone."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.cli.conftest import SHORT, STUDY, Tuner
from tuner.definition.study import load_study
from tuner.record.model import Record
from tuner.store.store import Store, sqlite_url
from tuner.testing.lab import Faults, SimulatedHost

SOME = (*SHORT[:4], "--rate", "600", "--trials", "4", "--quiet", "--name", "mine")
MODULE = """
from optuna.samplers import RandomSampler


class Mine(RandomSampler):
    def __init__(self, seed=None):
        with open("imported", "a") as file:
            print("created", file=file)
        super().__init__(seed=seed)
"""


def record() -> Record:
    """Return the study's record."""
    return Store.open(sqlite_url(STUDY), STUDY.name).record()


BEGUN = Faults(interrupted={75})
"""Interrupted in the search, after its first block."""


def test_a_named_sampler_is_recorded_and_shown(tuner: Tuner, host: SimulatedHost) -> None:
    """In the record's definition, the report's options, and the line of its search."""
    host.faults = BEGUN
    assert tuner("optimize", *SOME, "--sampler", "random").code == 130
    assert record().definition["sampler"] == "random"
    assert sum(trial.origin == "proposed" for trial in record().trials) == 3
    assert "Sampler: random." in (STUDY / "report.md").read_text(encoding="utf-8")
    assert ">sampler<" in (STUDY / "report.html").read_text(encoding="utf-8")


def test_a_class_is_imported_if_the_command_line_names_it(
    tuner: Tuner, host: SimulatedHost
) -> None:
    """The study of a class is resumed with the same option, and not without it."""
    Path("my_sampler.py").write_text(MODULE, encoding="utf-8")
    host.faults = BEGUN
    assert tuner("optimize", *SOME, "--sampler", "my_sampler:Mine").code == 130
    assert record().definition["sampler"] == "my_sampler:Mine"
    Path("imported").unlink()
    resumed = ("optimize", "--resume", "--name", "mine", "--quiet")
    refused = tuner(*resumed)
    assert refused.code == 2
    assert "--sampler my_sampler:Mine, which is code" in " ".join(refused.err.split())
    assert not Path("imported").exists()
    other = tuner(*resumed, "--sampler", "optuna.samplers:X")
    assert other.code == 2
    assert "leave the option out" in " ".join(other.err.split())
    host.faults = Faults(interrupted={host.windows + 2})
    assert tuner(*resumed, "--sampler", "my_sampler:Mine").code == 130
    assert Path("imported").exists()


def test_a_command_without_a_search_needs_no_sampler(tuner: Tuner, host: SimulatedHost) -> None:
    """A study file with a sampler that is not installed serves for a measurement."""
    Path("ours.yaml").write_text("rate: 600\ntime: 10s\nsampler: gp\n", encoding="utf-8")
    host.faults = Faults(interrupted={1})
    assert tuner("measure", "hand", "--study", "ours.yaml", "--quiet").code == 130
    assert host.windows > 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--sampler", "tep"), "unknown sampler 'tep'"),
        (("--sampler", "a b:C"), "does not name a class; write MODULE:CLASS"),
        (("--sampler", "missing_module:C"), "cannot be imported: ModuleNotFoundError"),
        (
            ("--sampler", "cmaes", "--objective", "p99", "--objective", "memory"),
            "cmaes searches for one objective",
        ),
        (("--sampler", "gp"), "gp needs torch, which is not installed"),
    ],
)
def test_a_wrong_sampler_is_refused_before_anything_starts(
    tuner: Tuner, host: SimulatedHost, given: tuple[str, ...], words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Exit code 2, one line, no window."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    done = tuner("optimize", *SOME, *given)
    assert done.code == 2
    assert words in " ".join(done.err.split())
    assert host.windows == 0


def test_a_file_names_no_class(tuner: Tuner, host: SimulatedHost) -> None:
    """A study file may come from others; it may name the built-in samplers."""
    text = "server: nginx\nworkload: static\nrate: 600\ntime: 10s\nsampler: {}\n"
    Path("theirs.yaml").write_text(text.format("os:getcwd"), encoding="utf-8")
    done = tuner("optimize", "--study", "theirs.yaml", "--quiet")
    assert done.code == 2
    assert "theirs.yaml:5: sampler: 'os:getcwd' is code" in " ".join(done.err.split())
    assert host.windows == 0
    Path("ours.yaml").write_text(text.format("qmc"), encoding="utf-8")
    assert load_study("ours.yaml").sampler == "qmc"
