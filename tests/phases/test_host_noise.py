"""The noise of a host, from one short block of identical instances."""

from __future__ import annotations

import statistics
from typing import Any

import pytest

from tests.phases.rig import QUIET, all_the_same, blocks, rig
from tuner.errors import HostError
from tuner.judge.claimable import claimable
from tuner.phases.host_noise import HostNoise, measure_noise
from tuner.testing.lab import Faults
from tuner.testing.simulate import Noise, SimulatedStalls


def measured(seed: int = 1, **changes: Any) -> HostNoise:
    """Return the measurement of a simulated host."""
    made = rig(truth=all_the_same, seed=seed, **changes)
    return measure_noise(made.bench(), 600.0)


def test_it_takes_some_twenty_seconds_and_no_search() -> None:
    """A capacity, then one block of the baseline and three twins."""
    made = rig(truth=all_the_same)
    begun_s = made.host.now_s
    measure_noise(made.bench(), 600.0)
    assert made.host.now_s - begun_s < 30
    phases = [block.phase for block in made.record().blocks]
    assert phases == ["capacity", "capacity", "aa"]
    (block,) = blocks(made.record(), "aa")
    assert [i.instance for i in block.instances] == ["baseline", "twin1", "twin2", "twin3"]


def test_starts_that_settle_apart_are_seen_whole() -> None:
    """Starts 5 % apart give differences of 7 %, however many windows a block has."""
    noise = Noise(ar_sd=0.0, restart_sd=0.05, burst_probability=0.0)
    sigmas = [measured(seed, noise=noise, median_us=100.0).sigma_d for seed in range(1, 9)]
    # 24 degrees of freedom: 28 % either way in 95 of 100 such tests.
    assert statistics.fmean(s**2 for s in sigmas) ** 0.5 == pytest.approx(0.071, rel=0.35)


def test_a_noisier_host_lets_claim_less() -> None:
    """Quiet, restless, and at its worst."""
    hosts = (QUIET, Noise(restart_sd=0.05, burst_probability=0.0), Noise(restart_sd=0.15))
    effects = [claimable(measured(noise=noise).sigma_d).effect for noise in hosts]
    assert effects == sorted(effects)
    assert effects[0] < 0.10 < effects[-1]


def test_the_share_that_stalls_touch_is_reported() -> None:
    """A host without stalls has none but at the ends of windows."""
    assert measured().touched_share < 0.001
    assert measured(stalls=SimulatedStalls(per_s=4.0, mean_us=2_000.0)).touched_share > 0.01


def test_a_host_on_which_no_block_is_valid_gets_the_reason() -> None:
    """After attempts at lower rates, and without an endless repetition."""
    # The capacity has six windows; everything after it fails.
    made = rig(truth=all_the_same, faults=Faults(failing=range(6, 10_000)))
    with pytest.raises(HostError, match=r"at 1,800/s the baseline fails: .* requests failed"):
        measure_noise(made.bench(), 600.0)
    assert len(blocks(made.record(), "capacity")) == 4
