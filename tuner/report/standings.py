"""The order of several servers by each figure.

Five servers in three configurations make 45 pairs, and a sentence about each hides which server is
the best. Instead, one line has the servers of one kind in their order.
"""

from __future__ import annotations

import itertools
import math

from tuner.goals.objective import Objective
from tuner.judge.contest_results import ContestResult
from tuner.report.contest_tables import SEEN, brief, compared_figures
from tuner.stats.verdict import VerdictKind
from tuner.words.figures import figure

_ORDER_LEGEND = (
    "Servers in a line begin with the best. Between neighbours, < and > mark a difference that is"
    " shown, = marks equal figures, and ~ means that nothing is shown."
)
_SEEN_LEGEND = (
    "Seen, but not claimed: the interval leaves out no change, but the difference is not shown to"
    " exceed the margin, for all claims of the contest together."
)
_FEWEST = 3


def orders(result: ContestResult) -> list[str]:
    """Return lines such as ``tuned, p99: nginx 382 µs ~ haproxy 446 µs < caddy 6.54 ms``.

    There is one for each figure and each kind that has at least three arms.
    """
    return [
        f"{kind}, {objective.words}: {line}"
        for kind, labels in _kinds(result).items()
        for objective in compared_figures(result)
        if (line := _order(result, labels, objective))
    ]


def other_pairs(result: ContestResult) -> list[str]:
    """Return a sentence for each pair of arms that is not in a line of ``orders``."""
    ranked = {
        pair for labels in _kinds(result).values() for pair in itertools.permutations(labels, 2)
    }
    return brief(result, without=ranked)


def legend(result: ContestResult) -> list[str]:
    """Return sentences about the signs and words in the lines of ``orders`` and ``other_pairs``."""
    seen = any(SEEN in line for line in other_pairs(result))
    return [_ORDER_LEGEND] * bool(orders(result)) + [_SEEN_LEGEND] * seen


def _kinds(result: ContestResult) -> dict[str, list[str]]:
    """Return the labels of the measured arms of each kind that has at least three."""
    found: dict[str, list[str]] = {}
    for contender in result.contest.contenders:
        if contender.label in result.contest.capacities_per_s:
            found.setdefault(contender.kind, []).append(contender.label)
    return {kind: labels for kind, labels in found.items() if len(labels) >= _FEWEST}


def _order(result: ContestResult, labels: list[str], objective: Objective) -> str:
    """Return the arms from best to worst, with signs between neighbours; empty if unknown."""
    values = {arm.label: arm.value(objective.name) for arm in result.arms if arm.label in labels}
    known = sorted(
        (label for label, value in values.items() if math.isfinite(value)),
        key=values.__getitem__,
        reverse=objective.larger_is_better,
    )
    kinds = {
        frozenset({row.claim.arm, row.claim.against}): row.verdict.kind
        for row in result.compared
        if row.objective == objective
    }
    signs = [_sign(kinds.get(frozenset(pair)), objective) for pair in itertools.pairwise(known)]
    arms = [f"{_short(result, one, known)} {figure(values[one], objective.unit)}" for one in known]
    return "".join(f"{arm}{sign}" for arm, sign in itertools.zip_longest(arms, signs, fillvalue=""))


def _sign(kind: VerdictKind | None, objective: Objective) -> str:
    if kind in {VerdictKind.BETTER, VerdictKind.WORSE}:
        return " > " if objective.larger_is_better else " < "
    return " = " if kind is VerdictKind.EQUIVALENT else " ~ "


def _short(result: ContestResult, label: str, others: list[str]) -> str:
    """Return an arm's server, or its label if several arms are of that server."""
    server = result.contender(label).server
    of_it = [other for other in others if result.contender(other).server == server]
    return server if len(of_it) == 1 else label
