"""Why the winner won, in words and tables: the same figures for every form of report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tuner.judge.ablation import Ablation, Check, Part, gained_objective
from tuner.judge.ablation_plan import command_s
from tuner.judge.kinds import kind_of
from tuner.judge.results import StudyResult
from tuner.record.changes import Change, changes_of
from tuner.space.parameter import same
from tuner.stats.paired import PairedEstimate
from tuner.stats.words import counted, p_in_words, percent
from tuner.words.figures import UNKNOWN, interval, ratio, setting
from tuner.words.terminal import duration

HEAD = ("change", "baseline", "tuned", "without it", "p", "it alone", "p", "")


@dataclass(frozen=True, slots=True)
class AblationRow:
    """One change, as a line of the table under ``HEAD``."""

    names: str
    baseline: str
    tuned: str
    without: str
    without_p: str
    alone: str
    alone_p: str
    finding: str

    @property
    def cells(self) -> tuple[str, ...]:
        """The line."""
        return (
            *(self.names, self.baseline, self.tuned, self.without),
            *(self.without_p, self.alone, self.alone_p, self.finding),
        )


def ablation_rows(study: StudyResult) -> list[AblationRow]:
    """A row for every change, the most valuable first; empty before the contrasts are measured."""
    if study.ablation is None:
        return []
    kept = {change.name for change in minimal_changes(study)}
    changed = {change.name: change for change in study.changes}
    return [_row(part, changed, kept) for part in study.ablation.parts]


def ablation_sentence(study: StudyResult) -> str:
    """Return the ablation's finding in a sentence; empty if there was none."""
    found = study.ablation
    if found is None:
        return ""
    if not found.is_over:
        return f"The ablation is not complete; tuner ablate {study.record.name} continues it."
    total = len(found.protocol.contrasts)
    matter = [_names(part) for part in found.parts if part.matters]
    if found.minimal is None:
        return (
            f"{_shown(matter, total)} No smaller difference was shown to keep the gain within"
            f" {percent(found.protocol.margin)}{' and the limits' * bool(study.goals.limits)}:"
            " use all changes."
        )
    if found.minimal == study.candidate:
        return f"All {counted(total, 'change')} matter: leaving out any of them loses."
    kept = [change.name for change in minimal_changes(study)]
    check = next(check for check in found.checks if check.keeps)
    return (
        f"{_shown(matter, total)} {counted(len(kept), 'setting')}"
        f" {'keeps' if len(kept) == 1 else 'keep'} the gain: {', '.join(kept)}."
        f" {_proof(check, found, study)}"
    )


def recommended_changes(study: StudyResult) -> tuple[Change, ...]:
    """Return the changes of the recommended configuration, or what was tried without one."""
    if study.ablation is not None and study.recommended == study.ablation.minimal:
        return minimal_changes(study)
    return study.changes


def advice(study: StudyResult) -> list[str]:
    """Return sentences on the changes that matter, and on those that are not recommended."""
    found = (ablation_sentence(study), left_out_sentence(study), ablation_offer(study))
    return [sentence for sentence in found if sentence]


def left_out(study: StudyResult) -> tuple[str, ...]:
    """Return the changes of the tuned configuration that the recommended one does not have."""
    if study.ablation is None or study.recommended in {study.record.baseline, study.candidate}:
        return ()
    kept = {change.name for change in minimal_changes(study)}
    named = {name for contrast in study.ablation.protocol.contrasts for name in contrast.names}
    return tuple(sorted(named - kept))


def smaller_ratio(study: StudyResult) -> float | None:
    """Return the ratio to the baseline of the smallest difference; None if it was not checked."""
    checks = study.ablation.checks if study.ablation else ()
    kept = next((check for check in checks if check.keeps), None)
    return kept.to_baseline.ratio if kept and kept.to_baseline else None


def left_out_sentence(study: StudyResult) -> str:
    """Return a sentence on the changes that are not recommended; empty without any."""
    names = left_out(study)
    if not names:
        return ""
    return (
        f"Left out, because a share in the gain was not shown: {', '.join(names)}; all changes:"
        f" tuner export {study.record.name} --candidate."
    )


def ablation_offer(study: StudyResult) -> str:
    """Return a sentence on the command that finds which changes matter; empty if it is known.

    It is empty for a single change too, because the verdict itself is about that, and for
    comparisons and replications, which search for nothing.
    """
    changes, record = len(study.changes), study.record
    known = study.ablation is not None or changes < 2
    searched = kind_of(record) == "study" and not record.hosts
    if known or not searched or not study.has_recommendation:
        return ""
    took = duration(60 * math.ceil(command_s(record, changes) / 60))
    return (
        f"Which of the {changes} changes make the gain was not measured: tuner ablate"
        f" {record.name} finds them in about {took}, and only those are recommended then."
    )


