"""The same comparison on several hosts: coverage, false claims, and the host that stands out."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import special

from tests import seeds
from tests.stats.conftest import Tolerance
from tests.stats.host_studies import HOSTS, MARGIN, NOISES, TAUS, row, simulated
from tuner.stats.hosts import across_hosts

BLOCKS = 12
NOISE = 0.05
SHORT, LONG = 300, 3_000
STUDIES = 2_000
"""Simulated studies behind each figure of the documented table."""
DOCS = Path(__file__).resolve().parents[2] / "docs" / "statistics.md"


def study(
    rng: np.random.Generator, hosts: int, *, mean: float = 0.0, tau: float = 0.0
) -> list[tuple[str, list[float]]]:
    """Block differences of hosts whose true ln ratios are drawn around ``mean``."""
    return [
        (f"h{place}", rng.normal(rng.normal(mean, tau), NOISE, BLOCKS).tolist())
        for place in range(hosts)
    ]


@pytest.mark.parametrize("hosts", [2, 3, 10])
@pytest.mark.parametrize("noise", NOISES)
def test_hosts_of_unequal_noise_keep_the_level(hosts: int, noise: str) -> None:
    """At most 5 % of intervals miss, of studies name an outlier, find equal hosts different."""
    most = Tolerance(SHORT).most(0.05)
    for place, tau in enumerate(TAUS):
        found = simulated(10 * hosts + place, SHORT, hosts, noise, tau=tau)
        assert max(found.missed, found.named, found.surprised * (hosts > 2)) <= most
        # Welch's F is an approximation; its level is 6 % at worst.
        assert tau > 0 or found.differ <= Tolerance(SHORT).most(0.06)


@pytest.mark.parametrize("ratio", [1 - MARGIN, 1.0])
def test_better_is_rarely_false_over_hosts(ratio: float) -> None:
    """In at most 2.5 % of studies, even if the mean ratio is on the margin."""
    found = simulated(30, LONG // 3, 3, "one quiet", tau=0.05, ratio=ratio)
    assert found.better <= Tolerance(LONG // 3).most(0.025)


def test_weights_by_variance_claim_too_much() -> None:
    """Why hosts count alike: with the usual weights, quiet hosts decide."""
    found = simulated(40, LONG, 3, "one quiet", tau=0.05)
    # 14 % of studies; a tenth is six standard errors below.
    assert found.weighted > 0.10 * LONG
    assert found.missed <= Tolerance(LONG).most(0.05)


@pytest.mark.parametrize("hosts", [2, 5, 10, 14])
def test_equal_hosts_are_the_worst_case(hosts: int) -> None:
    """Hosts without noise only lower the level, exactly so for m noisy ones among k.

    With m of k means at 0, t is a function of the ratio of their sum to the root of their sum of
    squares, whose distribution is that of m means alone (Ibragimov and Müller 2010).
    """
    for level in (0.05, 0.10):
        t2 = special.stdtrit(hosts - 1, 1 - level / 2) ** 2
        share = hosts * t2 / (hosts - 1 + t2)
        for noisy in range(2, hosts):
            if share < noisy:
                t = math.sqrt(share * (noisy - 1) / (noisy - share))
                assert 2 * special.stdtr(noisy - 1, -t) <= level


@pytest.mark.proof
@pytest.mark.parametrize("hosts", HOSTS)
def test_the_documented_table_of_hosts_is_simulated(hosts: int) -> None:
    """Level and power for 2 to 10 hosts; ACCEPT_GOLDEN=1 writes the row anew."""
    found = row(hosts, STUDIES)
    text = DOCS.read_text(encoding="utf-8")
    (line,) = re.findall(rf"^\| {hosts} hosts \|.*$", text, re.MULTILINE)
    if os.environ.get("ACCEPT_GOLDEN"):
        cells = " | ".join(f"{share:.1f} %" for share in found)
        DOCS.write_text(text.replace(line, f"| {hosts} hosts | {cells} |"), encoding="utf-8")
        return
    kept = [float(share) for share in re.findall(r"([\d.]+) %", line)]
    assert len(kept) == len(found)
    for then, now in zip(kept, found, strict=True):
        # Both are of as many studies; a largest share of several is no noisier than its worst one.
        share = min(0.5, max(then, now, 5.0) / 100)
        error = 100 * math.sqrt(2 * share * (1 - share) / STUDIES)
        assert abs(then - now) <= seeds.SIGMAS * error
    assert found[0] <= 100 * Tolerance(STUDIES).most(0.05) / STUDIES
    assert found[3] <= 100 * Tolerance(STUDIES).most(0.05) / STUDIES


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


def test_hosts_that_agree_by_chance_prove_no_more_than_their_blocks() -> None:
    """Two noisy hosts with the same estimate: the interval is that of their blocks."""
    d = [-0.3, -0.1, -0.2, 0.0, -0.15, -0.05, -0.25, 0.05]
    found = across_hosts([("a", d), ("b", d)])
    noise = math.sqrt(sum(host.variance for host in found.hosts)) / 2
    assert math.log(found.high / found.low) == pytest.approx(2 * 1.959964 * noise)
    assert (found.high < 1) == (found.p_value < 0.05)


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
    """Too little data gives no figure, and names what is missing."""
    with pytest.raises(ValueError, match=words):
        across_hosts(rows)
