"""The simulated lab keeps its promises: what is put in comes out of the windows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.phases.rig import SPACE, STOCK, WORKLOAD
from tuner.generators.generator import Endpoint, WindowSpec
from tuner.measurement.gates import Gates
from tuner.measurement.measuring import measure
from tuner.measurement.stalls import StallRule
from tuner.measurement.window import Measurement
from tuner.space.configuration import Configuration
from tuner.testing.lab import Effect, Faults, SimulatedDeployer, SimulatedHost
from tuner.testing.simulate import Noise, SimulatedStalls

SILENT = Noise(ar_sd=0.0, restart_sd=0.0, burst_probability=0.0)
FAST = SPACE.complete({"fast": True}, STOCK)


def windows(
    host: SimulatedHost,
    configuration: Configuration = STOCK,
    *,
    count: int = 1,
    rate: float = 2_000,
) -> list[Measurement]:
    """Return windows of two seconds of one instance, judged with the stall rule."""
    port = host.free_ports(1)[0]
    SimulatedDeployer(host).deploy([host.instance("one", configuration, port)])
    endpoint = Endpoint("one", f"127.0.0.1:{port}")
    specs = [WindowSpec(f"{n:02d}-one", "one", "open", rate, n, 0.1, 2.0) for n in range(count)]
    raw = [host.measure(WORKLOAD, endpoint, spec) for spec in specs]
    return [measure(window, StallRule(), Gates(samples_needed=1)) for window in raw]


def test_an_effect_moves_every_percentile() -> None:
    """By the factor that the truth says."""
    made = SimulatedHost(
        truth=lambda v: Effect(ln_latency=math.log(0.7) * bool(v["fast"])), noise=SILENT
    )
    (stock,), (fast,) = windows(made), windows(made, FAST)
    for name in ("p50", "p90", "p99"):
        ratio = fast.stall_free.value_us(name) / stock.stall_free.value_us(name)
        assert ratio == pytest.approx(0.7, rel=0.15), name


def test_the_median_is_the_one_asked_for() -> None:
    """Without noise, half of the body is below it."""
    (window,) = windows(SimulatedHost(noise=SILENT, median_us=250.0, tail_share=0.0))
    assert window.stall_free.p50_us == pytest.approx(250, rel=0.05)


def test_a_tail_is_heavy() -> None:
    """The last percent lies far beyond the body."""
    (without,) = windows(SimulatedHost(noise=SILENT, tail_share=0.0))
    (with_tail,) = windows(SimulatedHost(noise=SILENT, tail_share=0.05))
    assert with_tail.stall_free.p999_us > 2 * without.stall_free.p999_us
    assert with_tail.stall_free.p50_us == pytest.approx(without.stall_free.p50_us, rel=0.1)


def test_stalls_are_felt_and_reported_and_the_rule_takes_them_out() -> None:
    """The raw p99 is theirs; the stall-free one is that of a quiet host."""
    (quiet,) = windows(SimulatedHost(noise=SILENT, tail_share=0.0))
    stalled = windows(
        SimulatedHost(noise=SILENT, tail_share=0.0, stalls=SimulatedStalls(4, 8_000)), count=5
    )
    for window in stalled:
        assert window.generator_spans
        assert window.server_spans
        assert 0 < window.excluded_share < 0.5
        assert window.raw.p99_us > 10 * quiet.raw.p99_us
        assert window.stall_free.p99_us == pytest.approx(quiet.stall_free.p99_us, rel=0.2)


def test_windows_of_one_start_share_its_level() -> None:
    """And another start settles elsewhere: windows do not replace restarts."""
    made = SimulatedHost(noise=Noise(0.0, 0.8, 0.0, 0.3, 0.0), tail_share=0.0)
    starts = [[math.log(w.stall_free.p50_us) for w in windows(made, count=4)] for _ in range(12)]
    within = float(np.mean([np.std(start) for start in starts]))
    between = float(np.std([np.mean(start) for start in starts]))
    assert between > 5 * within


def test_the_host_drifts() -> None:
    """By the amount that was asked for, from window to window."""
    made = SimulatedHost(noise=Noise(0.02, 0.0, 0.0, 0.0, 0.0), tail_share=0.0)
    found = [math.log(w.stall_free.p50_us) for w in windows(made, count=30)]
    assert (found[-1] - found[0]) / 29 == pytest.approx(0.02, rel=0.15)


def test_more_than_the_capacity_makes_a_queue() -> None:
    """The window is invalid, by the configuration's own fault."""
    made = SimulatedHost(truth=lambda _: Effect(capacity_per_s=1_500.0), noise=SILENT)
    (over,), (under,) = windows(made, rate=2_000), windows(made, rate=1_000)
    assert over.bad
    assert "achieved less than offered" in over.invalid[0]
    assert over.raw.p99_us > 100_000
    assert under.valid


def test_time_is_virtual() -> None:
    """A deployment and the windows take what they say, and no time at all."""
    made = SimulatedHost()
    before = made.now_s
    windows(made, count=10)
    assert made.now_s - before == pytest.approx(1.3 + 10 * 2.1)


def test_the_same_seed_gives_the_same_samples() -> None:
    """And another one others."""
    one, same, other = (windows(SimulatedHost(seed=seed))[0] for seed in (1, 1, 2))
    assert one == same
    assert one.raw.hdr != other.raw.hdr


@pytest.mark.parametrize(
    ("faults", "words", "bad"),
    [
        (Faults(failing={1}), "requests failed", True),
        (Faults(starved={1}), "could not keep up", False),
    ],
)
def test_faults_strike_where_requested(faults: Faults, words: str, bad: bool) -> None:
    """A fault affects its window and no other."""
    found = windows(SimulatedHost(faults=faults, noise=SILENT), count=3)
    assert [w.valid for w in found] == [True, False, True]
    assert words in "; ".join(found[1].invalid)
    assert found[1].bad == bad
