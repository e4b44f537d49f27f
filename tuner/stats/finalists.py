"""Several finalists in the same blocks: p and intervals adjusted for each other.

p is adjusted by Holm's step-down procedure (Scandinavian Journal of Statistics 6, 1979): for any
dependence between the finalists, the chance of a false difference is at most the level.

Intervals are Bonferroni's, 1 - alpha / k each. Intervals that agree with Holm's procedure exist
(Strassburger and Bretz, Statistics in Medicine 27, 2008; Guilbaud, Biometrical Journal 50, 2008),
but unless every hypothesis is rejected those of the rejected ones end at the hypothesis itself:
they repeat the test and do not bound the gain. Bonferroni's hold for all finalists at once, so
the best may be picked after the fact and its interval still stands. Little is lost: in both the
strongest finalist, which the verdict names, must pass alpha / k.
"""

from __future__ import annotations

from collections.abc import Sequence

from tuner.stats.verdict import Verdict, VerdictKind


def best_of(
    verdicts: Sequence[Verdict],
    *,
    larger_is_better: bool = False,
    beyond: Sequence[bool] = (),
) -> int:
    """Return the index of the finalist that the study's verdict names.

    It has the best estimate of those that are *better*; if none is, the best estimate of all.

    Args:
        verdicts: one per finalist.
        larger_is_better: direction of the objective.
        beyond: for each finalist, whether it violates a constraint; such a finalist is named
            only if all do. Empty without constraints.

    Raises:
        ValueError: there are no verdicts.
    """
    if not verdicts:
        raise ValueError("there is no finalist to choose from")
    sign = -1 if larger_is_better else 1

    def rank(i: int) -> tuple[bool, bool, float]:
        verdict = verdicts[i]
        return (
            bool(beyond) and beyond[i],
            verdict.kind is not VerdictKind.BETTER,
            sign * verdict.estimate.ratio,
        )

    return min(range(len(verdicts)), key=rank)
