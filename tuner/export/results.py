"""A study's results as a folder for publication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from tuner.export.ansible import variables
from tuner.export.configuration import export_files
from tuner.judge.results import StudyResult
from tuner.paths import inside, write_files
from tuner.record.file import write_record
from tuner.report import markdown
from tuner.report.charts import charts, titles
from tuner.report.markdown import document, plain, render_markdown
from tuner.report.pictures import write_pictures
from tuner.stats.words import counted

SHOWN = ("effect", "blocks", "spectra", "load-points", "rates", "search", "front")
"""Charts that the page shows unfolded, in this order."""


def write_results(study: StudyResult, folder: Path) -> list[Path]:
    """Write report.md with its charts, the configurations, and the reduced record.

    Returns:
        The paths written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    specs, names = charts(study), titles(study)
    written = write_pictures(specs, names, folder / "charts", ["svg"])
    written += write_files(folder, {"report.md": _page(study, list(specs), names)})
    record = inside(folder, "record.json.gz")
    write_record(study.record, record)
    written.append(record)
    kinds = [("baseline", False)] if study.candidate is None else [("tuned", True)]
    for name, candidate in kinds:
        files = export_files(study, candidate=candidate) | variables(study, candidate=candidate)
        written += write_files(folder, {f"{name}/{file}": text for file, text in files.items()})
    return written


def _page(study: StudyResult, drawn: list[str], names: dict[str, str]) -> str:
    shown = [name for name in SHOWN if name in drawn]
    further = [name for name in drawn if name not in shown]
    head, _, rest = render_markdown(study).partition("\n\n**")
    parts = [
        head,
        f"**{rest.partition(chr(10))[0]}",
        *(picture(name, names) for name in shown[:1]),
        rest.partition("\n\n")[2].rstrip("\n"),
        *(picture(name, names) for name in shown[1:]),
        *folded([picture(name, names) for name in further]),
    ]
    return document(parts)


def folded(pictures: Sequence[str]) -> list[str]:
    """Return charts in a folded section; empty without charts."""
    summary = counted(len(pictures), "further chart")
    return [markdown.folded(summary, "\n\n".join(pictures))] if pictures else []


def picture(name: str, names: Mapping[str, str]) -> str:
    """Return the Markdown of a chart in ``charts/``."""
    return f"![{plain(names.get(name, name))}](charts/{quote(name)}.svg)"