def ablation_lines(study: StudyResult) -> list[str]:
    """Return the ablation for a terminal."""
    rows = [HEAD, *(row.cells for row in ablation_rows(study))]
    lines = [ablation_sentence(study)]
    if len(rows) > 1:
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines.append("")
        lines += [
            "  "
            + "  ".join(
                cell.ljust(width) if place in {0, len(row) - 1} else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        lines += ["", f"  {ablation_note(study)}"]
    return lines


def ablation_note(study: StudyResult) -> str:
    """Return a note on how to read the table."""
    if study.ablation is None:
        return ""
    found = study.ablation.protocol
    return (
        f"Without it: {gained_objective(found, study.goals).name} of the tuned configuration with"
        " the baseline's value, as a ratio to the tuned one. Alone: the baseline with the tuned"
        " value, as a ratio to the baseline."
        f" {counted(found.blocks, 'block')}, 95 % intervals, p by Holm over the changes."
    )


def ablation_data(study: StudyResult) -> dict[str, Any]:
    """Return the ablation for scripts; figures that are not there are null."""
    found = study.ablation
    if found is None:
        return {"status": "none", "parts": [], "checks": [], "minimal": None}
    return {
        "status": "over" if found.is_over else "incomplete",
        "sentence": ablation_sentence(study),
        "protocol": found.protocol.digest,
        "objective": gained_objective(found.protocol, study.goals).text,
        "blocks": found.protocol.blocks,
        "margin": found.protocol.margin,
        "parts": [
            {
                "settings": list(part.contrast.names),
                "matters": part.matters,
                "fails_without": part.fails_without,
                "without": _figures(part.reverted, part.reverted_p),
                "alone": _figures(part.added, part.added_p),
            }
            for part in found.parts
        ],
        "checks": [
            {
                "configuration": check.digest,
                "keeps": check.keeps,
                "to_tuned": _figures(check.to_tuned, None),
                "to_baseline": _figures(check.to_baseline, None),
            }
            for check in found.checks
        ],
        "minimal": found.minimal,
        "minimal_changes": [
            {"parameter": change.name, "baseline": change.baseline, "tuned": change.tuned}
            for change in minimal_changes(study)
        ],
    }


def minimal_changes(study: StudyResult) -> tuple[Change, ...]:
    """Return what the smallest difference that keeps the gain changes; empty if none was found."""
    configurations, found = study.record.configurations, study.ablation
    if found is None or found.minimal is None or found.minimal not in configurations:
        return ()
    named = {name for contrast in found.protocol.contrasts for name in contrast.names}
    every = changes_of(configurations[study.record.baseline], configurations[found.minimal])
    candidate = configurations.get(study.candidate or "")
    tuned = candidate.values if candidate else {}
    # Records of older versions do not say which value a setting takes when it becomes active. What
    # the smallest difference keeps was contrasted, and has the tuned value.
    return tuple(
        change
        for change in every
        if change.name in named and change.name in tuned and same(change.tuned, tuned[change.name])
    )


def _shown(matter: Sequence[str], total: int) -> str:
    if not matter:
        return f"None of {counted(total, 'change')} was shown to matter by itself."
    verb = "was" if len(matter) == 1 else "were"
    return f"Of {counted(total, 'change')}, {len(matter)} {verb} shown to matter."


def _proof(check: Check, found: Ablation, study: StudyResult) -> str:
    assert check.to_tuned is not None  # noqa: S101 - it keeps the gain
    assert check.to_baseline is not None  # noqa: S101 - it keeps the gain
    larger = gained_objective(found.protocol, study.goals).larger_is_better
    least, direction = (check.to_tuned.low, "least") if larger else (check.to_tuned.high, "most")
    return (
        f"With them alone the ratio to all changes is {ratio(check.to_tuned.ratio)}, at {direction}"
        f" {ratio(least)} where {percent(found.protocol.margin)} may be lost (one-sided, all checks"
        f" together at {percent(found.protocol.alpha)}); to the baseline"
        f" {ratio(check.to_baseline.ratio)} ({interval(check.to_baseline)}),"
        f" n = {counted(check.blocks, 'fresh block')}."
    )


def _row(part: Part, changed: dict[str, Change], kept: set[str]) -> AblationRow:
    names = part.contrast.names
    pairs = [changed[name] for name in names if name in changed]
    return AblationRow(
        names=" + ".join(names),
        baseline=" + ".join(setting(change.baseline, change.unit) for change in pairs),
        tuned=" + ".join(setting(change.tuned, change.unit) for change in pairs),
        without=_cell(part.reverted, same=part.contrast.reverted is None),
        without_p=_p(part.reverted, part.reverted_p),
        alone=_cell(part.added, same=part.contrast.added is None),
        alone_p=_p(part.added, part.added_p),
        finding=_finding(part, kept=bool(kept & set(names))),
    )


def _finding(part: Part, *, kept: bool) -> str:
    if part.fails_without:
        return "the load fails without it"
    if part.matters:
        return "matters"
    return "kept to be safe" if kept else "not shown to matter"


def _cell(found: PairedEstimate | None, *, same: bool) -> str:
    if found is None:
        return "no effect" if same else UNKNOWN
    return f"{ratio(found.ratio)} ({interval(found)})"


def _p(found: PairedEstimate | None, adjusted: float) -> str:
    return p_in_words(adjusted).removeprefix("p = ") if found else ""


def _names(part: Part) -> str:
    return " + ".join(part.contrast.names)


def _figures(found: PairedEstimate | None, adjusted: float | None) -> dict[str, Any] | None:
    if found is None:
        return None
    figures: dict[str, Any] = {
        "ratio": found.ratio,
        "low": found.low,
        "high": found.high if math.isfinite(found.high) else None,
        "confidence": found.confidence,
        "p_value": found.p_value,
        "blocks": found.n,
    }
    return figures if adjusted is None else {**figures, "p_adjusted": adjusted}
