"""The sequential test: false claims under any looking, coverage, cost, and its own algebra."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import seeds
from tests.seeds import simulate
from tests.stats.conftest import Tolerance
from tuner.judge.plan import Design
from tuner.stats.margin import DEFAULT_BAND, NO_MARGIN, Margin
from tuner.stats.paired import FloatArray, estimate
from tuner.stats.power import blocks_needed
from tuner.stats.sequential import (
    LEAST_WATCHED,
    Stakes,
    e_value,
    log_mixtures,
    looks,
    normal_mixture_log_e,
    sequential_estimate,
    tuned_rho,
    tuned_stakes,
    watched,
)
from tuner.stats.verdict import VerdictKind, judge
from tuner.testing.simulate import Noise

GAUSSIAN = Noise(ar_sd=0.0, restart_sd=0.1 / np.sqrt(2), burst_probability=0.0)
"""Independent normal noise with sigma_d = 0.10."""
STAKES = tuned_stakes(0.10, 12)
"""Looks at the whole level, as of earlier versions."""
WATCHED = watched(0.10, 30)
"""Looks at a fifth of it, and an exact test after 30 blocks."""
UNBOUNDED = Stakes(tuned_rho(0.10, 12))
"""The test of earlier versions."""

some_differences = st.lists(st.floats(-0.5, 0.5), min_size=6, max_size=20)


def ever_reject(d: FloatArray, stakes: Stakes, level: float = 0.05) -> int:
    """Return how many studies (rows) ever reach an e-value of 1 / level, at any look."""
    evidence = np.maximum(log_mixtures(d, stakes), log_mixtures(-d, stakes))
    return int(np.count_nonzero(evidence.max(axis=-1) >= math.log(2 / level)))


@dataclass(frozen=True, slots=True)
class Stops:
    """Stops of studies that end at their first safe claim; shape (studies,)."""

    blocks: FloatArray
    """Blocks until the stop; all of them where nothing was claimed."""
    better: int
    worse: int
    equivalent: int


def stops(d: FloatArray, stakes: Stakes, margin: Margin) -> Stops:
    """The rule of `judge` after every block of many studies, by the martingales at the margins.

    Studies stop here at any width of the interval, and so have more chances of a claim.
    """
    low, high = math.log(margin.low), math.log(margin.high)
    limit, inner = math.log(2 / (stakes.share * 0.05)), math.log(2 / (stakes.share * 0.10))
    claims = np.stack(
        [
            log_mixtures(low - d, stakes) >= limit,
            log_mixtures(d - high, stakes) >= limit,
            (log_mixtures(d - low, stakes) >= inner) & (log_mixtures(high - d, stakes) >= inner),
        ]
    )
    if stakes.last is not None:
        claims[:, :, -1] = last_claims(d, stakes, margin)
    stopped = np.logical_or.reduce(claims)
    first = np.where(stopped.any(axis=1), stopped.argmax(axis=1), d.shape[1] - 1)
    kinds = claims[:, np.arange(len(d)), first]
    better, worse, equivalent = (int(np.count_nonzero(kind)) for kind in kinds)
    return Stops(first + 1.0, better, worse, equivalent)


def last_claims(d: FloatArray, stakes: Stakes, margin: Margin) -> npt.NDArray[np.bool_]:
    """Return whether each study is better, worse, or equivalent after the last block."""
    kinds = [
        judge(row, margin=margin, minimum_detectable_effect=0.1, stakes=stakes).kind for row in d
    ]
    wanted = (VerdictKind.BETTER, VerdictKind.WORSE, VerdictKind.EQUIVALENT)
    return np.array([[kind is one for kind in kinds] for one in wanted])


@pytest.mark.parametrize("drift", [0.0, 0.01])
@pytest.mark.parametrize("burst_scale", [0.1, 1.0])
def test_peeking_after_every_block_keeps_the_level(
    drift: float, burst_scale: float, studies: int, tolerance: Tolerance
) -> None:
    """At most 5 % of A/A studies reject at any look of 50, one after each block."""
    noise = Noise(drift_per_window=drift, burst_scale=burst_scale)
    d = simulate(71, studies=studies, blocks=50, ratios=(1.0, 1.0), noise=noise).differences()
    assert ever_reject(d, STAKES) <= tolerance.most(0.05)


@pytest.mark.parametrize("misjudged", [0.3, 3.0])
def test_a_wrong_guess_of_the_noise_is_no_false_claim(
    misjudged: float, studies: int, tolerance: Tolerance
) -> None:
    """The level holds where calibration misjudged sigma_d by a factor of three; speed is lost."""
    d = simulate(72, studies=studies, blocks=50, ratios=(1.0, 1.0)).differences()
    assert ever_reject(d, tuned_stakes(misjudged * 0.10, 12)) <= tolerance.most(0.05)


@pytest.mark.parametrize("ratio", [0.7, 0.9, 1.0])
def test_all_intervals_hold_the_truth_at_once(
    ratio: float, studies: int, tolerance: Tolerance
) -> None:
    """In at least 95 % of studies none of the intervals after 1 to 30 blocks misses the truth."""
    windows = simulate(73, studies=studies, blocks=30, ratios=(1.0, ratio))
    missed = ever_reject(windows.differences() - math.log(ratio), STAKES)
    assert studies - missed >= tolerance.least(0.95)


@pytest.mark.parametrize("stakes", [STAKES, WATCHED], ids=["looks alone", "with a last test"])
@pytest.mark.parametrize("ratio", [1 / 1.03, 1.0, 1.03])
def test_stopping_at_the_first_claim_is_safe(
    ratio: float, stakes: Stakes, studies: int, tolerance: Tolerance
) -> None:
    """Better is claimed wrongly in at most 2.5 % of studies, even right at the margin."""
    d = simulate(74, studies=studies, blocks=30, ratios=(1.0, ratio)).differences()
    found = stops(d, stakes, DEFAULT_BAND)
    assert found.better <= tolerance.most(0.025)
    assert found.worse <= tolerance.most(0.025)


@pytest.mark.parametrize(
    "stakes", [tuned_stakes(0.04, 20), watched(0.04, 40)], ids=["looks alone", "with a last test"]
)
def test_stopping_at_equivalence_is_safe(
    stakes: Stakes, studies: int, tolerance: Tolerance
) -> None:
    """A difference that just reaches the margin is ever called equivalent in at most 5 %."""
    noise = Noise(ar_sd=0.02, restart_sd=0.02)
    d = simulate(75, studies=studies, blocks=40, ratios=(1.0, 1.05), noise=noise).differences()
    assert stops(d, stakes, Margin(0.05)).equivalent <= tolerance.most(0.05)


@pytest.mark.parametrize("sigma_d", [0.12, 0.16])
def test_looks_cost_no_power(sigma_d: float, studies: int, tolerance: Tolerance) -> None:
    """Planned for 80 %, it finds a gain of 10 % in 80 % of studies, in fewer blocks than planned.

    A gain twice as large ends in three quarters of the blocks or fewer.
    """
    n = blocks_needed(sigma_d, 0.10, level=0.04)
    assert n >= LEAST_WATCHED
    noise = replace(GAUSSIAN, restart_sd=sigma_d / math.sqrt(2))

    def found(ratio: float) -> tuple[int, float]:
        windows = simulate(76, studies=studies, blocks=n, ratios=(1.0, ratio), noise=noise)
        ends = stops(windows.differences(), watched(sigma_d, n), NO_MARGIN)
        return ends.better, float(ends.blocks.mean())

    better, blocks = found(0.90)
    assert better >= tolerance.least(0.80)
    assert blocks < n
    better, blocks = found(0.80)
    assert better >= tolerance.least(0.99)
    assert blocks < 3 / 4 * n


def test_looks_alone_would_need_more_blocks(studies: int) -> None:
    """In as many blocks as the fixed design plans, they find a gain of 10 % less often."""
    n = blocks_needed(0.12, 0.10, level=0.04)
    noise = replace(GAUSSIAN, restart_sd=0.12 / math.sqrt(2))
    windows = simulate(78, studies=studies, blocks=n, ratios=(1.0, 0.90), noise=noise)
    alone, both = (
        stops(windows.differences(), stakes, NO_MARGIN).better
        for stakes in (tuned_stakes(0.12, n / 1.8), watched(0.12, n))
    )
    assert both > alone


@pytest.mark.parametrize("stakes", [STAKES, watched(0.10, 16)], ids=["looks alone", "both"])
@pytest.mark.parametrize("ratio", [0.9, 1.0, 1.1])
def test_the_stops_are_those_of_the_verdict(ratio: float, stakes: Stakes) -> None:
    """The martingales at the margins say the same as the intervals that `judge` looks at."""
    noise = Noise(ar_sd=0.01, restart_sd=0.01)
    d = simulate(77, studies=6, blocks=16, ratios=(1.0, ratio), noise=noise).differences()
    ends = stops(d, stakes, Margin(0.05))
    for row, n in zip(d, ends.blocks.astype(int), strict=True):
        kinds = [
            judge(row[:k], margin=Margin(0.05), minimum_detectable_effect=0.1, stakes=stakes).kind
            for k in range(1, n + 1)
        ]
        assert set(kinds[:-1]) <= {VerdictKind.INCONCLUSIVE}
        assert n == len(row) or kinds[-1] is not VerdictKind.INCONCLUSIVE


def test_literals() -> None:
    """Six equal signs of a large effect double unbounded stakes six times: e = 2^6 / 2 = 32.

    The divisor of rho is 7.94 at 5 %. A bet of less than everything gains less.
    """
    assert 10 < e_value([9.0] * 6, tuned_stakes(0.1, 6)) < 32
    assert e_value([9.0] * 6, Stakes(1e-4)) == pytest.approx(32, rel=0.05)
    assert tuned_rho(1.0, 7.94) == pytest.approx(1.0, abs=2e-3)
    assert e_value([0.0], Stakes(1.0)) == pytest.approx(0.5)


def test_closed_form_by_hand() -> None:
    """S = 0.3, V = 0.05, rho = 0.05: 0.09 / 0.2 - ln(2) / 2."""
    assert normal_mixture_log_e([0.1, 0.2], 0.05) == pytest.approx(0.45 - math.log(2) / 2)


def test_the_martingale_beats_the_closed_form(studies: int) -> None:
    """With evidence, the cosh martingale exceeds the normal mixture's bound.

    Without it they differ by ln 2 at most, since one direction counts and not both.
    """
    rng = seeds.rng(7)
    for d in rng.normal(-0.1, 0.1, (min(studies, 200), 12)):
        ours, bound = math.log(e_value(d, UNBOUNDED)), normal_mixture_log_e(d, UNBOUNDED.rho)
        assert ours > bound if bound > 2 else ours > bound - math.log(2) - 0.05


def martingale_means(sizes: FloatArray, stakes: Stakes) -> FloatArray:
    """Return the mean martingale after each block, over all 2^n signs of these magnitudes."""
    signs = np.array(list(itertools.product([-1, 1], repeat=len(sizes))))
    return np.asarray(np.exp(log_mixtures(signs * sizes, stakes)).mean(axis=0))


@pytest.mark.parametrize(
    "stakes", [STAKES, tuned_stakes(1e-3, 12), tuned_stakes(10.0, 12), UNBOUNDED]
)
def test_it_is_a_martingale(stakes: Stakes) -> None:
    """Over all signs of any magnitudes its mean is 1 after every block, for any guess of sigma."""
    sizes = np.array([0.02, 0.5, 0.1, 0.3, 0.04, 0.2])
    assert martingale_means(sizes, stakes) == pytest.approx(np.ones(6))


def test_the_scale_learns_from_earlier_blocks_only() -> None:
    """A block's factor depends on the blocks before it, and not on any after it."""
    d = np.array([0.1, -0.2, 0.05, 0.3, -0.1, 0.2])
    changed = d.copy()
    changed[4:] *= 50
    before, after = log_mixtures(d, STAKES), log_mixtures(changed, STAKES)
    assert before[:4] == pytest.approx(after[:4])
    assert before[4] != pytest.approx(after[4])


