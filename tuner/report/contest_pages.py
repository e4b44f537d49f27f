"""A run's contests as one page and as Markdown: cases side by side, published figures beside."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any

from tuner.contenders import Contest
from tuner.report.contest import (
    ARM_HEAD,
    COMPARED_HEAD,
    LADDER_HEAD,
    RUNG_HEAD,
    ContestResult,
    arm_rows,
    claims,
    compared_rows,
    headline,
    ladder_rows,
    published_rows,
    rung_rows,
)
from tuner.report.ladder import ladder_charts
from tuner.report.vega import CONFIG, bundle, embedded_json
from tuner.report.words import moment

_SPECIAL = re.compile(r"([\\`*_\[\]#|~>])")
_PUBLISHED_HEAD = ("server", "arm", "published")


def contest_markdown(results: Sequence[ContestResult]) -> str:
    """The contests of one run as Markdown; whatever a study brought in is escaped."""
    first = results[0].contest
    parts = [f"# {_plain(first.title)}", _plain(first.summary)]
    for result in results:
        if result.contest.case:
            parts.append(f"## {_plain(result.contest.case)}")
        parts += [
            _plain(headline(result)),
            _table(ARM_HEAD, arm_rows(result)),
            _bullets(claims(result)),
            _table(_PUBLISHED_HEAD, published_rows(result)),
        ]
        if result.climbs:
            parts += [
                f"### Ladder, limit {_plain(result.contest.limit)}",
                _table(LADDER_HEAD, ladder_rows(result)),
                _folded("Every rate", _table(RUNG_HEAD, rung_rows(result))),
            ]
        parts.append(_folded("Every comparison", _table(COMPARED_HEAD, compared_rows(result))))
    parts += _background(first, results)
    return "\n\n".join(part for part in parts if part) + "\n"


def _background(first: Contest, results: Sequence[ContestResult]) -> list[str]:
    parts = []
    if first.published:
        published = first.published
        parts += [
            f"## Published: {_plain(published.title)}, {_plain(published.year)}",
            _plain(f"{published.setting}. Source: {published.source}"),
            _bullets([f"concluded: {text}" for text in published.concluded]),
            _bullets([f"weak: {text}" for text in published.weak]),
        ]
    return [
        *parts,
        "## Made alike",
        _table(("what", *_servers(first)), _alike_rows(first)),
        "## Not carried over" if _lost(results) else "",
        _bullets(_lost(results)),
        "## Sizes" if _scaling(results) else "",
        _bullets(_scaling(results)),
        "## Please note",
        _bullets(dict.fromkeys(text for result in results for text in result.warnings)),
        f"Run again: `{results[0].record.command}`",
        f"*Begun {moment(results[0].record.started_unix_s)}.*",
    ]


def contest_html(results: Sequence[ContestResult]) -> str:
    """The contests of one run as one file that needs no network."""
    import jinja2

    specs: dict[str, Any] = {}
    shown = []
    for place, result in enumerate(results):
        charts = {f"{name}-{place}": spec for name, spec in ladder_charts(result).items()}
        specs |= charts
        shown.append(
            {
                "result": result,
                "headline": headline(result),
                "claims": claims(result),
                "arms": arm_rows(result),
                "ladder": ladder_rows(result),
                "rungs": rung_rows(result),
                "compared": compared_rows(result),
                "published": published_rows(result),
                "charts": list(charts),
            }
        )
    first = results[0].contest
    css, js = _part("report.css"), _part("report.js")
    library = bundle() if specs else ""
    scripts = [library, js] if specs else []
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["moment"] = moment
    return environment.from_string(_part("contest.html.j2")).render(
        contest=first,
        record=results[0].record,
        cases=shown,
        heads={
            "arms": ARM_HEAD,
            "ladder": LADDER_HEAD,
            "rungs": RUNG_HEAD,
            "compared": COMPARED_HEAD,
            "published": _PUBLISHED_HEAD,
        },
        servers=_servers(first),
        alike=_alike_rows(first),
        lost=_lost(results),
        scaling=_scaling(results),
        warnings=list(dict.fromkeys(text for result in results for text in result.warnings)),
        css=css,
        scripts=scripts,
        chart_data=embedded_json({"config": CONFIG, "charts": specs}),
        policy=(
            f"default-src 'none'; script-src {' '.join(map(_hash, scripts)) or repr('none')};"
            f" style-src {_hash(css)}; base-uri 'none'; form-action 'none'"
        ),
    )


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


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    rule = ["---", *["---:"] * (len(head) - 1)]
    body = [[_plain(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *body))


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {_plain(line)}" for line in lines)


def _folded(title: str, body: str) -> str:
    return f"<details>\n<summary>{title}</summary>\n\n{body}\n\n</details>" if body else ""


def _plain(text: str) -> str:
    """Text that Markdown shows as it is: no markup, no HTML, no mention, one line."""
    entities = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return _SPECIAL.sub(r"\\\1", entities).replace("@", "&#64;")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _part(name: str) -> str:
    return files("tuner.report").joinpath("page", name).read_text(encoding="utf-8")
