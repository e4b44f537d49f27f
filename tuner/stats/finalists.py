"""Several finalists in the same blocks: what each p and interval may claim beside the others.

p is adjusted by Holm's step-down procedure (Scandinavian Journal of Statistics 6, 1979): for any
the dependence between the finalists, the chance that any of the equal ones is called different is
at most the level.

Intervals are Bonferroni's, 1 - alpha / k each. Intervals that agree with Holm's procedure exist
(Strassburger and Bretz, Statistics in Medicine 27, 2008; Guilbaud, Biometrical Journal 50, 2008),
but unless every hypothesis is rejected those of the rejected ones end at the hypothesis itself:
they repeat the test and say nothing of the gain. Bonferroni's hold for all finalists at once, so
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

    The best estimate among those that are *better*; if none is, the best estimate of all.

    Args:
        verdicts: one per finalist.
        larger_is_better: of the objective.
        beyond: whether each one's figures are beyond a constraint; such a one is named only if
            all are. Empty: there are no constraints.

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
