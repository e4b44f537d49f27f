"""The blocks of an ablation, and the time that they take: arithmetic on the costs of blocks."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tuner.goals.goals import goals_of
from tuner.judge.ablation import blocks_at_least
from tuner.judge.forecast import Question
from tuner.judge.overhead import overhead
from tuner.judge.plan import ASSUMED, BlockPlan, Sampling
from tuner.reading.located import parse_duration_s
from tuner.record.model import Calibration, Record
from tuner.stats.margin import Margin
from tuner.stats.power import LEVEL, blocks_within

_CONTRASTS_SHARE = 0.65
"""Share of the time for the contrasts; the rest is for the checks."""
_LEAST_ROUNDS = 4
_CHECK_ARMS = 3
"""Instances of a check: the baseline, the tuned configuration, the smaller difference."""
RESERVE = 0.1
"""Time for repeated blocks of an ablation within a study, as a share of its planned time."""
_USUAL_CHANGES = 6
"""Number of changes for which a study keeps time before it knows its winner."""
_LARGEST_SHARE = 1 / 4
"""Most of a study's time that it keeps for an ablation."""
_USUAL_TIME_S = 600.0
"""Time of `tuner ablate` without --time."""
_LONGEST_S = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class AblationPlan:
    """The blocks of an ablation."""

    blocks: int
    """Number of blocks of the contrasts, and of each check."""
    contrasts: BlockPlan
    arms: int
    """Instances of a block of the contrasts."""
    check: BlockPlan

    @property
    def contrasts_s(self) -> float:
        """Return the cost of all contrasts."""
        return self.blocks * self.contrasts.cost_s(self.arms)

    @property
    def check_s(self) -> float:
        """Return the cost of one check."""
        return self.blocks * self.check.cost_s(_CHECK_ARMS)

    @property
    def total_s(self) -> float:
        """Return the cost of the contrasts and of one check."""
        return self.contrasts_s + self.check_s


def least_plan(confirm: BlockPlan, changes: int, arms: int) -> AblationPlan:
    """Return the shortest ablation that can decide.

    Args:
        confirm: block of the confirmation.
        changes: number of contrasts.
        arms: instances of a block of the contrasts.
    """
    contrasts = replace(confirm, rounds=min(confirm.rounds, _LEAST_ROUNDS))
    return AblationPlan(blocks_at_least(changes, LEVEL), contrasts, arms, confirm)


def reserved_s(confirm: BlockPlan, time_s: float) -> float:
    """Return the time that a study keeps for the ablation of its winner; 0 if it is too short.

    Args:
        confirm: block of the confirmation.
        time_s: time of the study.
    """
    least = least_plan(confirm, _USUAL_CHANGES, 2 + 2 * _USUAL_CHANGES)
    needed_s = (1 + RESERVE) * least.total_s
    return needed_s if needed_s <= _LARGEST_SHARE * time_s else 0.0


def plan_ablation(
    least: AblationPlan, time_s: float, noise_upper: float, margin: Margin
) -> AblationPlan:
    """Return the plan that uses the time best, and never less than the shortest one.

    Args:
        least: the shortest plan.
        time_s: time of the contrasts and the checks.
        noise_upper: upper limit of the noise of a block's difference, ln units.
        margin: margin of the study, for the objective with the gain.
    """
    fewest_s, check_s = least.contrasts.cost_s(least.arms), least.check.cost_s(_CHECK_ARMS)
    affordable = int(min(_CONTRASTS_SHARE * time_s / fewest_s, time_s / (fewest_s + check_s)))
    # A change worth less than the margin need not be detected, but one of twice the margin must.
    effect = max(margin.wanted(), 2 * margin.share)
    blocks = max(least.blocks, blocks_within(max(1, affordable), noise_upper, effect, margin))
    most_s = min(_CONTRASTS_SHARE * time_s, time_s - blocks * check_s)
    options = (
        replace(least, blocks=blocks, contrasts=replace(least.contrasts, rounds=rounds))
        for rounds in range(least.check.rounds, least.contrasts.rounds, -1)
    )
    shortest = replace(least, blocks=blocks)
    return next((plan for plan in options if plan.contrasts_s <= most_s), shortest)


def command_s(record: Record, changes: int) -> float:
    """Return the time that `tuner ablate` takes, s: its usual time, or more for many changes.

    Args:
        record: a calibrated study.
        changes: changed settings of its winner.
    """
    calibration = record.calibration
    assert calibration is not None  # noqa: S101 - a study with a winner is calibrated
    definition = record.definition
    exclusive = bool(definition.get("layer") or definition.get("in_place"))
    question = Question(
        goals_of(definition),
        calibration.rate_per_s,
        exclusive=exclusive,
        overhead=overhead(record, exclusive=exclusive),
        sampling=_sampling(calibration),
    )
    confirm = question.plan(_time_s(definition)).confirm
    return max(_USUAL_TIME_S, least_plan(confirm, changes, 2 + 2 * changes).total_s)


def _time_s(definition: Mapping[str, object]) -> float:
    """Return the time of a study from its definition; the usual one where it is damaged."""
    given = definition.get("time")
    time_s = math.nan
    if isinstance(given, str):
        with contextlib.suppress(ValueError):
            time_s = parse_duration_s(given)
    elif isinstance(given, int | float):
        time_s = float(given)
    return time_s if 1.0 <= time_s <= _LONGEST_S else _USUAL_TIME_S


def _sampling(known: Calibration) -> Sampling:
    if known.level is None:
        return ASSUMED
    return Sampling(known.effective_share, known.slice_ms, known.level)
