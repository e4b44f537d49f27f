"""The seed of a command: drawn, printed, kept on resume, and repeated by ``--seed``."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from tests.cli.conftest import SHORT, Tuner
from tuner.cli import run, worker
from tuner.definition import study
from tuner.errors import DefinitionError
from tuner.record.model import Record
from tuner.store.listing import list_names
from tuner.store.storage import no_message
from tuner.store.store import Store, sqlite_url
from tuner.testing.lab import Faults, SimulatedHost

LADDER = ("ladder", "nginx:stock", "nginx:hand")


@pytest.fixture(autouse=True)
def drawn(host: SimulatedHost, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - first
    """Draw 101, 102, …: every draw differs, as random ones do."""
    numbers = count(101)
    for module in (study, run):
        monkeypatch.setattr(module, "draw_seed", lambda: next(numbers))


def records(folder: str) -> list[Record]:
    """Return the records in a study's folder."""
    url = sqlite_url(Path("studies") / folder)
    return [Store.open(url, name).record() for name in list_names(url)]


def seeds(folder: str) -> set[object]:
    """Return the seeds of definitions and blocks in a folder."""
    found = records(folder)
    return {r.definition["seed"] for r in found} | {b.seed for r in found for b in r.blocks}


def test_a_study_draws_its_seed_prints_it_and_keeps_it_on_resume(
    tuner: Tuner, host: SimulatedHost
) -> None:
    """The announcement names the drawn seed, and a resumed study keeps it."""
    host.faults = Faults(interrupted={5})
    words = [word for word in SHORT if word != "--quiet"]
    begun = tuner("optimize", *words, "--name", "mine")
    assert begun.code == 130
    (seed,) = seeds("mine")
    assert f"seed       {seed}\n" in begun.err
    assert tuner("optimize", "--resume", "--quiet").code == 0
    assert seeds("mine") == {seed}
    assert str(seed) in Path("studies/mine/report.md").read_text()


def test_a_given_seed_is_used(tuner: Tuner) -> None:
    """``--seed`` repeats a study's random choices."""
    assert tuner("compare", "stock", "hand", "--name", "mine", *SHORT[:4], "--seed", "5").code == 0
    assert seeds("mine") == {5}


def test_a_replication_draws_its_own(tuner: Tuner) -> None:
    """Other orders and slots than those of the study that it repeats."""
    assert tuner("optimize", *SHORT, "--name", "mine").code == 0
    assert tuner("replicate", "mine", "--quiet").code == 0
    assert seeds("mine").isdisjoint(seeds("mine-replica"))


def test_a_contest_has_one_seed_and_keeps_it_on_resume(tuner: Tuner, host: SimulatedHost) -> None:
    """All its studies share the seed, which it prints."""
    host.faults = replace(host.faults, interrupted={3})
    begun = tuner(*LADDER, "--time", "20s", "--name", "mine")
    assert begun.code == 130
    (seed,) = seeds("mine")
    assert f"seed {seed}\n" in begun.err
    assert tuner(*LADDER, "--resume").code == 0
    assert seeds("mine") == {seed}


def test_a_worker_takes_the_seed_of_the_study_that_it_joins(tuner: Tuner) -> None:
    """A file without a seed leaves it to the first worker; another seed is refused."""
    file = Path("mine.yaml")
    file.write_text("time: 10s\nrate: 600\n")
    assert tuner("compare", "stock", "hand", "--study", str(file), "--name", "mine").code == 0
    (seed,) = seeds("mine")
    url = sqlite_url(Path("studies/mine"))
    assert worker._definition("mine", url, str(file), {}, no_message).seed == seed
    file.write_text("time: 10s\nrate: 600\nseed: 6\n")
    with pytest.raises(DefinitionError, match=f"seed {seed}, not 6"):
        worker._definition("mine", url, str(file), {}, no_message)
