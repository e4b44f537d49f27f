"""The configuration that a study recommends: one rule for reports, exports and `tuner apply`."""

from __future__ import annotations

from tuner.judge.ablation import Ablation
from tuner.stats.verdict import Verdict, VerdictKind


def recommended(
    baseline: str, candidate: str | None, verdict: Verdict | None, ablation: Ablation | None
) -> str:
    """Return the digest of the recommended configuration.

    It is the smallest difference that was measured to keep the gain. Without one it is the
    candidate if that is better, and otherwise the baseline.

    Args:
        baseline: digest of the baseline.
        candidate: digest of the confirmed configuration; None without one.
        verdict: the study's verdict; None without one.
        ablation: ablation of the candidate; None without one.
    """
    if candidate is None or verdict is None or verdict.kind is not VerdictKind.BETTER:
        return baseline
    return ablation.minimal if ablation and ablation.minimal else candidate
