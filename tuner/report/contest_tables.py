"""A contest in sentences and tables, the same in every form of its report."""

from __future__ import annotations

import math
from collections.abc import Collection

from tuner.goals.objective import Objective
from tuner.judge.climbs import ReachedRate
from tuner.judge.comparison import Judged
from tuner.judge.contest_results import ContestResult
from tuner.report.section import RatioCell
from tuner.stats.verdict import VerdictKind
from tuner.words.figures import UNKNOWN, figure, interval, ratio

LATENCIES = ("p50", "p90", "p99", "p99.9", "max")


def claims(result: ContestResult) -> list[str]:
    """Return one sentence for each pair of arms: which is better at what."""
    lines = []
    for pair, rows in _by_pair(result).items():
        lines.append(f"{' against '.join(pair)}: {'; '.join(map(_claim, rows))}")
    return lines


def brief(result: ContestResult, *, without: Collection[tuple[str, str]] = ()) -> list[str]:
    """Return ``claims`` without the intervals, for use next to a table or a picture of them.

    Args:
        result: the contest.
        without: pairs to leave out: an arm's label, and that of the arm it is compared with.
    """
    lines = []
    for pair, rows in _by_pair(result).items():
        if pair in without:
            continue
        parts = []
        for word in (*_BRIEF.values(), SEEN, _NOTHING):
            names = [_change(row) for row in rows if _outcome(row) == word]
            parts += [f"{word} {', '.join(names)}"] if names else []
        lines.append(f"{' against '.join(pair)}: {'; '.join(parts)}")
    return lines


def _by_pair(result: ContestResult) -> dict[tuple[str, str], list[Judged]]:
    """Return the claims of each pair: by the arm and the one that it is compared with."""
    found: dict[tuple[str, str], list[Judged]] = {}
    for row in result.compared:
        found.setdefault((row.claim.arm, row.claim.against), []).append(row)
    return found


_BRIEF = {
    VerdictKind.BETTER: "better in",
    VerdictKind.WORSE: "worse in",
    VerdictKind.EQUIVALENT: "equal in",
}
SEEN = "seen, but not claimed, in"
"""Figures with an interval that leaves out no change, and no claim."""
_NOTHING = "nothing shown in"


def _outcome(row: Judged) -> str:
    """Return the words for what a comparison shows."""
    seen = row.verdict.estimate.excludes_no_change
    return _BRIEF.get(row.verdict.kind, SEEN if seen else _NOTHING)


def _change(row: Judged) -> str:
    """Return ``p50 (−32 %)``; far from one as a factor: ``memory (6.11 times)``."""
    name, found = row.objective.words, row.verdict.estimate.ratio
    if _outcome(row) in {_BRIEF[VerdictKind.EQUIVALENT], _NOTHING}:
        return name
    if found >= _FACTOR:
        return f"{name} ({found:.3g} times)"
    sign = "+" if found > 1 else "−"
    return f"{name} ({sign}{abs(100 * (found - 1)):.2g} %)"


_FACTOR = 1.995


def chart_name(figure: Objective) -> str:
    """Return the name of the chart of a figure's ratios: letters, digits and hyphens."""
    return f"ratio-{figure.name.replace('.', '-')}"


def compared_figures(result: ContestResult) -> list[Objective]:
    """Return the figures that arms are compared by, in their order."""
    return list(dict.fromkeys(row.objective for row in result.compared))


def pair_name(row: Judged) -> str:
    """Return ``nginx-tuned ÷ nginx-stock``."""
    return f"{row.claim.arm} ÷ {row.claim.against}"


def ratio_head(result: ContestResult) -> tuple[str, ...]:
    """Return the head of ``ratio_rows``."""
    return ("second ÷ first", *(figure.words for figure in compared_figures(result)))


def ratio_rows(result: ContestResult) -> tuple[tuple[str | RatioCell, ...], ...]:
    """Return a row for each pair: its name, and a cell for each figure."""
    names = compared_figures(result)
    found: dict[str, dict[Objective, RatioCell]] = {}
    for row in result.compared:
        estimate = row.verdict.estimate
        cell = RatioCell(row.verdict.kind.value, ratio(estimate.ratio), interval(estimate))
        found.setdefault(pair_name(row), {})[row.objective] = cell
    nothing = RatioCell("none", UNKNOWN, "")
    return tuple(
        (pair, *(cells.get(name, nothing) for name in names)) for pair, cells in found.items()
    )


def _claim(row: Judged) -> str:
    found = row.verdict.estimate
    name = row.objective.words
    span = f"{found.low:.3f} to {found.high:.3f}" if found.is_finite else "no interval yet"
    kind = row.verdict.kind
    word = {
        VerdictKind.BETTER: "better",
        VerdictKind.WORSE: "worse",
        VerdictKind.EQUIVALENT: "equal",
    }.get(kind, "~")
    return f"{name} {word}, ratio {ratio(found.ratio)} ({span})"


