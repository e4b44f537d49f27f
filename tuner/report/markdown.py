"""The report for a pull request: GitHub-flavoured Markdown, short first, details folded."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from tuner.judge.results import StudyResult
from tuner.judge.taken_apart import ablation_offer, recommended_changes
from tuner.reading.printable import printable_lines
from tuner.report.facts import (
    Facts,
    baseline_name,
    changes_title,
    host_facts,
    limits,
    method_facts,
    protocol_facts,
    scope,
    search_summary,
)
from tuner.report.section import RatioCell, Section, Table
from tuner.report.study_tables import (
    FIGURES_HEAD,
    LOOKS_HEAD,
    WANTED_HEAD,
    figure_rows,
    look_rows,
    looks_words,
    wanted_rows,
)
from tuner.report.text import time_share
from tuner.report.view import ReportView, view_of
from tuner.stats.words import counted
from tuner.words.figures import (
    PHASE_NAMES,
    figure,
    moment,
    ratio,
    setting,
    slots_in_words,
)
from tuner.words.terminal import duration

_SPECIAL = re.compile(r"([\\`*_\[\]#|~>!])")
_BEGINS_BLOCK = re.compile(r"^(\d{0,9})([-+](?=\s)|[.)](?=\s|$)|=)")
"""A list or a heading, where it stands first."""
_LINKED = re.compile(r"@|#(?=\d)|(?i:\b(?:https?|ftp|mailto|xmpp):|\bwww(?=\.)|\bGH(?=-\d))")
"""Beginning of a mention, an issue's number or an address."""


def render_markdown(
    *studies: StudyResult, pictures: Mapping[str, Sequence[str]] | None = None
) -> str:
    """Return the report as Markdown; everything that a study brought in is escaped.

    Args:
        studies: a study, or a run's contests.
        pictures: Markdown of charts in the same folder, by the anchor of their section, ``outcome``
            or ``end``.
    """
    view = view_of(studies)
    study, record = view.study, view.study.record
    drawn = pictures or {}
    return document(
        [
            f"# {plain(view.name)}",
            *_outcome(view),
            *drawn.get("outcome", ()),
            plain_table(WANTED_HEAD, wanted_rows(study)),
            _figures(study),
            plain(scope(study)),
            *(part for each in view.results for part in _section(each, drawn)),
            _changes(study),
            *(part for each in view.further for part in _section(each, drawn)),
            "### Please note" if view.warnings else "",
            bullets(view.warnings),
            time_share(study),
            folded("Configuration difference", _fenced("diff", study.difference)),
            folded("Every block of the confirmation", _blocks(study)),
            folded("Search", _search(study)),
            folded("Load points", _load_points(study)),
            folded("Diagnostics", _diagnostics(study)),
            folded("Frozen protocol", _facts(protocol_facts(study))),
            folded("Host and method", _facts(host_facts(study) + method_facts(study))),
            folded("Limits of the claim", bullets(limits(study))),
            folded("How to run it again", _fenced("sh", [record.command])),
            f"*Begun {moment(record.started_unix_s)}.*",
            *drawn.get("end", ()),
        ]
    )


def _outcome(view: ReportView) -> list[str]:
    """Return the verdict of a study, or the question of a run, in bold."""
    study = view.study
    if study.contest is not None:
        return [f"**{plain(view.headline)}**", plain(view.where)]
    return [
        f"**{plain(study.sentence)}**",
        plain(study.replication.sentence) if study.replication else "",
    ]


def _section(section: Section, drawn: Mapping[str, Sequence[str]], level: int = 3) -> list[str]:
    """Return the parts of a section; its charts are those that the caller has drawn."""
    parts = [
        f"{'#' * level} {plain(section.title)}",
        plain(section.lead),
        bullets(section.points),
        *drawn.get(section.anchor, ()),
    ]
    for table in section.tables:
        text = _table(table)
        parts.append(folded(table.title, text) if table.folding == "folded" else text)
    parts += [f"*{plain(note)}*" for note in section.notes]
    return parts + [text for inner in section.parts for text in _section(inner, {}, level + 1)]


def _table(table: Table) -> str:
    rows = []
    for first, *cells in table.rows:
        name = code(str(first)) if table.coded else plain(str(first))
        shown = f"**{name}**" if first in table.claimed else name
        rows.append((shown, *map(_cell, cells)))
    return table_of(tuple(map(plain, table.head)), rows)


def _cell(cell: str | RatioCell) -> str:
    """Return a cell; a ratio is bold, with its verdict, where something was shown."""
    if isinstance(cell, str):
        return plain(cell)
    if cell.kind in {"better", "worse"}:
        return f"**{plain(cell.ratio)}** ({plain(cell.interval)}) {cell.kind}"
    return f"{plain(cell.ratio)} ({plain(cell.interval)})"


def document(parts: Iterable[str]) -> str:
    """Return a page of Markdown made of paragraphs; empty ones are left out."""
    return printable_lines("\n\n".join(part for part in parts if part)) + "\n"


def _figures(study: StudyResult) -> str:
    claimed = len(study.goals.objectives)
    rows = [
        (f"**{plain(name)}**" if place < claimed else plain(name), *cells)
        for place, (name, *cells) in enumerate(figure_rows(study.figures))
    ]
    return table_of(("", f"baseline ({plain(baseline_name(study))})", *FIGURES_HEAD[2:]), rows)


