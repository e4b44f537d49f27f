"""An objective names a figure, its direction, and the requests that it needs."""

from __future__ import annotations

import math

import pytest

from tests.measurement.windows import raw_window, window
from tuner.errors import DefinitionError
from tuner.goals.objective import Objective
from tuner.measurement.gates import Gates
from tuner.measurement.measuring import measure


@pytest.mark.parametrize(
    ("name", "quantile", "mode", "unit", "samples"),
    [
        ("p50", 0.5, "open", "µs", 2_000),
        ("p75", 0.75, "open", "µs", 2_000),
        ("p99", 0.99, "open", "µs", 10_000),
        ("p99.5", 0.995, "open", "µs", 20_000),
        ("p99.9", 0.999, "open", "µs", 100_000),
        ("throughput", None, "closed", "requests/s", 1_000),
        ("cpu", None, "open", "µs", 1_000),
        ("memory", None, "open", "MiB", 1_000),
        ("capacity at p99 <= 5ms", None, "open", "requests/s", 2_000),
    ],
)
def test_each_objective(
    name: str, quantile: float | None, mode: str, unit: str, samples: int
) -> None:
    """A percentile needs an open loop and 100 requests beyond it; throughput a closed one."""
    objective = Objective.parse(name)
    assert objective.text == name
    assert objective.quantile == (None if quantile is None else pytest.approx(quantile))
    assert (objective.mode, objective.unit, objective.samples_needed) == (mode, unit, samples)


@pytest.mark.parametrize("text", ["p0", "p100", "p99.9999", "latency", "P99", ""])
def test_an_unknown_objective_is_refused_with_the_known_ones(text: str) -> None:
    """The message names the option and what is allowed."""
    with pytest.raises(DefinitionError, match=rf"--objective: .*'{text}'.*p50.*cpu, memory"):
        Objective.parse(text)


@pytest.mark.parametrize("slo", ["p99", "memory<5m", "p99 <= 2x baseline", "p99>5ms"])
def test_a_capacity_needs_a_latency_limit(slo: str) -> None:
    """An absolute one on a percentile."""
    with pytest.raises(DefinitionError, match="--slo: "):
        Objective.capacity(slo)
    with pytest.raises(DefinitionError, match="needs a latency limit"):
        Objective.parse("capacity")


def test_the_value_is_the_stall_free_percentile() -> None:
    """Each percentile is read from the stall-free distribution, any of them."""
    raw = raw_window([float(i) for i in range(1, 1001)])
    found = measure(raw, None, Gates(samples_needed=1))
    names = ("p50", "p90", "p99", "p99.9")
    assert {n: Objective(n).value(found) for n in names} == {
        "p50": 500,
        "p90": 900,
        "p99": 990,
        "p99.9": 999,
    }
    assert Objective("p75").value(found) == pytest.approx(750, rel=1e-3)
    assert Objective("p99.5").value(found) == pytest.approx(995, rel=1e-3)
    assert Objective("throughput").value(found) == 1000
    assert Objective("p99").ln(found) == pytest.approx(math.log(990))


def test_resources_are_those_of_the_server() -> None:
    """CPU by answered request, and resident memory; what cannot be read has no figure."""
    found = measure(raw_window(server_cpu_s=0.02), None, Gates(samples_needed=1))
    assert Objective("cpu").value(found) == pytest.approx(200.0)
    assert Objective("memory").value(found) == pytest.approx(1.0)
    blind = raw_window(server_cpu_s=None, server_rss_bytes=None)
    for name in ("cpu", "memory"):
        assert math.isnan(Objective(name).ln(measure(blind, None, Gates(samples_needed=1))))


def test_a_loss_is_negative_for_the_better() -> None:
    """A smaller latency and a larger throughput are both a negative loss."""
    better_latency, better_rate = math.log(0.9), math.log(1.1)
    assert Objective("p99").loss(better_latency) < 0
    assert Objective("throughput").loss(better_rate) < 0
    assert Objective.capacity("p99<5ms").loss(better_rate) < 0
    assert window("c1", 0, 50).valid
