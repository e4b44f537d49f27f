"""A run's contests as one page and as Markdown: cases side by side, with published figures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tuner.judge.contest_results import ContestResult
from tuner.record.contenders import Contest
from tuner.report.apart import apart
from tuner.report.contest import (
    COMPARED_HEAD,
    LADDER_HEAD,
    RUNG_HEAD,
    arm_table,
    brief,
    chart_name,
    compared_figures,
    compared_rows,
    ladder_rows,
    published_rows,
    ratio_head,
    ratio_rows,
    rung_rows,
)
from tuner.report.embed import Spec
from tuner.report.html import page
from tuner.report.markdown import (
    bullets,
    code,
    document,
    folded,
    plain,
    plain_table,
    table_of,
)
from tuner.words.figures import moment

_CHARTS = "tuner.report.charts_of_contests"
TITLES = {
    "ladder-latency": "p99 against offered rate",
    "ladder-availability": "Answered in time against offered rate",
}
"""Title of each chart of a ladder."""
USED_TITLES = {
    "used-cpu": "server, cores busy",
    "used-backend-cpu": "backends, cores busy",
    "used-memory": "server, memory, MiB",
    "used-network": "host, sent, MiB/s",
    "used-switches": "server, context switches/s",
}
"""Title of each chart of resources against rate."""
_UNSAFE = re.compile(r"[^a-z0-9]+")
PUBLISHED_HEAD = ("server", "arm", "published")


def contest_markdown(
    results: Sequence[ContestResult], pictures: Mapping[str, Sequence[str]] | None = None
) -> str:
    """Return the contests of one run as Markdown; everything that a study brought in is escaped.

    Args:
        results: one for each case.
        pictures: Markdown of the charts in the same folder, by case.
    """
    first, record = results[0].contest, results[0].record
    host = record.host
    where = (
        f"{' and '.join(_servers(first))} on {host.cpu_model}, {len(host.cpus)} cores,"
        f" {moment(record.started_unix_s)}, tuner {record.tuner_version}"
    )
    parts = [f"# {plain(first.title)}", plain(first.summary), plain(where)]
    for result in results:
        case = result.contest.case
        if case:
            parts.append(f"## {plain(case)}")
        parts += [
            plain(result.sentence),
            bullets(brief(result)),
            *(pictures or {}).get(case, ()),
            plain_table(*arm_table(result)),
            _ratios(result),
        ]
        if result.published:
            parts += ["Published for this:", plain_table(PUBLISHED_HEAD, published_rows(result))]
        if result.climbs:
            parts += [
                f"### Ladder, limit {plain(result.contest.limit)}",
                plain_table(LADDER_HEAD, ladder_rows(result)),
                folded("Every rate", plain_table(RUNG_HEAD, rung_rows(result))),
            ]
        parts.append(folded("Every comparison", plain_table(COMPARED_HEAD, compared_rows(result))))
    parts += _background(first, results)
    return document(parts)


def _ratios(result: ContestResult) -> str:
    """Pairs by figures: ratio and interval, in bold what was shown."""
    rows = []
    for pair, cells in ratio_rows(result):
        shown = [
            f"**{plain(value)}** ({plain(span)}) {kind}"
            if kind in {"better", "worse"}
            else f"{plain(value)} ({plain(span)})"
            for kind, value, span in cells
        ]
        rows.append((plain(pair), *shown))
    return table_of(ratio_head(result), rows) if rows else ""


def _background(first: Contest, results: Sequence[ContestResult]) -> list[str]:
    parts = []
    if first.published:
        published = first.published
        parts += [
            f"## Published: {plain(published.title)}, {plain(published.year)}",
            plain(f"{published.setting}. Source: {published.source}"),
            bullets([f"concluded: {text}" for text in published.concluded]),
            bullets([f"weak: {text}" for text in published.weak]),
        ]
    return [
        *parts,
        "## Made alike",
        plain_table(("what", *_servers(first)), _alike_rows(first)),
        "## Not carried over" if _lost(results) else "",
        bullets(_lost(results)),
        "## Sizes" if _scaling(results) else "",
        bullets(_scaling(results)),
        "## Please note",
        bullets(dict.fromkeys(text for result in results for text in result.warnings)),
        f"Run again: {code(results[0].record.command)}",
        f"*Begun {moment(results[0].record.started_unix_s)}.*",
    ]


def contest_html(results: Sequence[ContestResult]) -> str:
    """Return the contests of one run as one file that needs no network."""
    specs: dict[str, Any] = {}
    shown = []
    drawn = apart(_CHARTS, "contest_charts", results)
    for place, (result, (ratios, ladder, used)) in enumerate(zip(results, drawn, strict=True)):
        specs |= {f"{name}-{place}": spec for name, spec in (ratios | ladder | used).items()}
        shown.append(
            {
                "result": result,
                "brief": brief(result),
                "arms": arm_table(result),
                "ratios": (ratio_head(result), ratio_rows(result)),
                "ladder": ladder_rows(result),
                "rungs": rung_rows(result),
                "compared": compared_rows(result),
                "published": published_rows(result),
                "ratio_charts": [(f"{n}-{place}", t) for n, t in _ratio_titles(result).items()],
                "ladder_charts": [(f"{name}-{place}", TITLES[name]) for name in ladder],
                "used_charts": [(f"{name}-{place}", USED_TITLES[name]) for name in used],
            }
        )
    first = results[0].contest
    published = [("published", "Published")] if first.published else []
    context = {
        "sections": [
            *((f"case-{i}", r.contest.case or "Result") for i, r in enumerate(results)),
            *published,
            ("alike", "Made alike"),
            ("notes", "Notes"),
        ],
        "contest": first,
        "record": results[0].record,
        "cases": shown,
        "ladder_head": LADDER_HEAD,
        "rung_head": RUNG_HEAD,
        "compared_head": COMPARED_HEAD,
        "published_head": PUBLISHED_HEAD,
        "servers": _servers(first),
        "alike": _alike_rows(first),
        "lost": _lost(results),
        "scaling": _scaling(results),
        "warnings": list(dict.fromkeys(text for result in results for text in result.warnings)),
    }
    return page("contest.html.j2", specs, context)


def contest_pictures(results: Sequence[ContestResult]) -> list[dict[str, tuple[Spec, str]]]:
    """Return each contest's charts by name, with titles that name the case."""
    found = []
    drawn = apart(_CHARTS, "contest_charts", results)
    for result, (ratios, ladder, used) in zip(results, drawn, strict=True):
        case = result.contest.case
        # A case of one's own may be called anything, and this becomes a file's name.
        ending = f"-{_UNSAFE.sub('-', case.lower())}" if case else ""
        words = f", {case}" if case else ""
        known = {n: f"{t}, ratios with 95 % intervals" for n, t in _ratio_titles(result).items()}
        known |= TITLES | {n: f"{t}, against offered rate" for n, t in USED_TITLES.items()}
        charts = (ratios | ladder | used).items()
        found.append({f"{name}{ending}": (spec, f"{known[name]}{words}") for name, spec in charts})
    return found


def _ratio_titles(result: ContestResult) -> dict[str, str]:
    return {chart_name(figure): figure.words for figure in compared_figures(result)}


def _servers(contest: Contest) -> tuple[str, ...]:
    return tuple(f"{server.name} {server.version}" for server in contest.servers)


def _alike_rows(contest: Contest) -> list[tuple[str, ...]]:
    return [
        (f"{alike.what}: {alike.why}", *(alike.by_server.get(s.name, "") for s in contest.servers))
        for alike in contest.alike
    ]


def _lost(results: Sequence[ContestResult]) -> list[str]:
    return list(
        dict.fromkeys(
            f"{contender.server}, {contender.kind}: {text}"
            for result in results
            for contender in result.contest.contenders
            for text in contender.not_carried
        )
    )


def _scaling(results: Sequence[ContestResult]) -> list[str]:
    return [
        f"{result.contest.case}: {text}" if result.contest.case else text
        for result in results
        for text in result.contest.scaling
    ]
