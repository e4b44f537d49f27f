"""A study's whole time: announced when it is calibrated, and kept."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.phases.rig import STOCK, Rig, blocks, rig
from tuner.judge.ablation_plan import reserved_s
from tuner.judge.forecast import forecast
from tuner.judge.results import evaluate
from tuner.phases.ablate import run_ablation
from tuner.phases.study import announce_times, calibrate, confirm
from tuner.testing.lab import Faults
from tuner.words.terminal import duration

ANNOUNCED = re.compile(
    r"the whole study takes (?:at most )?about (?P<whole>.*);"
    r" (?P<left>.*) are left(?:: (?P<of>.*))?"
)


def seconds(words: str) -> float:
    """Return the seconds of a duration in words."""
    units = {"h": 3_600, "min": 60, "s": 1}
    return sum(int(n) * units[unit] for n, unit in re.findall(r"(\d+) (h|min|s)\b", words))


def announcements(made: Rig) -> list[re.Match[str]]:
    """Return what was announced of the whole time, in order."""
    return [found for note in made.progress.notes if (found := ANNOUNCED.fullmatch(note))]


@pytest.mark.parametrize(
    ("time_s", "rate_per_s"),
    [(20, None), (60, 500), (120, None), (180, None), (180, 500), (300, 500), (600, 500)],
)
def test_a_study_takes_what_was_announced(time_s: float, rate_per_s: float | None) -> None:
    """Within 10 % of what calibration announced, and in its time where its time can be kept."""
    made = rig(time_s=float(time_s), rate_per_s=rate_per_s)
    begun_s = made.host.now_s
    record = made.run()
    took_s = made.host.now_s - begun_s
    (announced,) = announcements(made)
    assert took_s == pytest.approx(seconds(announced["whole"]), rel=0.1)
    assert len(blocks(record, "confirm")) >= 6
    before = forecast(time_s, made.goals, rate_per_s=rate_per_s)
    assert took_s <= 1.06 * before.expected_s


def test_the_announcement_names_the_phases_and_what_is_cut() -> None:
    """So that nobody waits for load points that do not come."""
    made = rig(time_s=190.0)
    made.run()
    (announced,) = announcements(made)
    assert re.fullmatch(r"search \d+ s, confirmation 1 min \d+ s", announced["of"])
    cut = "to keep to 3 min 10 s there are no other load points and shorter windows"
    assert cut in made.progress.notes
    assert "other load points" not in made.progress.phases


def test_a_time_that_holds_no_verdict_is_said_to_be_too_short() -> None:
    """The study takes the least time that a verdict needs."""
    made = rig(time_s=20.0)
    made.run()
    reported = (
        "it does not fit into 20 s; this is the least for a verdict, with no other load points"
    )
    assert reported in made.progress.notes


def test_a_study_that_fits_has_its_full_plan_and_no_word_about_cuts() -> None:
    """The other load points are measured, in the windows that the samples ask for."""
    made = rig(objective="p50", time_s=300.0, trials=4)
    record = made.run()
    (announced,) = announcements(made)
    assert announced[0].startswith("the whole study takes at most about")
    assert "other load points" in str(announced["of"])
    assert not any("to keep to" in note or "not fit" in note for note in made.progress.notes)
    assert len(blocks(record, "load-points")) == 2
    ready = calibrate(made.bench(), made.spec)
    whole = calibrate(made.bench(), replace(made.spec, economise=False))
    assert ready.plan == whole.plan


def test_one_block_shows_the_load_point_with_cpus_that_halt() -> None:
    """If they poll in all others. It is part of the plan, and the other points do not hold it."""
    made = rig(objective="p50", time_s=300.0, trials=4, polls=True)
    begun_s = made.host.now_s
    record = made.run()
    *others, last = blocks(record, "load-points")
    assert len(others) == 2
    assert record.calibration is not None
    assert {w.rate_per_s for w in last.windows} == {record.calibration.rate_per_s}
    assert not any(window.polled for window in last.windows)
    every = [w for b in record.blocks if b != last for w in b.windows if b.phase == "confirm"]
    assert all(window.polled for window in every)
    assert made.host.now_s - begun_s <= 300.0
    ready = calibrate(made.bench(), made.spec)
    assert ready.plan.points == 3
    result = evaluate(record)
    assert result.verdict is not None
    assert result.halting == pytest.approx(result.verdict.estimate.ratio, rel=0.2)
    at_the_point = [p for p in result.load_points if p.rate_per_s == record.calibration.rate_per_s]
    confirmed = sum(len(b.windows) for b in blocks(record, "confirm", "complete")) // 2
    assert {point.windows for point in at_the_point} == {confirmed}


def test_a_calibration_that_takes_longer_costs_the_other_load_points() -> None:
    """No claim depends on them; a study that fitted by a few seconds no longer does."""
    usual = rig(objective="p50", time_s=206.0, trials=1)
    assert len(blocks(usual.run(), "load-points")) == 2
    longer = rig(objective="p50", time_s=206.0, trials=1, faults=Faults(starved=range(10, 22)))
    record = longer.run()
    assert blocks(record, "aa", "invalid")
    assert blocks(record, "load-points") == []
    assert "to keep to 3 min 26 s there are no other load points" in longer.progress.notes


def test_what_is_left_of_a_resumed_study_is_said_anew() -> None:
    """The time that blocks took before counts as gone."""
    made = rig(objective="p50", time_s=300.0, trials=4)
    made.run()
    announce_times(calibrate(made.bench(), made.spec), made.spec)
    first, again = announcements(made)
    assert seconds(first["left"]) > 120
    assert seconds(again["left"]) == 0
    assert again["of"] is None
    assert seconds(again["whole"]) < seconds(first["whole"]), "four trials took no more"


def test_a_study_without_a_search_announces_none() -> None:
    """A study that confirms a given configuration announces no time for a search."""
    made = rig(objective="p50", time_s=120.0, search=False)
    ready = calibrate(made.bench(), made.spec)
    announce_times(ready, made.spec)
    (announced,) = announcements(made)
    assert "search" not in announced["of"]


@pytest.mark.parametrize("ablate", [True, False])
def test_a_long_study_keeps_time_for_an_ablation(ablate: bool) -> None:
    """Its search is shorter by that time; with ``--ablate off`` the search has all of it."""
    made = rig(objective="throughput", time_s=3_600.0, ablate=ablate)
    ready = calibrate(made.bench(), made.spec)
    announce_times(ready, made.spec)
    (announced,) = announcements(made)
    assert seconds(announced["whole"]) == pytest.approx(3_600, abs=60)
    kept_s = reserved_s(ready.plan.confirm, 3_600.0)
    assert kept_s > 60
    kept = f"ablation of a winner {duration(kept_s)}"
    assert announced["of"].endswith(kept) == ablate


def test_an_ablation_is_not_cut_by_the_time_of_its_study() -> None:
    """An ablation uses the full plan's windows, since it has a time of its own."""
    made = rig(time_s=180.0)
    ready = calibrate(made.bench(), made.spec)
    winner = made.spec.known_good[0]
    ready.bench.store.add_configuration(ready.bench.describe(winner))
    confirm(ready, winner)
    whole = calibrate(made.bench(), replace(made.spec, economise=False))
    run_ablation(whole, made.spec.space, 60.0)
    protocol = made.record().ablation
    assert protocol is not None
    assert protocol.window_s == whole.plan.confirm.window_s > ready.plan.confirm.window_s
    assert winner != STOCK
