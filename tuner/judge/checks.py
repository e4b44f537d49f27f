"""The diagnostics of a confirmation, gathered from its blocks."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.goals.goals import Goals
from tuner.goals.objective import Objective
from tuner.judge.arms import PairedBlock, excluded_share, stalled_share
from tuner.judge.ranking import pooled_all
from tuner.record.model import Record
from tuner.stats.diagnostics import (
    Diagnostic,
    baseline_drift,
    bootstrap,
    invalid_windows,
    lag_one,
    leave_one_out,
    order_effect,
    slope_over_time,
    slot_effect,
    stall_shares,
    variance_shares,
)
from tuner.stats.margin import Margin
from tuner.stats.modes import two_modes


def findings(
    confirm: Sequence[PairedBlock],
    used: Sequence[PairedBlock],
    objective: Objective,
    *,
    margin: Margin,
    confidence: float,
) -> tuple[Diagnostic, ...]:
    """Return every diagnostic that the blocks allow, warnings first.

    Args:
        confirm: all blocks of the confirmation, for invalid windows.
        used: the blocks that count, for the other diagnostics.
        margin: the frozen protocol's.
        confidence: confidence of the claim's interval.
    """
    found = []
    begun = [block for block in confirm if all(block.measured)]
    if begun:
        found.append(_invalid(begun))
    if used:
        found += _of_used(used, objective, margin, confidence)
    return tuple(sorted(found, key=lambda finding: not finding.raised))


def sentinel(record: Record, goals: Goals) -> tuple[Diagnostic, ...]:
    """Return findings about the host from the search's baselines; empty before a search."""
    fits = pooled_all(record.blocks, goals, record.calibration)
    if not fits or not fits[0].baseline:
        return ()
    return (baseline_drift(fits[0].baseline, len(fits[0].disturbed)),)


def _invalid(begun: Sequence[PairedBlock]) -> Diagnostic:
    baseline, candidate = (sum(block.invalid[arm] for block in begun) for arm in (0, 1))
    most = max(sum(block.measured[arm] for block in begun) for arm in (0, 1))
    return invalid_windows(candidate, baseline, most, failed=sum(block.failed for block in begun))


def _of_used(
    used: Sequence[PairedBlock], objective: Objective, margin: Margin, confidence: float
) -> list[Diagnostic]:
    differences = [block.difference(objective.difference_ln) for block in used]
    order, shares = _of_rounds(used, objective)
    slots = [block.slots for block in used if block.slots]
    return [
        _stalls(used),
        *order,
        *([slot_effect(differences, slots)] if len(slots) == len(used) else []),
        lag_one(differences),
        slope_over_time(differences),
        *shares,
        two_modes(differences),
        leave_one_out(differences, margin, confidence),
        bootstrap(differences, margin, confidence),
    ]


def _stalls(used: Sequence[PairedBlock]) -> Diagnostic:
    """Return whether stalls depend on the arm.

    Stalled time is the host's; which requests a stall touches depends on the arm's busy cycles, and
    their weights make up for that. Older records hold only the share of requests that were left
    out.
    """
    arms = [(block.candidate, block.baseline) for block in used]
    timed = all(w.stalled_share is not None for pair in arms for arm in pair for w in arm)
    share = stalled_share if timed else excluded_share
    return stall_shares(*([share(pair[arm]) for pair in arms] for arm in (0, 1)), timed=timed)


def _of_rounds(
    used: Sequence[PairedBlock], objective: Objective
) -> tuple[list[Diagnostic], list[Diagnostic]]:
    """Return findings from single windows; none for a capacity with windows at several rates.

    Arms that share windows in slices have no order within a round.
    """
    if objective.slo:
        return [], []
    # An interrupted block has fewer rounds; the arrays have the rounds common to all.
    rounds = min(len(block.places) for block in used)
    values = [
        [
            [objective.ln(block.baseline[turn]), objective.ln(block.candidate[turn])]
            for turn in range(rounds)
        ]
        for block in used
    ]
    places = [[list(pair) for pair in block.places[:rounds]] for block in used]
    differences = [[there - here for here, there in block] for block in values]
    sliced = any(window.slice_ms for block in used for window in block.baseline)
    order = [] if sliced else [order_effect(values, places)]
    return order, [variance_shares(differences)]
