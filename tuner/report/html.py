"""The report as one HTML file that needs no network and runs no code but its own.

Whatever the study brought in (names, the server's messages, values) is escaped by Jinja, or is
JSON in which no markup can stand. The content security policy names the page's scripts by hash,
so that even markup that slipped through could not run.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tuner.judge.arms import Figure, block_labels
from tuner.judge.results import StudyResult
from tuner.judge.taken_apart import ablation_offer, left_out, recommended_changes
from tuner.reading.printable import printable_lines
from tuner.report.apart import apart
from tuner.report.facts import (
    aa_facts,
    allowed_trades,
    baseline_name,
    changes_title,
    claimable_effect,
    definition_facts,
    host_facts,
    limits,
    method_facts,
    order_words,
    protocol_facts,
    scope,
    search_summary,
)
from tuner.report.section import Section, Table
from tuner.report.shown_trials import for_charts, shown_trials, shown_words
from tuner.report.study_tables import (
    FIGURES_HEAD,
    LOOKS_HEAD,
    WANTED_HEAD,
    figure_name,
    figure_rows,
    look_rows,
    looks_words,
    p_column,
    wanted_rows,
)
from tuner.report.view import ReportView, view_of
from tuner.stats.words import counted, p_in_words, signed_percent
from tuner.words.figures import (
    PHASE_NAMES,
    UNKNOWN,
    figure,
    interval,
    moment,
    ratio,
    setting,
    slots_in_words,
)
from tuner.words.terminal import duration

if TYPE_CHECKING:
    import jinja2

_TRADED = (
    "p50",
    "p99",
    "p99.9",
    "p99, raw",
    "throughput",
    "server CPU per request",
    "server memory (RSS)",
    "errors and timeouts per window",
)


def render_html(*studies: StudyResult, further: Sequence[Section] = ()) -> str:
    """Return the report as one self-contained HTML file.

    Args:
        studies: a study, or a run's contests.
        further: further sections.
    """
    specs, slices = apart("tuner.report.charts", "for_page", [*map(for_charts, studies)])
    view = view_of(studies, specs, further)
    context = _context(view, specs) | {"slices": slices}
    pictures = (picture for part in view.further for picture in part.all_pictures)
    specs |= {picture.name: dict(picture.spec) for picture in pictures}
    return page("report.html.j2", specs, context)


def page(
    template: str, specs: Mapping[str, Mapping[str, object]], context: Mapping[str, Any]
) -> str:
    """Return a page that carries its style, its scripts and its data with it.

    Args:
        template: name of the file in ``tuner/report/page``.
        specs: charts by the id of their place.
        context: what the template shows.
    """
    from tuner.report.embed import CONFIG, bundle, embedded_json

    css, js = _part("report.css"), _part("report.js")
    library = bundle() if specs else ""
    made = _environment().get_template(template)
    return made.render(
        **context,
        charts=specs,
        css=css,
        js=js,
        bundle=library,
        chart_data=embedded_json({"config": CONFIG, "charts": specs}),
        policy=_policy(scripts=[library, js] if specs else [js], style=css),
    )


@functools.cache
def _environment() -> jinja2.Environment:
    """Return the environment of all pages, which compiles each template once."""
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.FunctionLoader(_part),
        autoescape=True,
        # What is marked as safe is the page's own.
        finalize=lambda v: printable_lines(v) if type(v) is str else v,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= _FILTERS
    return made


def _context(view: ReportView, specs: Mapping[str, object]) -> dict[str, Any]:
    """Return the template's context: the view, and the study in full."""
    study = view.study
    sections = _sections(view, specs)
    p_head, p_cells = p_column(study.figures)
    return {
        "view": view,
        "study": study,
        "record": study.record,
        "objective": study.objective,
        "claimable": claimable_effect(study),
        "order_words": order_words(study),
        "sections": sections,
        "shown": {anchor for anchor, _ in sections},
        "kind_class": study.verdict.kind.value if study.verdict else "none",
        "baseline_name": baseline_name(study),
        "changes_title": changes_title(study),
        "advised": recommended_changes(study),
        "left_out": left_out(study),
        "offer": ablation_offer(study),
        "recommended": study.has_recommendation,
        "traded": [entry for entry in study.figures[1:] if entry.name in _TRADED],
        "figures": Table(
            (*FIGURES_HEAD, p_head),
            tuple((*row, p) for row, p in zip(figure_rows(study.figures), p_cells, strict=True)),
            claimed=tuple(entry.name for entry in study.figures[: len(study.goals.objectives)]),
        ),
        "usage": Table(("resource", *FIGURES_HEAD[1:]), tuple(figure_rows(study.usage))),
        "looks": Table(LOOKS_HEAD, tuple(look_rows(study))),
        "looks_words": looks_words(study),
        "wanted": Table(WANTED_HEAD, tuple(wanted_rows(study))),
        "allowed": allowed_trades(study),
        "blocks": _blocks(study),
        "repeated": [b for b in study.record.blocks if b.state in {"invalid", "failed"}],
        "scope": scope(study),
        "search_summary": search_summary(study),
        "shown_trials": shown_trials(study),
        "shown_words": shown_words(study),
        "difference": [
            (_line_kind(line, place), line) for place, line in enumerate(study.difference)
        ],
        "aa_facts": aa_facts(study),
        "host_facts": host_facts(study),
        "method_facts": method_facts(study),
        "protocol_facts": protocol_facts(study),
        "definition": definition_facts(study),
        "limits": limits(study),
        "phase_names": PHASE_NAMES,
    }