def test_a_burst_counts_for_little_more_than_its_sign() -> None:
    """Ten times the burst adds less than a hundredth of the evidence."""
    calm = [-0.1, -0.12, -0.08, -0.11, -0.09, -0.1, -0.1]
    large, huge = (e_value([*calm, -burst], STAKES) for burst in (1.0, 10.0))
    assert huge == pytest.approx(large, rel=0.01)


@given(some_differences)
def test_exchanging_the_arms_gives_the_reciprocal(d: list[float]) -> None:
    """Ratio and interval of -d are the reciprocals; evidence and p are the same."""
    one, other = (sequential_estimate(x, STAKES) for x in (d, [-x for x in d]))
    assert other.ratio == pytest.approx(1 / one.ratio)
    assert other.low == pytest.approx(1 / one.high if math.isfinite(one.high) else 0, rel=1e-6)
    assert other.p_value == pytest.approx(one.p_value)


@given(some_differences, st.floats(-1, 1))
def test_a_common_factor_moves_the_interval_along(d: list[float], shift: float) -> None:
    """Shifting every d by ln c multiplies ratio and interval by c."""
    one, other = sequential_estimate(d, STAKES), sequential_estimate([x + shift for x in d], STAKES)
    assert other.ratio == pytest.approx(one.ratio * math.exp(shift))
    assert other.high == pytest.approx(one.high * math.exp(shift), rel=1e-6)