def _changes(study: StudyResult) -> str:
    rows = [
        (
            code(change.name),
            code(setting(change.baseline, change.unit)),
            code(setting(change.tuned, change.unit)),
        )
        for change in recommended_changes(study)
    ]
    table = table_of(("setting", "baseline", "tuned"), rows)
    parts = (f"### {changes_title(study)}", table, plain(ablation_offer(study)))
    return "\n\n".join(filter(None, parts)) if table else ""


def _blocks(study: StudyResult) -> str:
    objective = study.objective
    rows = []
    for block in study.confirm:
        first, second = block.values(objective)
        rows.append(
            (
                str(block.index + 1),
                moment(block.started_unix_s)[11:19],
                figure(first, objective.unit),
                figure(second, objective.unit),
                ratio(math.exp(block.difference(objective.difference_ln))),
                slots_in_words(block.slots),
                plain(block.reason) or "used",
            )
        )
    table = table_of(("block", "UTC", "baseline", "tuned", "ratio", "slots", ""), rows)
    if not study.looks:
        return table
    looks = plain_table(LOOKS_HEAD, look_rows(study))
    return f"{table}\n\nAfter each block ({looks_words(study)}):\n\n{looks}"


def _search(study: StudyResult) -> str:
    if not study.trials:
        return ""
    ran = [trial for trial in study.trials if trial.blocks]
    lines = [plain(search_summary(study))]
    if study.shrinkage:
        shrinkage = study.shrinkage
        lines.append(
            f"Trial {shrinkage.trial} had a ratio of {ratio(shrinkage.searched)} in the search and"
            f" {ratio(shrinkage.confirmed)} on fresh blocks."
        )
    lines += [
        f"- {PHASE_NAMES[time.phase]}: {counted(time.blocks, 'block')} ({time.repeated} repeated),"
        f" {duration(time.elapsed_s)}, {figure(time.share, 'share')} of it measuring,"
        f" {time.overhead_s:.1f} s a block for the rest"
        for time in study.times
    ]
    rows = [
        (
            str(trial.number),
            trial.origin,
            trial.state,
            str(trial.blocks),
            ratio(trial.ratio),
            f"{ratio(trial.low)} to {ratio(trial.high)}",
        )
        for trial in sorted(ran, key=lambda trial: study.objective.loss(trial.ratio))[:10]
    ]
    table = table_of(("trial", "origin", "state", "blocks", "ratio", "range"), rows)
    lines += ["", "Search figures, never claims; the best ten:", "", table] if table else []
    return "\n".join(lines)


def _load_points(study: StudyResult) -> str:
    rows = [
        (
            figure(point.rate_per_s, "/s"),
            figure(point.share_of_capacity, "share"),
            point.arm,
            figure(point.value, study.objective.unit),
            plain(point.reason)
            or f"{figure(point.low, study.objective.unit)} to "
            f"{figure(point.high, study.objective.unit)}",
        )
        for point in study.load_points
    ]
    return table_of(("offered", "of capacity", "arm", study.objective.words, "range"), rows)


def _diagnostics(study: StudyResult) -> str:
    return "\n".join(
        f"- {'**warning:** ' if finding.raised else ''}{plain(finding.message)}"
        for finding in study.findings
    )


def _facts(facts: Facts) -> str:
    return table_of(("", ""), [(plain(name), plain(value)) for name, value in facts])


def bullets(lines: Iterable[str]) -> str:
    """Return a list of plain lines."""
    return "\n".join(f"- {plain(line)}" for line in lines)


def folded(title: str, body: str) -> str:
    """Return a part that opens on demand; empty without a body."""
    if not body:
        return ""
    return f"<details>\n<summary>{title}</summary>\n\n{body}\n\n</details>"


def table_of(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """First column to the left, the others to the right; empty without rows."""
    if not rows:
        return ""
    rule = ["---", *["---:"] * (len(head) - 1)] if any(head) else ["---"] * len(head)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def plain_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return ``table_of`` plain cells."""
    return table_of(tuple(map(plain, head)), [tuple(map(plain, row)) for row in rows])


def plain(text: str) -> str:
    """Text that Markdown shows as it is: no markup, no HTML, no link, no mention, one line."""
    entities = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    escaped = _BEGINS_BLOCK.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", entities))
    # GitHub makes links of these in the rendered text, where escapes are gone: a comment parts it.
    return _LINKED.sub(r"\g<0><!-- -->", escaped)


def code(text: str) -> str:
    """Return a code span that holds any text, in a table too."""
    ticks = "`" * (1 + _longest_run(text))
    inner = " ".join(text.split()).replace("|", "\\|")
    pad = " " if inner.startswith("`") or inner.endswith("`") else ""
    return f"{ticks}{pad}{inner}{pad}{ticks}"


def _fenced(language: str, lines: Sequence[str]) -> str:
    """Return a code block that no line can close."""
    if not lines:
        return ""
    fence = "`" * max(3, 1 + max(map(_longest_run, lines)))
    return "\n".join([fence + language, *lines, fence])


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
