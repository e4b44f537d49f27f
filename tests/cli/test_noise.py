"""The host's noise: one scale in ``doctor``, in the notes before a study, and in its report."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Tuner
from tests.phases.rig import rig
from tuner.app.notes import noise_notes
from tuner.cli import doctor
from tuner.judge.claimable import ESTIMATED, MEASURED, CoreSpeed, CoreStalls, from_stalls
from tuner.judge.results import evaluate
from tuner.testing.lab import Faults, SimulatedGenerator, SimulatedHost
from tuner.testing.simulate import Noise

Watch = Callable[[float, float], None]


STEADY = CoreSpeed(1, 0.0, 0.02)
"""A core that is always as fast."""


def stalls(per_s: float, share: float) -> tuple[CoreStalls, ...]:
    """Return two cores with the same stalls."""
    return tuple(CoreStalls(cpu, per_s, share, 2_700.0) for cpu in (0, 1))


@dataclass(frozen=True)
class Watcher:
    """A generator on a host with such stalls."""

    per_s: float
    share: float

    def stalls(self, duration_s: float) -> Mapping[str, Any]:
        """Implement ``WatchesStalls.stalls``."""
        seen = {"count": self.per_s * duration_s, "share": self.share, "longest_us": 2_700.0}
        return {
            "realtime": True,
            "gap_us": 100,
            "cpus": [{"cpu": cpu, "ticker": seen, "spin": seen} for cpu in (0, 1)],
        }


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch, host: SimulatedHost) -> Watch:
    """Let ``doctor`` watch such stalls, and measure on the simulated host."""
    monkeypatch.setattr(doctor, "_native", lambda *_: SimulatedGenerator(host))
    monkeypatch.setattr(doctor, "loadgen_binary", lambda: Path("/usr/bin/tuner-loadgen"))
    monkeypatch.setattr(doctor, "_self_test", list)
    monkeypatch.setattr(doctor, "speeds_here", lambda: (STEADY,))

    def watched(per_s: float, share: float) -> None:
        monkeypatch.setattr(doctor, "watched_stalls", lambda _: stalls(per_s, share))

    return watched


def noise_row(tuner: Tuner, *options: str) -> dict[str, Any]:
    """Return the row of the noise in ``doctor --json``."""
    rows = json.loads(tuner("doctor", "--json", *options).out)
    assert all({"what", "state", "text"} <= row.keys() for row in rows)
    return next(row for row in rows if row["what"] == "noise")


@pytest.mark.parametrize(
    ("per_s", "share", "state"),
    [(0.5, 0.0, "ok"), (60.0, 0.3, "warning"), (90.0, 0.946, "warning")],
)
def test_the_quick_doctor_says_what_the_stalls_let_claim(
    tuner: Tuner, watch: Watch, per_s: float, share: float, state: str
) -> None:
    """Not ok at 94.6 % nor at 30 % of the time in stalls; ok at 0.0 %."""
    watch(per_s, share)
    row = noise_row(tuner, "--quick")
    found = from_stalls(stalls(per_s, share))
    assert (row["state"], row["claimable_effect"]) == (state, found.effect)
    assert row["text"] == f"estimated from the cores' stalls and speed: {found.words}"
    assert ("not less than" in row["text"]) == (state == "ok"), "stalls make the most of the others"
    assert ("come back when the host is quieter" in row["text"]) == (state == "warning")


def test_the_quick_doctor_times_the_servers_core(
    tuner: Tuner, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A core that is sometimes half as fast makes noise, even if it never stalls."""
    watch(0.0, 0.0)
    steady = noise_row(tuner, "--quick")
    speed = CoreSpeed(1, 0.7, 0.02)
    monkeypatch.setattr(doctor, "speeds_here", lambda: (STEADY, speed))
    row = noise_row(tuner, "--quick")
    assert (steady["state"], row["state"]) == ("ok", "warning")
    assert (steady["speed_change"], row["speed_change"]) == (0.0, 0.7)
    assert f"core 1: {speed.words}" in tuner("doctor", "--quick").out


def test_the_doctor_measures_identical_instances(
    tuner: Tuner, watch: Watch, host: SimulatedHost
) -> None:
    """On a host without stalls that is restless all the same, which watching does not show."""
    watch(0.0, 0.0)
    assert noise_row(tuner)["state"] == "ok"
    host.noise = Noise(ar_sd=0.0, restart_sd=0.2, burst_probability=0.0)
    row = noise_row(tuner)
    assert row["state"] == "warning"
    assert row["sigma_d"] > 0.05
    assert row["study_s"] == 600
    assert row["rate_per_s"] > 1_000
    done = tuner("doctor")
    assert "in 10 min: " in done.out
    assert "identical instances differ by" in done.out
    assert "noise of identical instances, about" in done.err, "progress is shown"
    assert not host.running


def test_a_host_that_spoils_every_block_is_a_warning_with_the_reason(
    tuner: Tuner, watch: Watch, host: SimulatedHost
) -> None:
    """And no traceback, nor a missing part."""
    watch(0.0, 0.0)
    host.faults = Faults(failing=range(6, 10_000))
    row = noise_row(tuner)
    assert row["state"] == "warning"
    assert "identical instances cannot be measured here" in row["text"]


def test_a_quiet_host_has_no_note() -> None:
    """Nor has its report."""
    assert noise_notes(Watcher(0.5, 0.0)) == []


def test_the_note_before_a_study_has_the_words_of_the_doctor() -> None:
    """One scale: the same effect, the same advice."""
    (note,) = noise_notes(Watcher(60.0, 0.3))
    assert note == ESTIMATED + from_stalls(stalls(60.0, 0.3)).words


def test_in_the_report_measured_noise_takes_the_place_of_the_estimate() -> None:
    """A quiet study loses the note; a noisy one has it with its own figure."""
    estimate = f"{ESTIMATED}about 40% in 10 min"
    quiet, noisy = rig(time_s=600.0, trials=1), rig(noise=Noise(restart_sd=0.1))
    for made, expected in ((quiet, 0), (noisy, 1)):
        record = replace(made.run(), notes=(estimate, "another note"))
        warnings = evaluate(record).warnings
        assert estimate not in warnings
        assert "another note" in warnings
        assert sum(text.startswith(MEASURED) for text in warnings) == expected


def test_a_study_that_was_never_calibrated_keeps_the_estimate() -> None:
    """Nothing better is known."""
    made = rig()
    made.store()
    estimate = f"{ESTIMATED}about 40% in 10 min"
    assert estimate in evaluate(replace(made.record(), notes=(estimate,))).warnings
