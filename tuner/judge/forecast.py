"""Forecast of the time that a study takes, and the plan that keeps to the time it has."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tuner.goals.goals import Goals
from tuner.judge.economy import ECONOMIES, FULL, Economy
from tuner.judge.plan import (
    ASSUMED,
    FIXED,
    USUAL,
    Budget,
    Design,
    Overhead,
    Sampling,
    StudyPlan,
    plan_blocks,
)
from tuner.stats.power import minimum_detectable_effect
from tuner.words.terminal import duration

_USUAL_RATE_PER_S = 10_000.0
"""Load point that is assumed before calibration, where the study gives none."""
_LONG_S = 3 * 3_600.0
"""Length from which a study is suggested in whole hours."""
_LONGEST_S = 7 * 86_400.0
"""Studies in which a full plan is looked for."""


@dataclass(frozen=True, slots=True)
class Times:
    """The expected wall-clock of a study's phases."""

    calibration_s: float
    search_s: float
    confirm_s: float
    """Time of its blocks, and of the further starts that a gain needs."""
    points_s: float
    """Time of the other load points; 0 where they are left out."""
    ablation_s: float = 0.0
    """Time that is kept for the ablation of a winner; 0 without one."""

    @property
    def total_s(self) -> float:
        """Return the time of the whole study."""
        judged_s = self.confirm_s + self.points_s + self.ablation_s
        return self.calibration_s + self.search_s + judged_s


@dataclass(frozen=True, slots=True)
class Question:
    """The properties of a study that determine its time, without the user's limit."""

    goals: Goals
    rate_per_s: float
    design: Design = FIXED
    exclusive: bool = False
    """True if every window needs a start of its own."""
    overhead: Overhead = USUAL
    search: bool = True
    """True if the study searches; otherwise it confirms a given configuration."""
    sampling: Sampling = ASSUMED
    polls: bool = False
    """True if idle CPUs poll; one block then shows the load point with CPUs that halt."""

    @property
    def least_blocks(self) -> int:
        """Return the number of confirmation blocks without which there is no verdict."""
        return self.design.least_of(len(self.goals.objectives))

    def plan(self, time_s: float, economy: Economy = FULL) -> StudyPlan:
        """Return the plan of a study of this length after a step of economy."""
        plan = plan_blocks(
            self.goals,
            self.rate_per_s,
            time_s,
            exclusive=self.exclusive,
            overhead=self.overhead,
            economy=economy,
            sampling=self.sampling,
        )
        return replace(plan, points=plan.points + 1) if self.polls and plan.points else plan

    def times(
        self,
        plan: StudyPlan,
        time_s: float,
        blocks: int,
        spent_s: float | None = None,
        ablation_s: float = 0.0,
    ) -> Times:
        """Return what each phase takes.

        Args:
            plan: of the study.
            time_s: length of the study; it may take longer.
            blocks: of the confirmation.
            spent_s: what calibration took; by default what it is expected to take.
            ablation_s: time that is kept for an ablation.
        """
        calibration_s = plan.calibration_s if spent_s is None else spent_s
        search_s = 0.0
        if self.search:
            budget = Budget(time_s - ablation_s)
            most_s = budget.search_s(calibration_s, plan, blocks, self.design)
            search_s = plan.whole_blocks_s(most_s)
        confirm_s = plan.blocks_s(blocks, self.design)
        return Times(calibration_s, search_s, confirm_s, plan.points_s, ablation_s)

    def least_s(self, plan: StudyPlan) -> float:
        """Return the least time to a verdict: one block of the search, the fewest that confirm."""
        return self.times(plan, 0.0, self.least_blocks).total_s

    def fits(self, plan: StudyPlan, time_s: float) -> bool:
        """Return whether a study of this plan reaches a verdict in its time."""
        return self.least_s(plan) <= time_s

    def plan_in_time(self, time_s: float) -> StudyPlan:
        """Return the full plan if it fits, else the one with the first step of economy that does.

        Where none of them fits, the study takes longer than its time, by as little as possible.
        """
        plans = [self.plan(time_s, economy) for economy in ECONOMIES]
        return next((plan for plan in plans if self.fits(plan, time_s)), plans[-1])

    def full_s(self, time_s: float) -> float:
        """Return the least time from this one on that holds a full plan; inf if none does."""
        while time_s < _LONGEST_S:
            if self.fits(self.plan(time_s), time_s):
                return time_s
            time_s *= 1.02
        return math.inf

    def claiming_s(self, sigma_d: float, effect: float, time_s: float) -> float:
        """Return the least time from this one on that claims an effect; inf if none does.

        Args:
            sigma_d: noise of a block's difference to plan with, ln units.
            effect: reduction that is *better* with 80 % probability, as a share.
            time_s: length of the study.
        """
        margin = self.goals.margin
        while time_s < _LONGEST_S:
            budget = Budget(time_s, self.search)
            blocks = budget.confirm_blocks(self.plan_in_time(time_s), self.design)
            level = self.design.end_level(blocks)
            if minimum_detectable_effect(sigma_d, blocks, margin, level) <= effect:
                return time_s
            time_s *= 1.1
        return math.inf

    def cuts(self, plan: StudyPlan, time_s: float) -> tuple[str, ...]:
        """Return what is cut in a plan, in words that follow "there are"."""
        full = self.plan(time_s)
        found = {
            "no other load points": plan.points < full.points,
            "shorter windows": plan.confirm.window_s < full.confirm.window_s,
            "shorter windows in the search": (
                self.search
                and plan.search.window_s < full.search.window_s
                and plan.confirm.window_s == full.confirm.window_s
            ),
        }
        return tuple(words for words, is_cut in found.items() if is_cut)

    def least_words(self) -> str:
        """Return what a verdict needs at least."""
        parts = ["calibration", "one block of the search"] if self.search else ["calibration"]
        parts.append(f"{self.least_blocks} blocks of confirmation")
        if not (self.exclusive or self.goals.seek):
            parts.append("further starts")
        return f"{', '.join(parts[:-1])} and {parts[-1]}"


