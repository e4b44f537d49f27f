"""The results of a study, or of a run's contests, as a folder for publication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from tuner.export.ansible import variables
from tuner.export.configuration import archived, export_files
from tuner.export.private_paths import without_private_paths
from tuner.export.run import run_files, safe
from tuner.judge.results import StudyResult, evaluate
from tuner.paths import inside, write_files
from tuner.record.file import write_record
from tuner.report.charts import charts, file_ending, for_files
from tuner.report.contest_sections import case_anchor
from tuner.report.markdown import folded, plain, render_markdown
from tuner.report.pictures import write_pictures
from tuner.report.shown_trials import for_charts
from tuner.stats.words import counted

_OF_STUDY = ("effect", "blocks", "spectra", "load-points", "rates", "search", "front")
_OF_CONTEST = (
    "ladder-latency",
    "ladder-availability",
    "ratio-p99",
    "ratio-throughput",
    "ratio-p50",
)
"""Charts that the page shows unfolded, in this order."""
_COLOURS = (
    "*Of ratios green is better, red is worse, grey is equal, and where nothing was shown it is"
    " ochre.*"
)


def write_results(studies: Sequence[StudyResult], folder: Path) -> list[Path]:
    """Write report.md with its charts, the configurations, and the reduced records.

    The user's own programs have no path in them (``without_private_paths``).

    Args:
        studies: a study, or a run's contests.
        folder: the folder, which is made.

    Returns:
        The paths written.

    Raises:
        StoreError: a record is too long for an exported file.
    """
    studies = [_published(study) for study in studies]
    # First, because a record may be too long.
    written = _write_records(studies, folder)
    specs, titles = for_files(studies)
    written += write_pictures(specs, titles, folder / "charts", ["svg"])
    page = render_markdown(*studies, pictures=_pictures(studies, titles))
    written += write_files(folder, {"report.md": page})
    return written + write_files(folder, _configurations(studies))


def _write_records(studies: Sequence[StudyResult], folder: Path) -> list[Path]:
    written = []
    for study in studies:
        case = study.contest.contest.case if study.contest else ""
        path = inside(folder, f"record-{safe(case)}.json.gz" if case else "record.json.gz")
        write_record(study.record, path)
        written.append(path)
    return written


def _published(study: StudyResult) -> StudyResult:
    """Return the study without private paths; evaluated again only if there were any."""
    record = without_private_paths(study.record)
    return study if record is study.record else evaluate(record)


def _configurations(studies: Sequence[StudyResult]) -> dict[str, str | bytes]:
    """Return the configurations by path: of all arms, or the tuned and the recommended one."""
    contests = [study.contest for study in studies if study.contest is not None]
    if contests:
        return {f"configurations/{name}": text for name, text in run_files(contests).items()}
    (study,) = studies
    made: dict[str, str | bytes] = {}
    for folder, candidate in archived(study).items():
        files = export_files(study, candidate=candidate) | variables(study, candidate=candidate)
        made |= {f"{folder}/{name}": files[name] for name in files}
    return made


def _pictures(
    studies: Sequence[StudyResult], titles: Mapping[str, str]
) -> dict[str, Sequence[str]]:
    """Return the Markdown of the charts, by the place in the page."""
    places: dict[str, Sequence[str]] = {}
    for number, study in enumerate(studies):
        made, shown = charts(for_charts(study)), _OF_CONTEST if study.contest else _OF_STUDY
        opened = [name for name in shown if name in made]
        rest = [name for name in made if name not in opened]
        ending = file_ending(study)
        first, more = (_drawn(names, ending, titles) for names in (opened, rest))
        fold = [folded(counted(len(more), "further chart"), "\n\n".join(more))] if more else []
        if study.contest is not None:
            places[case_anchor(number)] = [*first, _COLOURS, *fold]
        else:
            places |= {"outcome": first[:1], "end": [*first[1:], *fold]}
    return places


def _drawn(names: Sequence[str], ending: str, titles: Mapping[str, str]) -> list[str]:
    """Return the Markdown of charts in ``charts/``."""
    files = [f"{name}{ending}" for name in names]
    return [f"![{plain(titles.get(name, name))}](charts/{quote(name)}.svg)" for name in files]