@given(some_differences, st.floats(0.01, 0.5), st.sampled_from([STAKES, watched(0.10, 100)]))
def test_p_and_interval_agree(d: list[float], level: float, stakes: Stakes) -> None:
    """P is below the level exactly where the interval of that confidence leaves out 1."""
    found = sequential_estimate(d, stakes, 1 - level)
    if abs(found.p_value - level) > 1e-6:
        assert (found.p_value < level) == found.excludes_no_change


def test_too_few_blocks_have_no_interval() -> None:
    """Five blocks cannot reach 5 %, however clear: the interval is infinite and says so."""
    found = sequential_estimate([-3.0] * 5, STAKES)
    assert (found.low, found.high) == (0.0, math.inf)
    assert "5 blocks cannot give a 95 % interval, so it is infinite" in found.method
    verdict = judge([-3.0] * 5, margin=DEFAULT_BAND, minimum_detectable_effect=0.1, stakes=STAKES)
    assert verdict.sentence.endswith("5 blocks cannot give a 95 % interval: more are needed.")


CLEAR = [-3.0, -3.1, -2.9, -3.05, -2.95] * 4
"""Differences of an arm that is twenty times as fast."""


@pytest.mark.parametrize(("blocks", "first"), [(12, 9), (20, 9), (54, 10)])
def test_the_clearest_effect_is_not_safe_before_the_ninth_block(blocks: int, first: int) -> None:
    """A shorter confirmation has no looks: they would save almost nothing."""
    stakes = watched(0.1, blocks)
    finite = [n for n in range(1, 12) if sequential_estimate(CLEAR[:n], stakes).is_finite]
    claims = [n for n in finite if sequential_estimate(CLEAR[:n], stakes).high < 0.5]
    assert claims[0] == first
    design = Design(sequential=True)
    assert [design.watches(n) for n in (LEAST_WATCHED - 1, LEAST_WATCHED)] == [False, True]
    assert not Design().watches(LEAST_WATCHED)