@dataclass(frozen=True, slots=True)
class Forecast:
    """A forecast of a study's time before its calibration."""

    time_s: float
    """Time that the user gives it."""
    least_s: float
    """Time of the shortest study with a verdict, if it costs what it usually does."""
    full_s: float
    """Time that holds a full plan; inf if none does."""
    cuts: tuple[str, ...]
    """The likely cuts, as text."""
    needs: str
    """The minimum that a verdict needs, as text."""

    @property
    def fits(self) -> bool:
        """Return whether the study is expected to keep to its time."""
        return self.least_s <= self.time_s

    @property
    def expected_s(self) -> float:
        """Return the time that the study is expected to take."""
        return max(self.time_s, self.least_s)

    @property
    def words(self) -> str:
        """Return the expected time, what is cut to keep to it, and the least time if it cannot."""
        expected = duration(self.expected_s)
        least = (
            "" if self.fits else f" instead of {duration(self.time_s)}, the least for {self.needs}"
        )
        if not self.cuts:
            return f"about {expected}{least}"
        full = ""
        if math.isfinite(self.full_s):
            full = f" (a full study takes about {duration(self.full_s)})"
        return f"about {expected}{least}; likely {' and '.join(self.cuts)}{full}"


def forecast(
    time_s: float,
    goals: Goals,
    design: Design = FIXED,
    *,
    rate_per_s: float | None = None,
    exclusive: bool = False,
    polls: bool = False,
    search: bool = True,
) -> Forecast:
    """Forecast a study's time, at usual costs of deployments.

    Args:
        time_s: what the user gives it.
        goals: of the study.
        design: of its confirmation.
        rate_per_s: its load point, where the study gives one.
        exclusive: whether every window costs a start of its own.
        polls: whether idle CPUs poll.
        search: whether there is one.
    """
    question = Question(
        goals,
        rate_per_s or _USUAL_RATE_PER_S,
        design,
        exclusive=exclusive,
        search=search,
        polls=polls,
    )
    shortest = question.plan(time_s, ECONOMIES[-1])
    return Forecast(
        time_s=time_s,
        least_s=_rounded(question.least_s(shortest), 5.0),
        full_s=_rounded(question.full_s(time_s), 60.0),
        cuts=question.cuts(question.plan_in_time(time_s), time_s),
        needs=question.least_words(),
    )


def claim_words(effect: float, needed_s: float) -> str:
    """Return the length of a study that claims an effect, rounded up, with its option."""
    if not math.isfinite(needed_s):
        return f"to claim {effect:.0%} no length of the study suffices; use a quieter host"
    if needed_s < _LONG_S:
        grain_s, option = 60, f"{math.ceil(needed_s / 60)}m"
    else:
        grain_s, option = 3_600, f"{math.ceil(needed_s / 3_600)}h"
    took = duration(_rounded(needed_s, grain_s))
    return f"to claim {effect:.0%} the study needs about {took}: --time {option}"


def _rounded(time_s: float, grain_s: float) -> float:
    """Return an estimate rounded up, so that a study of this length holds what it is for."""
    return math.ceil(time_s / grain_s) * grain_s if math.isfinite(time_s) else time_s
