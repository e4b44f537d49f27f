"""The same comparison on several hosts: coverage, false claims, and the host that stands out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests import seeds
from tests.stats.conftest import Tolerance
from tuner.stats.hosts import across_hosts

BLOCKS = 12
NOISE = 0.05
SHORT, LONG = 300, 3_000


def study(
    rng: np.random.Generator, hosts: int, *, mean: float = 0.0, tau: float = 0.0
) -> list[tuple[str, list[float]]]:
    """Block differences of hosts whose true ln ratios are drawn around ``mean``."""
    return [
        (f"h{place}", rng.normal(rng.normal(mean, tau), NOISE, BLOCKS).tolist())
        for place in range(hosts)
    ]


def rates(studies: int, hosts: int, tau: float) -> tuple[float, float, float]:
    """Shares of studies: true mean covered, new host predicted, somebody called an outlier."""
    rng = seeds.rng(100_000 * hosts + round(1000 * tau))
    covered = predicted = named = 0
    mean = math.log(0.9)
    for _ in range(studies):
        found = across_hosts(study(rng, hosts, mean=mean, tau=tau))
        covered += found.low <= 0.9 <= found.high
        new = math.exp(rng.normal(mean, tau))
        predicted += found.prediction is not None and (
            found.prediction[0] <= new <= found.prediction[1]
        )
        named += bool(found.outliers)
    return covered / studies, predicted / studies, named / studies


@pytest.mark.parametrize("hosts", [2, 3, 8])
@pytest.mark.parametrize("tau", [0.0, 0.1])
def test_the_interval_covers_the_mean_over_hosts(hosts: int, tau: float) -> None:
    """At least nominally, with two hosts too, whether they differ or not."""
    covered, _, _ = rates(SHORT, hosts, tau)
    assert covered * SHORT >= Tolerance(SHORT).least(0.95)


@pytest.mark.proof
@pytest.mark.parametrize("hosts", [2, 3, 5, 12])
@pytest.mark.parametrize("tau", [0.0, 0.05, 0.2])
def test_coverage_prediction_and_outliers_at_length(hosts: int, tau: float) -> None:
    """95 % of the means, about 95 % of new hosts, at most 5 % of studies with a false outlier."""
    covered, predicted, named = rates(LONG, hosts, tau)
    assert covered * LONG >= Tolerance(LONG).least(0.95)
    assert named * LONG <= Tolerance(LONG).most(0.05)
    if hosts >= 5:
        assert predicted >= 0.92


def test_blocks_of_all_hosts_in_one_heap_claim_too_much() -> None:
    """Why hosts are the unit: of hosts that differ, pooled blocks are often wrong."""
    rng = seeds.rng(4)
    heap = own = 0
    for _ in range(SHORT):
        rows = study(rng, 5, tau=0.1)
        d = np.concatenate([row for _, row in rows])
        heap += abs(d.mean()) > 2 * d.std(ddof=1) / math.sqrt(d.size)
        found = across_hosts(rows)
        own += not found.low <= 1 <= found.high
    assert heap / SHORT > 0.3
    assert own <= Tolerance(SHORT).most(0.05)


def test_a_host_on_which_the_gain_turns_round_is_named() -> None:
    """Six hosts gain 20 %, one loses 30 %."""
    rng = np.random.default_rng(5)
    rows = study(rng, 6, mean=math.log(0.8))
    rows.append(("odd", rng.normal(math.log(1.3), NOISE, BLOCKS).tolist()))
    found = across_hosts(rows)
    assert found.outliers == ("odd",)
    assert found.q_p < 0.001
    assert found.i_squared > 0.8


def test_equal_hosts_differ_by_noise_alone() -> None:
    """Then the spread is nothing, and the weights are equal."""
    d = [0.01, -0.02, 0.03, -0.01, 0.02, -0.03]
    found = across_hosts([("a", d), ("b", d), ("c", d)])
    assert found.tau == 0.0
    assert found.i_squared == 0.0
    assert found.q == pytest.approx(0.0, abs=1e-9)
    assert [host.weight for host in found.hosts] == pytest.approx([1 / 3] * 3)


def test_more_blocks_on_the_same_hosts_do_not_narrow_what_hosts_leave_open() -> None:
    """The number of hosts is the sample size."""
    rng = np.random.default_rng(6)
    levels = [-0.3, -0.1, -0.2, 0.0]
    few = across_hosts([(f"h{i}", rng.normal(m, 0.02, 8)) for i, m in enumerate(levels)])
    many = across_hosts([(f"h{i}", rng.normal(m, 0.02, 200)) for i, m in enumerate(levels)])
    assert math.log(many.high / many.low) > 0.8 * math.log(few.high / few.low)


def test_arms_swapped_give_the_reciprocal() -> None:
    """No direction is preferred."""
    rows = study(np.random.default_rng(7), 4, mean=-0.2, tau=0.05)
    one = across_hosts(rows)
    other = across_hosts([(name, [-value for value in d]) for name, d in rows])
    assert other.ratio == pytest.approx(1 / one.ratio)
    assert (other.low, other.high) == pytest.approx((1 / one.high, 1 / one.low))
    assert other.p_value == pytest.approx(one.p_value)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([("a", [0.1, 0.2])], "at least two hosts"),
        ([("a", [0.1, 0.2]), ("b", [0.1])], "'b' has 1 block"),
        ([("a", [0.1, 0.2]), ("b", [0.1, math.nan])], "finite"),
    ],
)
def test_too_little_gives_no_figure(rows: list[tuple[str, list[float]]], words: str) -> None:
    """It says what is missing."""
    with pytest.raises(ValueError, match=words):
        across_hosts(rows)
