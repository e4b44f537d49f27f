"""The formats by name: one document for other tools, from one study or from several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tuner.errors import DefinitionError
from tuner.judge.results import StudyResult
from tuner.outputs.bencher import render_bencher
from tuner.outputs.benchstat import render_benchstat
from tuner.outputs.csv_text import render_csv
from tuner.outputs.formats import DocumentChoice
from tuner.outputs.histograms import chosen_arms, render_hgrm, render_hlog
from tuner.outputs.json_text import json_text
from tuner.outputs.openmetrics import render_openmetrics, study_families
from tuner.report.data import as_data, results_data
from tuner.report.junit import render_junit
from tuner.report.tidy import TABLES


def check_document(choice: DocumentChoice, studies: Sequence[StudyResult]) -> None:
    """Raise DefinitionError if a choice does not apply to these studies.

    Raises:
        DefinitionError: an arm does not exist, or the format needs a claim and the record has none.
    """
    if choice.format in ("hgrm", "hlog"):
        _arms(choice, studies)
    if choice.format == "junit" and all(study.contest for study in studies):
        raise DefinitionError(
            "a run makes no claim that could fail a build; use tuner compare --fail-if",
            path="--format",
        )


def render_document(
    choice: DocumentChoice, studies: Sequence[StudyResult], folders: Sequence[Path]
) -> str:
    """Return a document that `check_document` accepts, with a line feed at its end.

    Args:
        choice: the format and its options.
        studies: a study, several, or a run's contests.
        folders: the folder of each study's results, for ``json``.

    Raises:
        StoreError: the record has no histogram of the arm.
    """
    match choice.format:
        case "csv":
            return render_csv([TABLES[choice.table](study.record) for study in studies])
        case "hgrm":
            return render_hgrm(studies, _arms(choice, studies))
        case "hlog":
            return render_hlog(studies, _arms(choice, studies))
        case "benchstat":
            return render_benchstat(studies)
        case "bencher":
            return render_bencher(studies)
        case "openmetrics":
            return render_openmetrics(study_families(studies))
        case "junit":
            return render_junit(studies)
        case "json":
            return _json(studies, folders)


def _arms(choice: DocumentChoice, studies: Sequence[StudyResult]) -> list[str]:
    return chosen_arms(studies, choice.arm, one=choice.format == "hgrm")


def _json(studies: Sequence[StudyResult], folders: Sequence[Path]) -> str:
    if len(studies) > 1 and not all(study.contest for study in studies):
        found: object = [as_data(*pair) for pair in zip(studies, folders, strict=True)]
    else:
        found = results_data(studies, folders[0])
    return json_text(found) + "\n"
