"""A contest in words: for the terminal, a pull request, and scripts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tuner.goals.objective import Objective
from tuner.judge.climbs import ReachedRate
from tuner.judge.comparison import Judged
from tuner.judge.contest_results import ContestResult
from tuner.report.data import finite, ratio_data
from tuner.stats.verdict import VerdictKind
from tuner.words.figures import UNKNOWN, figure, interval, ratio

LATENCIES = ("p50", "p90", "p99", "p99.9", "max")


def claims(result: ContestResult) -> list[str]:
    """Return one sentence for each pair of arms: which is better at what."""
    lines = []
    for pair, rows in _by_pair(result).items():
        lines.append(f"{' against '.join(pair)}: {'; '.join(map(_claim, rows))}")
    return lines


def brief(result: ContestResult) -> list[str]:
    """Return ``claims`` without the intervals, for use next to a table or a picture of them."""
    lines = []
    for pair, rows in _by_pair(result).items():
        parts = []
        for kind, word in _BRIEF.items():
            names = [_change(row) for row in rows if row.verdict.kind is kind]
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
    VerdictKind.INCONCLUSIVE: "nothing shown in",
}


def _change(row: Judged) -> str:
    """Return ``p50 (−32 %)``; far from one as a factor: ``memory (6.11 times)``."""
    name, found = row.objective.words, row.verdict.estimate.ratio
    if row.verdict.kind not in {VerdictKind.BETTER, VerdictKind.WORSE}:
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


def ratio_rows(result: ContestResult) -> list[tuple[str, tuple[tuple[str, str, str], ...]]]:
    """Return a row for each pair: its name, and for each figure verdict, ratio and interval."""
    names = compared_figures(result)
    found: dict[str, dict[Objective, tuple[str, str, str]]] = {}
    for row in result.compared:
        estimate = row.verdict.estimate
        cell = (row.verdict.kind.value, ratio(estimate.ratio), interval(estimate))
        found.setdefault(pair_name(row), {})[row.objective] = cell
    nothing = ("none", UNKNOWN, "")
    return [
        (pair, tuple(cells.get(name, nothing) for name in names)) for pair, cells in found.items()
    ]


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
    """Head and rows of every arm's figures at the common rate; those that were refused say why.

    What is known of no arm has no column: percentiles that the windows are too short for, and the
    backend where there is none.
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


_REFUSED = "refused: "
_OPTIONAL = frozenset({"p99.9", "of the backend", "answer size"})


def _arm_rows(result: ContestResult) -> list[tuple[str, ...]]:
    rows = []
    for arm in result.arms:
        if arm.label not in result.contest.capacities_per_s:
            rows.append(
                (
                    arm.label,
                    f"{_REFUSED}{arm.refused or 'did not answer'}",
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


def text_lines(result: ContestResult, width: float = math.inf) -> list[str]:
    """For the terminal: tables within ``width`` columns, and sentences as long as they are."""
    lines = [result.sentence, *_columns(*arm_table(result), width)]
    if result.climbs:
        lines += [
            "",
            f"ladder, limit {result.contest.limit}; knee where p99 is twice an idle server's",
        ]
        lines += _columns(LADDER_HEAD, ladder_rows(result), width)
    if result.compared:
        lines += ["", "ratios with 95 % intervals, claims adjusted by Holm (~ : nothing shown)"]
        lines += [f"  {line}" for line in claims(result)]
    if result.published:
        lines += ["", "published"]
        lines += [f"  {' '.join(row[:2])}: {row[2]}" for row in published_rows(result)]
    lines += [f"warning  {text}" for text in result.warnings]
    return lines


def contest_data(result: ContestResult) -> dict[str, Any]:
    """For scripts; what is not known is null."""
    contest = result.contest
    return {
        "study": result.record.name,
        "title": contest.title,
        "case": contest.case,
        "mode": contest.mode,
        "rate_per_s": contest.rate_per_s if contest.mode == "open" else None,
        "blocks": len(result.blocks),
        "arms": [
            {
                "arm": arm.label,
                "configuration": result.contender(arm.label).digest,
                "capacity_per_s": contest.capacities_per_s.get(arm.label),
                "latency_us": {name: finite(value) for name, value in arm.latency_us.items()},
                "answered_per_s": finite(arm.answered_per_s),
                "error_share": finite(arm.error_share),
                "cpu_us_per_request": finite(arm.cpu_us),
                "backend_cpu_us_per_request": finite(arm.backend_cpu_us),
                "memory_mib": finite(arm.memory_mib),
                "bytes_per_answer": finite(arm.answer_bytes),
                "refused": arm.refused or None,
            }
            for arm in result.arms
        ],
        "compared": [
            {
                "first": row.claim.against,
                "second": row.claim.arm,
                "figure": row.objective.name,
                "verdict": str(row.verdict.kind),
                **ratio_data(row.verdict.estimate),
                "p_value_holm": row.adjusted_p,
            }
            for row in result.compared
        ],
        "ladder": [
            {
                "arm": climb.arm,
                "knee_per_s": climb.knee.per_s if climb.knee else None,
                "limit": contest.limit,
                "highest_within_limit_per_s": climb.holds.per_s if climb.holds else None,
                "side": climb.holds.side if climb.holds else None,
                "low_per_s": finite(climb.holds.low) if climb.holds else None,
                "high_per_s": finite(climb.holds.high) if climb.holds else None,
                "generator_limit_per_s": climb.generator_limit_per_s,
                "rungs": [
                    {
                        "rate_per_s": rung.rate_per_s,
                        "p50_us": finite(rung.p50_us),
                        "p99_us": finite(rung.p99_us),
                        "availability": finite(rung.availability),
                        "server_cpu_cores": finite(rung.cpu_cores),
                    }
                    for rung in climb.rungs
                ],
            }
            for climb in result.climbs
        ],
        "alike": [{"what": a.what, "by_server": dict(a.by_server)} for a in contest.alike],
        "scaling": list(contest.scaling),
        "not_carried": {c.label: list(c.not_carried) for c in contest.contenders if c.not_carried},
        "published": [
            {"server": row.server, "arm": row.arm, "figures": dict(row.figures)}
            for row in result.published
        ],
        "warnings": list(result.warnings),
    }


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


def _columns(head: Sequence[str], rows: Sequence[Sequence[str]], width: float) -> list[str]:
    """Return rows under a head, the first column to the left, the others to the right.

    Columns for which there is no room come in a further table, after the first column again.
    """
    table = [head, *rows]
    whole = [row for row in table if not _is_refusal(row)]
    widths = [max(len(row[place]) for row in whole) for place in range(len(head))]
    parts: list[list[int]] = [[]]
    for place in range(1, len(head)):
        taken = sum(len(_GAP) + widths[other] for other in (0, *parts[-1], place))
        if parts[-1] and taken > width:
            parts.append([])
        parts[-1].append(place)
    lines = []
    for number, part in enumerate(parts):
        lines += [""] * (number > 0)
        for row in table:
            if _is_refusal(row):
                # Its words stand in the place of all figures, once.
                lines += [f"{_GAP}{row[0].ljust(widths[0])}{_GAP}{row[1]}"] * (number == 0)
                continue
            cells = [row[0].ljust(widths[0]), *(row[p].rjust(widths[p]) for p in part)]
            lines.append(_GAP + _GAP.join(cells).rstrip())
    return lines


_GAP = "  "


def _is_refusal(row: Sequence[str]) -> bool:
    return any(cell.startswith(_REFUSED) for cell in row[1:2])