ARM_HEAD = (
    *("arm", "p50", "p90", "p99", "p99.9", "max", "answered", "failed"),
    *("CPU per request", "of the backend", "memory", "answer size", "capacity"),
)


def arm_table(result: ContestResult) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return head and rows of every arm's figures at the common rate; refused arms have the reason.

    A figure that is known of no arm has no column: percentiles that the windows are too short for,
    and the backend where there is none.
    """
    rows = _arm_rows(result)
    known = [
        place
        for place, name in enumerate(ARM_HEAD)
        if name not in _OPTIONAL or any(row[place] not in {UNKNOWN, ""} for row in rows)
    ]
    return (
        tuple(ARM_HEAD[place] for place in known),
        [tuple(row[place] for place in known) for row in rows],
    )


REFUSED = "refused: "
"""Beginning of the one cell of an arm that the server refused."""
_OPTIONAL = frozenset({"p99.9", "of the backend", "answer size"})


def _arm_rows(result: ContestResult) -> list[tuple[str, ...]]:
    rows = []
    for arm in result.arms:
        if arm.label not in result.contest.capacities_per_s:
            rows.append(
                (
                    arm.label,
                    f"{REFUSED}{arm.refused or 'did not answer'}",
                    *[""] * (len(ARM_HEAD) - 2),
                )
            )
            continue
        capacity = result.contest.capacities_per_s[arm.label]
        at_least = "≥ " * (arm.label in result.contest.generator_bound)
        rows.append(
            (
                arm.label,
                *(figure(arm.latency_us[name], "µs") for name in LATENCIES),
                figure(arm.answered_per_s, "/s"),
                figure(arm.error_share, "share"),
                figure(arm.cpu_us, "µs"),
                figure(arm.backend_cpu_us, "µs"),
                figure(arm.memory_mib, "MiB"),
                f"{arm.answer_bytes:,.0f} B" if math.isfinite(arm.answer_bytes) else UNKNOWN,
                at_least + figure(capacity, "/s"),
            )
        )
    return rows


LADDER_HEAD = (
    "arm",
    "knee",
    "95 %",
    "highest rate within the limit",
    "95 %",
    "availability there on",
)


def ladder_rows(result: ContestResult) -> list[tuple[str, ...]]:
    """Return the knee and the highest rate within the limit of every arm."""
    rows: list[tuple[str, ...]] = []
    for climb in result.climbs:
        last = climb.rungs[-1]
        least = min(
            (r.availability for r in climb.rungs if math.isfinite(r.availability)), default=math.nan
        )
        rows.append(
            (
                climb.arm,
                _reach(climb.knee),
                _span(climb.knee),
                _reach(climb.holds),
                _span(climb.holds),
                (
                    f"{figure(least, 'share')} at worst, {figure(last.availability, 'share')} at"
                    f" {figure(last.rate_per_s, '/s')}"
                ),
            )
        )
    return rows


RUNG_HEAD = ("arm", "offered", "p50", "p99", "available", "server CPU", "windows", "")


def rung_rows(result: ContestResult) -> list[tuple[str, ...]]:
    """Return every arm at every rate of the ladder."""
    return [
        (
            climb.arm,
            figure(rung.rate_per_s, "/s"),
            figure(rung.p50_us, "µs"),
            figure(rung.p99_us, "µs"),
            figure(rung.availability, "share"),
            figure(rung.cpu_cores, "share"),
            str(rung.windows),
            f"{rung.starved} left out: the generator's own limit" if rung.starved else "",
        )
        for climb in result.climbs
        for rung in climb.rungs
    ]


def compared_rows(result: ContestResult) -> list[tuple[str, ...]]:
    """Return every comparison with ratio, interval and adjusted p."""
    return [
        (
            pair_name(row),
            row.objective.words,
            str(row.verdict.kind),
            ratio(row.verdict.estimate.ratio),
            interval(row.verdict.estimate),
            f"{row.adjusted_p:.2g}",
        )
        for row in result.compared
    ]


COMPARED_HEAD = ("second ÷ first", "figure", "verdict", "ratio", "95 % interval", "p, Holm")


def published_rows(result: ContestResult) -> list[tuple[str, ...]]:
    """Return the rows that were published for this case."""
    return [
        (row.server, row.arm, ", ".join(f"{name} {value}" for name, value in row.figures.items()))
        for row in result.published
    ]


def _reach(reach: ReachedRate | None) -> str:
    if reach is None:
        return UNKNOWN
    sign = {"found": "", "beyond": "> ", "below": "< "}[reach.side]
    return sign + figure(reach.per_s, "/s")


def _span(reach: ReachedRate | None) -> str:
    if reach is None or not math.isfinite(reach.low):
        return UNKNOWN
    if reach.side != "found" and reach.low == reach.high:
        # Off the ladder in every resample, so there is no interval.
        return UNKNOWN
    return f"{figure(reach.low, '/s')} to {figure(reach.high, '/s')}"
