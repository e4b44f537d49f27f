"""The division of a load: the parts add up to the whole, and are independent of one another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.seeds import RARE, rng, shifted
from tuner.generators.share import WHOLE, Share

COUNTS = st.integers(1, 40)


def shares(count: int) -> list[Share]:
    """Return the share of each of several generators."""
    return [Share(place, count) for place in range(count)]


@given(COUNTS, st.integers(1, 100_000))
def test_connections_add_up(count: int, connections: int) -> None:
    """To the workload's number, and no generator has two more than another."""
    parts = [share.connections(connections) for share in shares(count)]
    assert sum(parts) == connections
    assert max(parts) - min(parts) <= 1


@given(COUNTS, st.floats(1e-3, 1e7))
def test_rates_add_up(count: int, rate_per_s: float) -> None:
    """To the offered rate."""
    assert sum(share.rate(rate_per_s) for share in shares(count)) == pytest.approx(rate_per_s)


@given(COUNTS, st.integers(0, 2**53 - 1))
def test_seeds_differ(count: int, seed: int) -> None:
    """Between generators, and from those of the next window; each is what a plan can hold."""
    seeds = [share.seed(s) for s in (seed, seed + 1) for share in shares(count)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**64 for seed in seeds)
    assert seeds[:count] == [share.seed(seed) for share in shares(count)]


def test_a_single_generator_has_everything() -> None:
    """With the very seed of the window, and equal gaps in the middle of their cells."""
    assert WHOLE.is_whole
    assert (WHOLE.seed(7), WHOLE.connections(5), WHOLE.rate(3.0)) == (7, 5, 3.0)
    assert WHOLE.phase == 0.5


@given(COUNTS, st.integers(1, 300))
def test_equal_gaps_interleave(count: int, number: int) -> None:
    """Instant j of every share, in units of the common gap, is one of a single generator."""
    each = [(np.arange(number) + share.phase) * count for share in shares(count)]
    found = np.sort(np.concatenate(each))
    assert found == pytest.approx(np.arange(count * number) + 0.5, abs=1e-9)


@given(COUNTS, st.lists(st.floats(0, 10), max_size=200))
def test_recorded_instants_are_dealt(count: int, instants: list[float]) -> None:
    """Each of them to one generator."""
    recorded = np.sort(np.array(instants, np.float64))
    dealt = np.concatenate([share.instants(recorded) for share in shares(count)])
    assert np.sort(dealt).tolist() == recorded.tolist()


@pytest.mark.parametrize("count", [2, 3])
def test_poisson_shares_add_up_to_a_poisson_process(count: int) -> None:
    """Gaps of the sum are exponential with the whole rate, and do not depend on one another.

    The shares are drawn from their own seeds. Kolmogorov and Smirnov's test and the correlation of
    successive gaps each reject a Poisson process with a probability of 1e-7.
    """
    number, gap = 40_000, 1.0
    seed = shifted(20)
    each = [
        np.cumsum(np.random.default_rng(share.seed(seed)).exponential(count * gap, number))
        for share in shares(count)
    ]
    until = min(instants[-1] for instants in each)
    merged = np.sort(np.concatenate(each))
    gaps = np.diff(merged[merged <= until])
    assert stats.kstest(gaps, "expon", args=(0, gap)).pvalue > RARE
    assert stats.spearmanr(gaps[:-1], gaps[1:]).pvalue > RARE


def test_shares_of_one_seed_would_be_seen() -> None:
    """The same test refuses generators that draw the same instants."""
    one = np.cumsum(rng(20).exponential(2.0, 40_000))
    gaps = np.diff(np.sort(np.concatenate([one, one + 1e-6])))
    assert stats.kstest(gaps, "expon").pvalue < RARE
