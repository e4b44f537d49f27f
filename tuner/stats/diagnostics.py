"""Diagnostics of a study, as values that reports show with its verdict.

None of these changes a verdict. The test of the confirmation is exact under drift, correlation and
heavy tails; a diagnostic says that the study was noisier than it need be, or that one of the few
assumptions left (nothing carries over between neighbours, the stall rule hits both arms alike) is
in doubt. Tests are exact or by permutation with a fixed seed, so the same record always gives the
same findings.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from tuner.stats.margin import NO_MARGIN, Margin
from tuner.stats.paired import (
    FloatArray,
    PairedEstimate,
    estimate,
    midranks,
    minimum_blocks,
    pseudomedians,
    signed_rank_p,
)
from tuner.stats.words import counted, p_in_words, signed_percent

ALARM_LEVEL = 0.01
"""Level of each diagnostic; half a dozen of them warn in one healthy study of twenty."""
INVALID_LIMIT = 0.10
"""Share of invalid windows above which a study cannot claim anything."""

BOOTSTRAP_BLOCKS = 20
"""Below this number of blocks a bootstrap interval is too narrow to be a second opinion."""

_PERMUTATIONS = 9_999
_RESAMPLES = 1_999
_REDRAWN_ORDERS = 1_999
_SEED = 20_061
_MOST_SENTINELS = 400
"""Most figures in the test for drift; of more blocks, medians of equal runs."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A diagnostic: a figure, and whether it is a warning."""

    code: str
    """Stable name: `order-effect`, `lag-1`, `slope`, `variance-shares`, …"""
    figure: float
    """The figure in the unit that `message` states; NaN where the data cannot give one."""
    raised: bool
    """True if this is a warning; otherwise the message merely states the figure."""
    message: str
    """Finding; for a warning also its likely cause and a remedy."""


def order_effect(ln_values: npt.ArrayLike, positions: npt.ArrayLike) -> Diagnostic:
    """Test whether windows later in a round differ systematically.

    Both arrays have shape (blocks, rounds, arms), with two arms or more: the ln value of each
    window, and its place in the order of its round (0: first), drawn afresh for every round. The
    figure is the slope of ln value on place, within the starts of the instances. The test is
    Fisher's randomisation test: the same slope under orders drawn anew in the same way.
    """
    values = _shaped(ln_values, 3, "ln_values must have shape (blocks, rounds, arms)")
    places = _shaped(positions, 3, "positions must have shape (blocks, rounds, arms)")
    if places.shape != values.shape or values.shape[2] < 2:
        raise ValueError(
            "ln_values and positions must have one shape, with two arms or more, "
            f"but got {values.shape} and {places.shape}"
        )
    # Rounds share the drift; the rounds of one arm in a block share its start. With a single round
    # only the arms' means over the blocks can be taken out.
    over = -2 if values.shape[1] > 1 else -3

    def centred(array: FloatArray) -> FloatArray:
        array = array - array.mean(axis=-1, keepdims=True)
        return np.asarray(array - array.mean(axis=over, keepdims=True))

    residuals, offsets = centred(values), centred(places)
    spread = float((offsets**2).sum())
    if spread == 0 or not residuals.any():
        return _silent("order-effect", "order effect")
    slope = float((residuals * offsets).sum()) / spread
    orders = np.broadcast_to(places, (_REDRAWN_ORDERS, *places.shape))
    redrawn = centred(np.random.default_rng(_SEED).permuted(orders, axis=-1))
    null_spread = (redrawn**2).sum(axis=(1, 2, 3))
    products = (redrawn * residuals).sum(axis=(1, 2, 3))
    null = np.divide(products, null_spread, out=np.zeros_like(products), where=null_spread > 0)
    p_value = _monte_carlo_p(abs(slope), np.abs(null))
    raised = p_value <= ALARM_LEVEL
    message = f"each later place in a round changes the figure by {_change(slope)}"
    if raised:
        message += (
            f" ({p_in_words(p_value)}): a window disturbs the next one, or the host drifts within "
            "a round. The random order keeps this from favouring an arm as long as the disturbance "
            "does not depend on the arm; lengthen the warm-up or the pause between windows"
        )
    return Diagnostic("order-effect", slope, raised, message)


