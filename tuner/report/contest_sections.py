"""The contests of a run as sections of a report: a case each, then what all have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tuner.judge.contest_results import ContestResult
from tuner.record.contenders import Contest, server_keys, server_words
from tuner.report.contest_tables import (
    COMPARED_HEAD,
    LADDER_HEAD,
    RUNG_HEAD,
    arm_table,
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
from tuner.report.section import Picture, Section, Table
from tuner.report.standings import legend, orders, other_pairs

LADDER_TITLES = {
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
_RATIO_LEGEND = (
    ("", "left of 1: the second has less"),
    *((f"kind-word-{kind}", kind) for kind in ("better", "worse", "equivalent", "inconclusive")),
)
_LADDER_NOTE = (
    "Colours are servers (or configurations, where there is one server), strokes configurations."
    " Thin lines: the knee, where p99 is twice what it is on an idle server. Dashed: the limit."
)
PUBLISHED_HEAD = ("server", "arm", "published")


def contest_titles(result: ContestResult) -> dict[str, str]:
    """Return the title of each chart of a contest, with the name of its case."""
    case = f", {result.contest.case}" if result.contest.case else ""
    known = {n: f"{t}, ratios with 95 % intervals" for n, t in _ratio_titles(result).items()}
    known |= LADDER_TITLES | {n: f"{t}, against offered rate" for n, t in USED_TITLES.items()}
    return {name: f"{title}{case}" for name, title in known.items()}


def case_sections(results: Sequence[ContestResult], specs: Mapping[str, Spec]) -> list[Section]:
    """Return a section for each case: claims, arms, ratios, published figures, ladder.

    Args:
        results: one for each case.
        specs: charts by their name with the number of the case; none are shown without.
    """
    return [_case(result, place, specs) for place, result in enumerate(results)]


def common_sections(results: Sequence[ContestResult]) -> list[Section]:
    """Return what the cases of a run have in common: published results, and what was made alike."""
    first = results[0].contest
    sections = []
    if published := first.published:
        sections.append(
            Section(
                f"Published: {published.title}, {published.year}",
                "published",
                f"{published.setting}. Source: {published.source}",
                "Published",
                points=(
                    *(f"concluded: {text}" for text in published.concluded),
                    *(f"weak: {text}" for text in published.weak),
                ),
            )
        )
    names = server_words(first.servers)
    alike = Table(("what", *names), tuple(_alike_rows(first)), wordy=True)
    parts = (
        Section("Not carried over from published configurations", points=tuple(_lost(results))),
        Section("Sizes", points=tuple(_scaling(results))),
    )
    shown = tuple(part for part in parts if part.points)
    return [*sections, Section("Made alike", "alike", tables=(alike,), parts=shown)]


def case_anchor(place: int) -> str:
    """Return the anchor of the section of a case, by its place in the run."""
    return f"case-{place}"


def _case(result: ContestResult, place: int, specs: Mapping[str, Spec]) -> Section:
    def pictures(titles: Mapping[str, str], label: str, *, small: bool) -> tuple[Picture, ...]:
        return tuple(
            Picture(full, f"{title}{label}", specs[full], title=title if small else "")
            for name, title in titles.items()
            if (full := f"{name}-{place}") in specs
        )

    head, rows = arm_table(result)
    words = " ".join(legend(result))
    parts = [_ratios(result, pictures), _published(result), *_ladder(result, pictures)]
    return Section(
        result.contest.case or "Result",
        case_anchor(place),
        f"{result.sentence}. {words}" if words else result.sentence,
        points=(*orders(result), *other_pairs(result)),
        tables=(Table(head, tuple(rows)),),
        parts=tuple(part for part in parts if part.tables),
    )


_Pictures = Callable[..., tuple[Picture, ...]]


def _ratios(result: ContestResult, pictures: _Pictures) -> Section:
    label = ": ratios of every pair with their intervals"
    tables = (
        Table(
            ratio_head(result),
            ratio_rows(result),
            title="The same as a table",
            folding="repeats a chart",
        ),
        Table(
            COMPARED_HEAD,
            tuple(compared_rows(result)),
            title="Every comparison, with p",
            folding="folded",
        ),
    )
    return Section(
        "Ratios with 95 % intervals",
        legend=_RATIO_LEGEND,
        pictures=pictures(_ratio_titles(result), label, small=True),
        tables=tables if result.compared else (),
    )


def _published(result: ContestResult) -> Section:
    table = Table(PUBLISHED_HEAD, tuple(published_rows(result)), wordy=True)
    return Section("Published for this", tables=(table,) if result.published else ())


def _ladder(result: ContestResult, pictures: _Pictures) -> Iterable[Section]:
    if not result.climbs:
        return
    drawn = pictures(LADDER_TITLES, "", small=False)
    yield Section(
        f"Ladder: limit {result.contest.limit}",
        pictures=drawn,
        tables=(Table(LADDER_HEAD, tuple(ladder_rows(result))),),
        notes=(_LADDER_NOTE,) if drawn else (),
    )
    every = Table(RUNG_HEAD, tuple(rung_rows(result)), title="As a table", folding="folded")
    yield Section(
        "Every rate of the ladder",
        pictures=pictures(USED_TITLES, ", against offered rate", small=True),
        tables=(every,),
    )


def _ratio_titles(result: ContestResult) -> dict[str, str]:
    return {chart_name(figure): figure.words for figure in compared_figures(result)}


def _alike_rows(contest: Contest) -> list[tuple[str, ...]]:
    keys = server_keys(contest.servers)
    return [
        (f"{alike.what}: {alike.why}", *(alike.by_server.get(key, "") for key in keys))
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
