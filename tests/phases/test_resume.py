"""Tests of resuming: a study continues from any interruption and keeps every window."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest

from tests.phases.rig import Notes, Rig, blocks, rig, states_of
from tuner.errors import ChangedServerError, Interrupted
from tuner.judge.results import evaluate
from tuner.record.model import Record
from tuner.stats.verdict import VerdictKind
from tuner.testing.lab import Faults

FINISHED = {"COMPLETE", "FAIL", "PRUNED"}


class KilledError(BaseException):
    """``kill -9``: nothing of the study's own code runs any more."""


class MortalStorage(optuna.storages.InMemoryStorage):
    """A storage whose process is killed just before the n-th write, counted from 0."""

    def __init__(self, dies_at: int = -1) -> None:
        super().__init__()
        self.writes: list[str] = []
        """Subject of each write so far: ``study``, ``trials`` or ``blocks``."""
        self.dies_at = dies_at
        self._about: dict[int, str] = {}

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if not name.startswith(("set_", "create_")):
            return found

        def write(first: Any, *args: Any, **kwargs: Any) -> Any:
            about = "study"
            if name == "create_new_trial":
                is_block = self.get_study_name_from_id(first).endswith("/blocks")
                about = "blocks" if is_block else "trials"
            elif name.startswith("set_trial"):
                about = self._about[first]
            self.writes.append(about)
            if len(self.writes) - 1 == self.dies_at:
                raise KilledError(name)
            made = found(first, *args, **kwargs)
            if name == "create_new_trial":
                self._about[made] = about
            return made

        return write


def small(**changes: Any) -> Rig:
    """Return a study at a low rate, whose windows are cheap to simulate."""
    return rig(rate_per_s=600.0, **changes)


def windows(record: Record) -> set[tuple[int, str]]:
    """Return every window in the record."""
    return {(b.number, w.window_id) for b in record.blocks for w in b.windows}


def finished_as_usual(made: Rig) -> None:
    """A study that came to its end: a verdict, nobody racing, nothing running in Optuna."""
    record = made.record()
    study = evaluate(record)
    assert record.ended_unix_s is not None
    assert study.verdict is not None
    assert study.verdict.kind is VerdictKind.BETTER
    assert {block.state for block in record.blocks} <= {"complete", "failed"}
    assert {trial.state for trial in record.trials} <= {"complete", "dropped", "infeasible"}
    assert record.protocol is not None
    assert len(study.used) == record.protocol.blocks
    for states in states_of(made.storage).values():
        assert states <= FINISHED


@pytest.fixture(scope="module")
def whole() -> Rig:
    """A study that nobody interrupts."""
    made = small(storage=MortalStorage())
    made.run()
    finished_as_usual(made)
    return made


def writes_of(made: Rig) -> list[str]:
    """Return the writes to the rig's record in order."""
    assert isinstance(made.storage, MortalStorage)
    return made.storage.writes


def point(first: int, end: int, place: int, places: int) -> int:
    """Return one of `places` points spread over [first, end), both ends included."""
    return first + round(place * (end - 1 - first) / (places - 1))


@pytest.mark.parametrize("place", range(9))
def test_ctrl_c_in_any_phase_loses_no_window(place: int, whole: Rig) -> None:
    """A study interrupted in any phase keeps its windows and resumes to its end."""
    at = point(0, whole.host.windows, place, 9)
    made = small(faults=Faults(interrupted={at}))
    with pytest.raises(Interrupted):
        made.run()
    before = windows(made.record())
    assert len(before) == at
    assert [b.reason for b in made.record().blocks if b.state == "failed"] == ["interrupted"]
    made.run()
    assert before <= windows(made.record())
    finished_as_usual(made)


def killed_and_resumed(at: int, **changes: Any) -> Rig:
    """Return a study that was killed before this write and resumed to its end."""
    made = small(storage=MortalStorage(dies_at=at), **changes)
    with pytest.raises(KilledError):
        made.run()
    before = windows(made.record())
    made.run()
    assert before <= windows(made.record())
    finished_as_usual(made)
    digests = [trial.digest for trial in made.record().trials]
    assert len(set(digests)) == len(digests)
    return made


class Upgrades(Notes):
    """Progress of a host on which the server's package is upgraded as the confirmation begins."""

    def __init__(self, program: Path) -> None:
        super().__init__()
        self._program = program

    def phase(self, title: str, expected_s: float) -> None:
        """Implement ``Progress.phase``."""
        super().phase(title, expected_s)
        if "confirmation" in title:
            self._program.write_text("new")