def slot_effect(differences: npt.ArrayLike, slots: npt.ArrayLike) -> Diagnostic:
    """Test whether the slot of an instance changes its figure.

    `differences` holds d of each block, shape (blocks,); `slots` the slots of baseline and
    candidate in its deployment, shape (blocks, 2). The figure is the slope of d on the distance
    between the slots, the test a permutation test of their rank correlation.
    """
    d = _shaped(differences, 1, "differences must have shape (blocks,)")
    pairs = _shaped(slots, 2, "slots must have shape (blocks, 2)")
    if pairs.shape != (d.size, 2):
        raise ValueError(f"slots must have shape ({d.size}, 2) but got {pairs.shape}")
    distances = pairs[:, 1] - pairs[:, 0]
    if d.size < 4 or np.ptp(d) == 0 or np.ptp(distances) == 0:
        return _silent("slot-effect", "slot effect")
    centred = distances - distances.mean()
    slope = float(centred @ d / (centred @ centred))
    ranks = midranks(distances)
    ranks = ranks - ranks.mean()
    _, p_value = _permutation_test(midranks(d), lambda drawn: np.asarray(drawn @ ranks))
    raised = p_value <= ALARM_LEVEL
    message = f"each later slot in the deployment changes the figure by {_change(slope)}"
    if raised:
        message += (
            f" ({p_in_words(p_value)}): the port, the folder, or the order of starting and "
            "connecting matters on this host. Every arm has every slot equally often, so this "
            "favours none, but it adds noise; more blocks make up for it"
        )
    return Diagnostic("slot-effect", slope, raised, message)


def lag_one(differences: npt.ArrayLike) -> Diagnostic:
    """Test the lag-1 correlation of neighbouring blocks: ranks of d.

    By permutation of the blocks (Wald and Wolfowitz, Annals of Mathematical Statistics 14, 1943;
    on ranks, so that a burst does not decide it). `differences` in order of time, shape (n,).
    """
    d = _shaped(differences, 1, "differences must have shape (blocks,)")
    if d.size < 4 or np.ptp(d) == 0:
        return _silent("lag-1", "lag-1 correlation")
    correlation, p_value = _permutation_test(midranks(d), _lag_one_products)
    raised = p_value <= ALARM_LEVEL
    message = f"lag-1 rank correlation of the block differences is {correlation:.2f}"
    if raised:
        message += (
            f" ({p_in_words(p_value)}): something that lasts longer than a block treats the arms "
            "differently. The interval may be too narrow for another day: replicate the "
            "confirmation at another time"
        )
    return Diagnostic("lag-1", correlation, raised, message)


def slope_over_time(differences: npt.ArrayLike) -> Diagnostic:
    """Test whether the difference between the arms drifts over the study.

    The figure is the Theil-Sen slope of d per block (Sen, Journal of the American Statistical
    Association 63, 1968), the test a permutation test of the rank correlation with time.
    """
    d = _shaped(differences, 1, "differences must have shape (blocks,)")
    if d.size < 4 or np.ptp(d) == 0:
        return _silent("slope", "slope over time")
    later, earlier = np.tril_indices(d.size, k=-1)
    slope = float(np.median((d[later] - d[earlier]) / (later - earlier)))
    _, p_value = _permutation_test(midranks(d), _time_products)
    raised = p_value <= ALARM_LEVEL
    message = f"the ratio changes by {_change(slope)} per block"
    if raised:
        message += (
            f" ({p_in_words(p_value)}): the effect itself drifts, as with caches that fill, logs "
            "that grow or a changing host. The ratio is an average over the study; let both arms "
            "warm up longer, and replicate"
        )
    return Diagnostic("slope", slope, raised, message)


def variance_shares(round_differences: npt.ArrayLike) -> Diagnostic:
    """Split the noise into shares between starts of instances and between windows.

    `round_differences` has shape (blocks, rounds): d of every round. One-way analysis of variance
    with blocks as random effects (Kalibera and Jones, Rigorous benchmarking in reasonable time,
    ISMM 2013). The figure is the share of one round's variance that lies between blocks, 0 to 1.
    """
    d = _shaped(round_differences, 2, "round_differences must have shape (blocks, rounds)")
    blocks, rounds = d.shape
    within = float(d.var(axis=1, ddof=1).mean()) if rounds > 1 else 0.0
    if blocks < 2 or within == 0:
        return _silent("variance-shares", "shares of variance")
    between_square = rounds * float(d.mean(axis=1).var(ddof=1))
    between = max(0.0, (between_square - within) / rounds)
    share = between / (between + within)
    # A warning only where it is shown that a block's mean owes less than a tenth of its variance to
    # its windows: at that share the F ratio is 10 times an F variable.
    ratio = between_square / within
    p_value = float(special.fdtrc(blocks - 1, blocks * (rounds - 1), ratio / 10))
    raised = p_value <= ALARM_LEVEL
    message = f"{share:.0%} of the variance lies between starts of the instances"
    if raised:
        message += (
            f" ({p_in_words(p_value)}): each start settles on its own level, so longer windows or "
            "more rounds gain almost nothing. Spend the time on more blocks"
        )
    return Diagnostic("variance-shares", share, raised, message)


