"""One configuration by itself: its level and its windows follow what the host shows."""

from __future__ import annotations

from dataclasses import replace

from tests.phases.rig import GetsNoisy, Rig, all_the_same, blocks, rig
from tuner.phases.measure import Measured, measure_one


def _measured(made: Rig) -> Measured:
    spec = replace(made.spec, rate_per_s=2_000.0, time_s=600.0)
    return measure_one(made.bench(), spec)


def test_a_quiet_host_is_measured_once() -> None:
    """After the probe, one block."""
    made = rig(truth=all_the_same)
    assert all(window.valid for window in _measured(made).windows)
    assert len(blocks(made.record(), "aa")) == 1


def test_a_host_that_gets_noisy_after_the_probe_is_measured_again() -> None:
    """The windows show what a request is worth there, and those of the next block are longer."""
    made = rig(truth=all_the_same)
    made.progress = GetsNoisy(host=made.host, at="measuring")
    found = _measured(made).windows
    first, *_, last = blocks(made.record(), "aa")
    assert not any(window.valid for window in first.windows)
    assert any(window.valid for window in found)
    assert found == last.windows
    assert found[0].duration_s > first.windows[0].duration_s