def _sections(view: ReportView, specs: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return anchor and title of every section that the view has something for."""
    study = view.study
    entries: tuple[tuple[str, str, object], ...] = (
        ("changes", "Changes", study.candidate and study.contest is None),
        *_titles(view.results),
        ("blocks", "Blocks", study.confirm),
        ("spectra", "Spectra", "spectra" in specs),
        ("figures", "Figures", study.figures),
        ("load-points", "Load", study.load_points),
        *_titles(view.further),
        ("search", "Search", study.trials),
        ("resources", "Resources", study.usage),
        ("difference", "Difference", study.difference),
        ("aa", "A/A", study.record.calibration),
        ("diagnostics", "Checks", study.findings),
        ("time", "Time", study.times),
        ("method", "Method", True),
        ("limits", "Limits", True),
        ("again", "Again", True),
    )
    return [(anchor, title) for anchor, title, present in entries if present]


def _titles(sections: Sequence[Section]) -> list[tuple[str, str, object]]:
    return [(section.anchor, section.short or section.title, True) for section in sections]


def _blocks(study: StudyResult) -> list[dict[str, Any]]:
    rows = []
    for block, label in zip(study.confirm, block_labels(study.confirm), strict=True):
        baseline, tuned = block.values(study.objective)
        rows.append(
            {
                "label": label,
                "time": moment(block.started_unix_s)[11:19],
                "baseline": baseline,
                "tuned": tuned,
                "excluded": block.excluded(),
                "slots": slots_in_words(block.slots),
                "reason": block.reason,
            }
        )
    return rows


def _line_kind(line: str, place: int) -> str:
    """Class of a line of a unified difference; its first two lines name the files."""
    if place < 2:
        return "file"
    return {"+": "add", "-": "del", "@": "hunk"}.get(line[:1], "same")


def _change(entry: Figure) -> str:
    """Return the change in percent; ``~`` where none is detectable, as benchstat writes it."""
    if entry.change is None or not entry.change.is_finite:
        return UNKNOWN
    if not entry.change.excludes_no_change:
        return "~"
    return signed_percent(entry.change.ratio - 1).replace("-", "−")


def _policy(scripts: Sequence[str], style: str) -> str:
    """Nothing from anywhere, and only these scripts and this style sheet."""
    allowed = " ".join(_source_hash(script) for script in scripts)
    return (
        f"default-src 'none'; script-src {allowed}; style-src {_source_hash(style)};"
        " base-uri 'none'; form-action 'none'"
    )


def _source_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _part(name: str) -> str:
    return files("tuner.report").joinpath("page", name).read_text(encoding="utf-8")


_FILTERS: dict[str, Callable[..., str]] = {
    "change": _change,
    "counted": counted,
    "figure": figure,
    "figure_name": figure_name,
    "interval": interval,
    "moment": moment,
    "p_in_words": p_in_words,
    "ratio": ratio,
    "duration": duration,
    "setting": setting,
}