def baseline_drift(ln_values: npt.ArrayLike, disturbed: int = 0) -> Diagnostic:
    """Test whether the baseline drifted over the search, or some blocks disturbed it.

    The baseline is a sentinel: `ln_values` has its figure in every block of the search in order of
    time, shape (blocks,); `disturbed` counts the blocks whose other arms contradict it. The figure
    is the Theil-Sen slope per block. Scores do not rest on one block's baseline, so this speaks
    about the host. Of more than 400 blocks, the medians of equal runs are tested.
    """
    values = _shaped(ln_values, 1, "ln_values must have shape (blocks,)")
    if values.size < 4 or np.ptp(values) == 0:
        return _silent("baseline-drift", "drift of the baseline")
    runs = -(-values.size // _MOST_SENTINELS)
    if runs > 1:
        # All pairs of thousands of blocks take seconds and tell a drift no better.
        parts = np.split(values, range(runs, values.size, runs))
        values = np.array([np.median(part) for part in parts])
    later, earlier = np.tril_indices(values.size, k=-1)
    slope = float(np.median((values[later] - values[earlier]) / (later - earlier))) / runs
    _, p_value = _permutation_test(midranks(values), _time_products)
    message = f"over the search the baseline's figure changes by {_change(slope)} per block"
    causes = []
    if p_value <= ALARM_LEVEL:
        causes.append(
            f" ({p_in_words(p_value)}): the host changes while the study runs, by heat, neighbours "
            "or filling disks. Comparisons within blocks allow for that; absolute figures do not"
        )
    if disturbed:
        causes.append(
            f"{';' if causes else ','} and the other arms of {counted(disturbed, 'block')} say "
            "that the baseline was disturbed there. Their scores rest on all arms of the search; "
            "quieten the host if it is more than a few"
        )
    raised = p_value <= ALARM_LEVEL or disturbed > 0
    return Diagnostic("baseline-drift", slope, raised, message + "".join(causes))


def leave_one_out(
    differences: npt.ArrayLike, margin: Margin = NO_MARGIN, confidence: float = 0.95
) -> Diagnostic:
    """Return how far the ratio moves without one block: a claim must not depend on a single one.

    The figure is the largest change of ln ratio. It is a warning if the interval of all blocks, of
    the confidence that the claim has, lies beyond the margin, and the one without some block does
    not. With no more blocks than such an interval needs (6 at 95 %) none can be spared, and there
    is not a warning.
    """
    d = _shaped(differences, 1, "differences must have shape (blocks,)")
    if d.size < 2:
        return _silent("leave-one-out", "leave-one-out range")

    def side(ratio: PairedEstimate) -> int:
        return margin.side(ratio.low, ratio.high)

    whole = estimate(d, confidence)
    others = [estimate(np.delete(d, block), confidence) for block in range(d.size)]
    sparable = d.size > minimum_blocks(whole.confidence)
    raised = sparable and any(side(other) != side(whole) for other in others) and side(whole) != 0
    ratios = [other.ratio for other in others]
    message = (
        f"leaving out one block moves the ratio between {min(ratios):.3f} and {max(ratios):.3f}"
    )
    if raised:
        message += (
            ", and the interval then no longer lies beyond the margin: the claim depends on one "
            "block. Inspect that block's windows, and repeat the confirmation with more blocks"
        )
    shift = max(abs(math.log(ratio / whole.ratio)) for ratio in ratios)
    return Diagnostic("leave-one-out", shift, raised, message)


def bootstrap(
    differences: npt.ArrayLike, margin: Margin = NO_MARGIN, confidence: float = 0.95
) -> Diagnostic:
    """Compare a bootstrap over blocks with the exact interval, from 20 blocks on.

    Bias-corrected and accelerated (Efron, Journal of the American Statistical Association 82,
    1987), of the pseudomedian, 1,999 resamples, of the claim's confidence. It is a second opinion
    and never the claim: the exact interval needs no large n. The figure is the width of the
    bootstrap interval over that of the exact one, in logarithms.
    """
    d = _shaped(differences, 1, "differences must have shape (blocks,)")
    if d.size < BOOTSTRAP_BLOCKS or np.ptp(d) == 0:
        return _silent("bootstrap", "bootstrap interval")
    whole = estimate(d, confidence)
    rng = np.random.default_rng(_SEED)
    draws = pseudomedians(d[rng.integers(d.size, size=(_RESAMPLES, d.size))])
    centre = math.log(whole.ratio)
    below = (np.count_nonzero(draws < centre) + 0.5) / (_RESAMPLES + 1)
    bias = float(special.ndtri(below))
    left = pseudomedians(np.stack([np.delete(d, block) for block in range(d.size)]))
    pull = left.mean() - left
    squares = float((pull**2).sum())
    skew = float((pull**3).sum()) / (6 * squares**1.5) if squares else 0.0
    ends = []
    for share in ((1 - confidence) / 2, (1 + confidence) / 2):
        z = bias + float(special.ndtri(share))
        ends.append(float(np.quantile(draws, special.ndtr(bias + z / (1 - skew * z)))))
    low, high = (math.exp(end) for end in ends)

    raised = margin.side(low, high) != margin.side(whole.low, whole.high)
    message = f"a bootstrap over blocks (BCa) gives an interval of {low:.3f} to {high:.3f}"
    if raised:
        message += (
            f", the exact one is {whole.low:.3f} to {whole.high:.3f}: they differ on whether the "
            "ratio lies beyond the margin, so it is a close call. The exact one decides; more "
            "blocks would settle it"
        )
    width = (ends[1] - ends[0]) / math.log(whole.high / whole.low)
    return Diagnostic("bootstrap", width, raised, message)


LEAST_STALLED = 0.01
"""Difference of the arms' stalled time that matters, as a share of the time."""


def unequal_stalls_p(shares: npt.ArrayLike) -> float:
    """Return the p of equal stalls in all arms of one block.

    Shares of requests that the stall rule excluded, shape (rounds, arms). In every round the arms
    were measured in random order, so if stalls come from the host alone, the shares of a round are
    exchangeable. The statistic is the spread of the arms' means, its distribution that over orders
    within rounds (Fisher's randomisation test, 9,999 orders with a fixed seed; all orders of two
    arms where there are fewer). The test does not use latencies. With few rounds p cannot be small:
    two arms need 8 rounds for 1 %.
    """
    values = _shaped(shares, 2, "shares must have shape (rounds, arms)")
    rounds, arms = values.shape
    if arms < 2 or np.ptp(values) == 0:
        return 1.0

    def spread(tables: FloatArray) -> FloatArray:
        return np.asarray(tables.mean(axis=-2).var(axis=-1))

    observed = float(spread(values[None])[0])
    if arms == 2 and 2**rounds <= _PERMUTATIONS:
        signs = 1 - 2.0 * ((np.arange(2**rounds)[:, None] >> np.arange(rounds)) & 1)
        # With two arms the spread of the means is a quarter of their squared difference.
        null = (signs @ (values[:, 0] - values[:, 1]) / rounds) ** 2 / 4
        return float(np.mean(null >= observed * (1 - 1e-9)))
    orders = np.broadcast_to(values, (_PERMUTATIONS, rounds, arms))
    null = spread(np.random.default_rng(_SEED).permuted(orders, axis=-1))
    return (1 + float(np.count_nonzero(null >= observed * (1 - 1e-9)))) / (1 + _PERMUTATIONS)


def stall_shares(
    candidate: npt.ArrayLike, baseline: npt.ArrayLike, *, timed: bool = False
) -> Diagnostic:
    """Test whether stalls took more from one arm than from the other.

    Shares from 0 to 1, one per block and arm: of the requests that the stall rule excluded, or with
    ``timed`` of the arm's time in stalls. Paired exact signed-rank test. At 5 %, a stricter eye
    than for the rest: the claim is made on what the rule leaves, so here a missed warning costs
    more than a false one. Slices share their stalls so evenly that the test sees differences of no
    consequence: of the time, one below 1 % raises no warning. The figure is the mean difference of
    the shares.
    """
    first = _shaped(candidate, 1, "candidate must have shape (blocks,)")
    second = _shaped(baseline, 1, "baseline must have shape (blocks,)")
    if first.shape != second.shape:
        raise ValueError(
            f"both arms need one share per block but got {first.size} and {second.size}"
        )
    p_value = signed_rank_p(first - second)
    difference = float(np.mean(first - second))
    raised = p_value <= 0.05 and not (timed and abs(difference) < LEAST_STALLED)
    lost = "in stalls: {} of the candidate's time and {} of the baseline's"
    if not timed:
        lost = "excluded as stalls: {} of the candidate's requests and {} of the baseline's"
    message = lost.format(f"{first.mean():.1%}", f"{second.mean():.1%}")
    if raised:
        message += (
            f" ({p_in_words(p_value)}), which differ by more than chance: the rule may be catching "
            "work of the server itself. Check that generator and server do not share a core, and "
            "compare the raw percentiles"
        )
    return Diagnostic("stall-shares", difference, raised, message)


def invalid_windows(
    candidate: int, baseline: int, windows_per_arm: int, *, failed: int = 0
) -> Diagnostic:
    """Test whether too many windows were invalid, or more in one arm than in the other.

    Counts of invalid windows per arm out of `windows_per_arm` measured ones. The figure is the
    share of both arms. More than 10 %, or arms that differ by a two-sided sign test at 5 %, make
    the study inconclusive. If the server failed the load in most of the invalid ones (`failed`),
    neither host nor generator is at fault, and the message says so.
    """
    if min(candidate, baseline) < 0 or max(candidate, baseline) > windows_per_arm:
        raise ValueError(
            f"invalid windows must be between 0 and {windows_per_arm} "
            f"but got {candidate} and {baseline}"
        )
    total = candidate + baseline
    share = total / (2 * windows_per_arm) if windows_per_arm else 0.0
    p_value = min(1.0, 2 * float(special.bdtr(min(candidate, baseline), total, 0.5)))
    unequal = p_value <= 0.05
    raised = share > INVALID_LIMIT or unequal
    message = (
        f"invalid windows: {candidate} of the candidate's and {baseline} of the baseline's "
        f"{windows_per_arm}"
    )
    if unequal:
        message += (
            f" ({p_in_words(p_value)}): one arm fails more often, so the valid windows are a "
            "selection. See the reasons of its windows before believing any ratio"
        )
    elif raised and 2 * failed > total:
        message += (
            f", {share:.0%} in all: in {failed} of them the server failed the load. See the "
            "reasons, check the server, its backends and its files, and repeat"
        )
    elif raised:
        message += (
            f", {share:.0%} in all: the host or the generator cannot hold this load. Lower the "
            "rate or free the cores, and repeat"
        )
    return Diagnostic("invalid-windows", share, raised, message)


def _silent(code: str, name: str) -> Diagnostic:
    return Diagnostic(code, math.nan, raised=False, message=f"{name}: not enough data")


def _permutation_test(
    ranks: FloatArray, products: Callable[[FloatArray], FloatArray]
) -> tuple[float, float]:
    """Return a correlation of centred ranks in order of time, and its two-sided permutation p."""
    centred = ranks - ranks.mean()
    rng = np.random.default_rng(_SEED)
    shuffled = rng.permuted(np.tile(centred, (_PERMUTATIONS, 1)), axis=1)
    observed, null = products(centred[None, :])[0], products(shuffled)
    centre = null.mean()
    return float(observed), _monte_carlo_p(abs(observed - centre), np.abs(null - centre))


def _monte_carlo_p(observed: float, null: FloatArray) -> float:
    """Return p, with the observed order as one of those drawn (Phipson and Smyth 2010)."""
    beyond = np.count_nonzero(null >= observed - 1e-12)
    return (1 + int(beyond)) / (1 + null.size)


def _lag_one_products(centred: FloatArray) -> FloatArray:
    squares = (centred**2).sum(axis=1)
    return np.asarray((centred[:, 1:] * centred[:, :-1]).sum(axis=1) / squares)


def _time_products(centred: FloatArray) -> FloatArray:
    time = np.arange(centred.shape[1]) - (centred.shape[1] - 1) / 2
    norm = np.sqrt((centred**2).sum(axis=1) * (time**2).sum())
    return np.asarray(centred @ time / norm)


def _change(ln_ratio: float) -> str:
    return signed_percent(math.expm1(ln_ratio))


def _shaped(values: npt.ArrayLike, dimensions: int, requirement: str) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != dimensions or array.size == 0:
        raise ValueError(f"{requirement} and not be empty but got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"values must be finite but got {array[~np.isfinite(array)][0]}")
    return array
