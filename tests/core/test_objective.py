"""What is minimised or maximised, and how many requests it takes to see it."""

from __future__ import annotations

import math

import pytest

from tests.core.windows import raw_window, window
from tuner.errors import DefinitionError
from tuner.measurement import Gates, measure
from tuner.objective import NAMES, Objective


@pytest.mark.parametrize(
    ("name", "quantile", "mode", "unit", "samples"),
    [
        ("p50", 0.5, "open", "µs", 2_000),
        ("p90", 0.9, "open", "µs", 2_000),
        ("p99", 0.99, "open", "µs", 10_000),
        ("p99.9", 0.999, "open", "µs", 100_000),
        ("throughput", None, "closed", "requests/s", 1_000),
    ],
)
def test_each_objective(
    name: str, quantile: float | None, mode: str, unit: str, samples: int
) -> None:
    """A percentile needs an open loop and 100 requests beyond it; throughput a closed one."""
    objective = Objective.parse(name)
    assert objective.quantile == (None if quantile is None else pytest.approx(quantile))
    assert (objective.mode, objective.unit, objective.samples_needed) == (mode, unit, samples)


def test_every_name_that_is_allowed_is_tested_here() -> None:
    """A new objective needs a row above."""
    assert NAMES == ("p50", "p90", "p99", "p99.9", "throughput")


def test_an_unknown_objective_is_refused_with_the_known_ones() -> None:
    """The message names the option and what is allowed."""
    with pytest.raises(DefinitionError, match=r"--objective: .*'p95'.*p50, p90, p99, p99.9"):
        Objective.parse("p95")


def test_the_value_is_the_stall_free_percentile() -> None:
    """Each percentile is read from the stall-free distribution."""
    raw = raw_window([float(i) for i in range(1, 1001)])
    found = measure(raw, None, Gates(samples_needed=1))
    values = {name: Objective(name).value(found) for name in NAMES[:4]}
    assert values == {"p50": 500, "p90": 900, "p99": 990, "p99.9": 999}
    assert Objective("throughput").value(found) == 1000
    assert Objective("p99").ln(found) == pytest.approx(math.log(990))


def test_a_loss_is_negative_for_the_better() -> None:
    """A smaller latency and a larger throughput are both a negative loss."""
    better_latency, better_rate = math.log(0.9), math.log(1.1)
    assert Objective("p99").loss(better_latency) < 0
    assert Objective("throughput").loss(better_rate) < 0
    assert window("c1", 0, 50).valid
