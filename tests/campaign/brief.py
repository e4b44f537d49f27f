"""Plans of studies with the fewest and shortest windows that a command accepts.

What a fault meets is a kind of crossing, of which a long study has more and no others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tuner.app import contests
from tuner.judge import forecast
from tuner.judge import plan as plans
from tuner.judge.plan import BlockPlan, StudyPlan
from tuner.phases import ablate, calibrate, contest, host_noise, measure
from tuner.phases.search import SearchSpec
from tuner.report import html

WINDOW_S = 0.3
_SAMPLES = 10
"""Samples that a window needs; figures do not matter here."""


def brief(patch: pytest.MonkeyPatch, *, charts: bool) -> None:
    """Give every command of this process a short plan.

    Args:
        patch: undoes it.
        charts: whether reports have charts, a third of the time of a short study.
    """
    planned = plans.plan_blocks
    for module in (plans, forecast, contest, host_noise, measure):
        patch.setattr(module, "plan_blocks", _shortened(planned))
    patch.setattr(
        calibrate, "CLOSED", replace(plans.CLOSED, rounds=2, window_s=WINDOW_S, first_warmup_s=0.1)
    )
    # Blocks that are this short would fill the time of a search or an ablation by the hundred.
    patch.setattr(contests, "SearchSpec", partial(_one_trial, SearchSpec))
    patch.setattr(ablate, "plan_ablation", lambda least, *_: least)
    if not charts:
        patch.setattr(html, "apart", lambda *_: ({}, []))


def _shortened(planned: Callable[..., StudyPlan]) -> Callable[..., StudyPlan]:
    def shortened(*arguments: Any, **more: Any) -> StudyPlan:
        whole = planned(*arguments, **more)
        return replace(
            whole,
            aa_blocks=2,
            aa_instances=2,
            aa=_short(whole.aa),
            confirm=_short(whole.confirm),
            search=_short(whole.search),
            candidates=1,
            starts=None,
            points=0,
            samples_needed=min(whole.samples_needed, _SAMPLES),
            look_samples=min(whole.look_samples, _SAMPLES),
        )

    return shortened


def _one_trial(spec: type[SearchSpec], **given: Any) -> SearchSpec:
    return spec(**{**given, "trials": 1})


def _short(block: BlockPlan) -> BlockPlan:
    return replace(block, rounds=2, window_s=WINDOW_S, first_warmup_s=0.1, effective=0.0)
