"""Decisions during the search, before anything is claimed.

Search figures choose what is measured again; they are never claims (see `verdict`). A bad choice
here costs time or a missed winner, not a false verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import special

DROP_LEVEL = 0.10
"""One-sided level of the look that drops a candidate from its block."""
DROP_ROUNDS = 4
"""Rounds before the look: the fewest for a sign test at 10 % (2^-4 = 6 %)."""
PAIRING_CORRELATION = 0.5
"""Var(candidate - baseline) = 2 sigma^2 (1 - rho): pairing pays off above rho = 0.5."""


def sign_test_p(wins: int, rounds: int) -> float:
    """Return the one-sided p of at least `wins` in `rounds` fair coin tosses: the exact sign test.

    Raises:
        ValueError: `wins` is not between 0 and `rounds`.
    """
    if not 0 <= wins <= rounds:
        raise ValueError(f"wins must be between 0 and {rounds} but got {wins}")
    return float(sum(math.comb(rounds, k) for k in range(wins, rounds + 1)) / 2**rounds)


def drop_allowance(sigma_d: float, degrees_of_freedom: float = math.inf) -> float:
    """Return the loss beyond which a round counts against a candidate.

    In natural logarithms. All rounds of a block share one start of each instance, and instances
    of one configuration differ between starts: without an allowance, four rounds would reject the
    *start*, and a configuration equal to the baseline in up to half of its blocks. At
    1.28 sigma_d that chance is at most 10 %. sigma_d comes from a few A/A blocks, so the quantile
    is Student's: 1.44 with their usual 6 degrees of freedom.
    """
    if math.isinf(degrees_of_freedom):
        return sigma_d * float(special.ndtri(1 - DROP_LEVEL))
    return sigma_d * float(special.stdtrit(degrees_of_freedom, 1 - DROP_LEVEL))


def is_hopeless(
    losses: Sequence[float] | npt.NDArray[np.float64],
    *,
    allowance: float,
    rounds: int = DROP_ROUNDS,
) -> bool:
    """Return whether a candidate may be dropped from its block, by one look at its first rounds.

    `losses` has one value per finished round: ln(candidate / baseline), signed so that positive is
    worse. A round counts against the candidate if its loss exceeds `allowance` (see
    `drop_allowance`); a one-sided exact sign test at 10 % decides.

    The look happens once, after `rounds` rounds: before it the answer is no, and later rounds are
    not read. So asking again cannot become a second look, whose error would add to the first one's
    (with a look after every round the 10 % would be exceeded long before the block ends).

    Raises:
        ValueError: `rounds` is too small for the test to reach its level, or `allowance` negative.
    """
    if sign_test_p(rounds, rounds) > DROP_LEVEL:
        raise ValueError(
            f"a sign test at {DROP_LEVEL:.0%} cannot reject before round {DROP_ROUNDS}, "
            f"but the look was set after {rounds}"
        )
    if not allowance >= 0:
        raise ValueError(f"allowance must be at least 0 but got {allowance}")
    if len(losses) < rounds:
        return False
    against = sum(1 for loss in losses[:rounds] if loss > allowance)
    return sign_test_p(against, rounds) <= DROP_LEVEL


def neighbour_correlation(groups: Sequence[npt.ArrayLike]) -> float:
    """Return the correlation of instances measured in the same block, from A/A blocks.

    The intraclass correlation of a one-way analysis of variance (Shrout and Fleiss 1979, ICC(1)):
    each group holds the ln values of one block's k identical instances, k equal for all. Where it
    exceeds `PAIRING_CORRELATION`, a candidate's score is its difference from the baseline of its
    block; else it is its own ln value, which then has less noise.

    Raises:
        ValueError: fewer than two groups, fewer than two instances, or groups of unequal size.
    """
    sizes = {np.size(group) for group in groups}
    if len(groups) < 2 or len(sizes) != 1 or min(sizes) < 2:
        raise ValueError(
            "the correlation needs two or more A/A blocks of equally many (at least two) "
            f"instances but got sizes {[np.size(group) for group in groups]}"
        )
    values = np.asarray(groups, dtype=np.float64)
    k = values.shape[1]
    between = float(k * values.mean(axis=1).var(ddof=1))
    within = float(values.var(axis=1, ddof=1).mean())
    total = between + (k - 1) * within
    return (between - within) / total if total > 0 else 0.0