@pytest.mark.parametrize("finalists", [1, 2, 3, 8])
def test_the_fewest_watched_blocks_can_claim(finalists: int) -> None:
    """A clear effect has a finite interval after the last of them, of several finalists too."""
    level = Design(finalists=finalists, sequential=True).level
    found = sequential_estimate(
        CLEAR[:LEAST_WATCHED], watched(0.1, LEAST_WATCHED, level), 1 - level
    )
    assert found.high < 0.5


def test_the_last_block_has_the_exact_test_at_the_rest_of_the_level() -> None:
    """Four fifths of it: an exact interval of 96 % stands for 95 %, and p is a quarter larger."""
    rng = seeds.rng(79)
    d = rng.normal(-0.1, 0.1, 16)
    found, exact = sequential_estimate(d, watched(0.10, 16)), estimate(d, 0.96)
    assert (found.low, found.high, found.ratio) == (exact.low, exact.high, exact.ratio)
    assert found.p_value == pytest.approx(exact.p_value / 0.8)
    assert (found.confidence, found.p_kind) == (0.95, "look-adjusted")
    assert "at 80% of the level" in found.method
    earlier = sequential_estimate(d[:15], watched(0.10, 16))
    assert (earlier.confidence, earlier.p_kind) == (0.95, "always-valid")
    assert found.high / found.low < earlier.high / earlier.low


@pytest.mark.parametrize("stakes", [STAKES, watched(0.10, 8)], ids=["looks alone", "both"])
def test_the_path_ends_where_the_estimate_is(stakes: Stakes) -> None:
    """The last look is the estimate; earlier ones are those of the earlier blocks."""
    d = [-0.1, -0.2, -0.15, -0.1, -0.12, -0.2, -0.1, -0.13]
    path = looks(d, stakes)
    last = sequential_estimate(d, stakes)
    assert [look.blocks for look in path] == list(range(1, 9))
    assert (path[-1].low, path[-1].high) == (last.low, last.high)
    assert path[5].high == sequential_estimate(d[:6], stakes).high


def test_the_sentence_names_the_kind_of_p() -> None:
    """The p of such a verdict is not called exact."""
    for stakes, kind in ((STAKES, "always-valid"), (watched(0.10, 12), "look-adjusted")):
        d = [-0.3] * 12
        verdict = judge(d, margin=DEFAULT_BAND, minimum_detectable_effect=0.1, stakes=stakes)
        assert verdict.kind is VerdictKind.BETTER
        assert f"n = 12 blocks, {kind} p" in verdict.sentence


def test_impossible_parameters_are_refused() -> None:
    """With the value that was given."""
    with pytest.raises(ValueError, match="rho must be positive but got 0"):
        Stakes(0.0)
    with pytest.raises(ValueError, match="sigma_d must be positive but got -1"):
        Stakes(1.0, -1.0)
    with pytest.raises(ValueError, match="must be positive but got 0 and 12"):
        tuned_rho(0, 12)
    with pytest.raises(ValueError, match=r"share must be above 0 and at most 1 but got 1\.5"):
        Stakes(1.0, 0.1, share=1.5)
    with pytest.raises(ValueError, match="an exact test after the last block needs a part"):
        Stakes(1.0, 0.1, share=0.2)