@pytest.mark.parametrize("exclusive", [False, True], ids=["side by side", "in turn"])
def test_blocks_of_an_upgraded_server_are_not_compared_with_earlier_ones(
    tmp_path: Path, exclusive: bool
) -> None:
    """The study ends before their first window, and resumes with the former program only."""
    program = tmp_path / "nginx"
    program.write_text("old")
    made = small(program=program, progress=Upgrades(program), exclusive=exclusive)
    with pytest.raises(ChangedServerError, match=f"{program} has changed"):
        made.run()
    before = windows(made.record())
    assert blocks(made.record(), "search", "complete")
    assert not any(block.windows for block in blocks(made.record(), "confirm"))
    with pytest.raises(ChangedServerError, match="restore the former version"):
        made.run()
    assert windows(made.record()) == before
    made.progress = Notes()
    program.write_text("old")
    made.run()
    finished_as_usual(made)


@pytest.mark.parametrize("place", range(15))
def test_kill_nine_at_any_write_loses_no_window_and_leaves_no_zombie(
    place: int, whole: Rig
) -> None:
    """A study killed before any write to the record resumes without a loss."""
    unbegun = small(storage=MortalStorage())
    unbegun.store()
    killed_and_resumed(point(len(writes_of(unbegun)), len(writes_of(whole)), place, 15))


def test_kill_nine_while_a_trial_begins_or_ends() -> None:
    """Every single write in the life of the baseline's trial and of another one."""
    short = small(storage=MortalStorage(), trials=1)
    short.run()
    points = [n for n, target in enumerate(writes_of(short)) if target == "trials"]
    assert len(points) > 10
    for at in points:
        killed_and_resumed(at, trials=1)


def test_kill_nine_while_a_block_begins_or_ends() -> None:
    """Every write of the search's block but its windows, and the first of the confirmation."""
    short = small(storage=MortalStorage(), trials=1)
    record = short.run()
    calibrated = sum(len(b.windows) for b in record.blocks if b.phase in ("capacity", "aa"))
    points = [n for n, target in enumerate(writes_of(short)) if target == "blocks"]
    for at in [p for p in points if p > calibrated][:: len(points) // 8]:
        killed_and_resumed(at, trials=1)


def test_a_study_that_goes_on_is_the_same_study(whole: Rig) -> None:
    """The same load point, protocol and candidate as if nothing had happened."""
    expected = whole.record()
    first = blocks(expected, "confirm")[0]
    before = sum(len(b.windows) for b in expected.blocks if b.number < first.number)
    made = small(faults=Faults(interrupted={before + 5}))
    with pytest.raises(Interrupted):
        made.run()
    frozen = made.record().protocol
    record = made.run()
    assert frozen is not None
    assert expected.protocol is not None
    assert record.protocol == frozen
    assert replace(frozen, frozen_unix_s=0.0) == replace(expected.protocol, frozen_unix_s=0.0)
    assert len(blocks(record, "confirm")) == len(blocks(expected, "confirm")) + 1


def test_candidates_of_a_block_that_was_cut_short_get_their_look() -> None:
    """Interrupted at the search's first window, its trials are the next block's."""
    plain = small()
    plain.run()
    first = blocks(plain.record(), "search")[0]
    before = sum(len(b.windows) for b in plain.record().blocks if b.number < first.number)
    made = small(faults=Faults(interrupted={before}))
    with pytest.raises(Interrupted):
        made.run()
    record = made.run()
    cut, again = blocks(record, "search")[:2]
    assert [i.trial for i in again.instances] == [i.trial for i in cut.instances]
    assert [t.digest for t in record.trials] == [t.digest for t in plain.record().trials]
    assert all(t.losses for t in record.trials if t.origin != "baseline")


def test_time_between_the_interruption_and_the_resumption_is_not_spent() -> None:
    """A study that slept a week still has its search ahead."""
    made = rig(objective="p50", time_s=600.0, faults=Faults(interrupted={150}))
    with pytest.raises(Interrupted):
        made.run()
    made.host.now_s += 7 * 86_400
    made.run()
    searched = blocks(made.record(), "search", "complete")
    undisturbed = blocks(rig(objective="p50", time_s=600.0).run(), "search", "complete")
    assert abs(len(searched) - len(undisturbed)) <= 1


def test_a_finished_study_is_not_run_again() -> None:
    """Resuming it changes nothing that was measured."""
    made = rig()
    record = made.run()
    before = made.host.windows
    assert windows(made.run()) == windows(record)
    assert made.host.windows == before
