"""A run's results: configurations of all arms with provenance, and a folder for publication."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tuner.export.configuration import comment
from tuner.export.results import folded, picture
from tuner.judge.contest_results import ContestResult
from tuner.paths import inside, write_files
from tuner.record.contenders import Contender
from tuner.record.file import write_record
from tuner.report.contest import brief
from tuner.report.contest_pages import contest_markdown, contest_pictures
from tuner.report.pictures import write_pictures
from tuner.space.space import configuration_yaml

_SHOWN = ("ladder-latency", "ladder-availability", "ratio-p99", "ratio-throughput", "ratio-p50")
"""Prefixes of charts that the page shows unfolded."""
_COLOURS = (
    "*Of ratios green is better, red is worse, grey is equal, and where nothing was shown it is"
    " ochre.*"
)
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def run_files(results: Sequence[ContestResult]) -> dict[str, str]:
    """Return the configurations of all arms by path: the server's own file, and the values.

    An arm with different configurations in several cases has one for each.
    """
    files: dict[str, str] = {}
    digests: dict[str, str] = {}
    for result in results:
        for contender in result.contest.contenders:
            kept = result.record.configurations.get(contender.digest)
            if kept is None:
                continue
            name = safe(contender.label)
            if digests.setdefault(name, contender.digest) != contender.digest:
                name = safe(f"{name}-{result.contest.case}")
            lines = _provenance(result, contender)
            text = configuration_yaml(kept.configuration, lines)
            files.setdefault(f"{name}.yaml", text)
            files.setdefault(f"{name}.{kept.file_name}", comment(lines) + kept.text)
    return files


def write_run(results: Sequence[ContestResult], folder: Path) -> list[Path]:
    """Write report.md with its charts, the configurations, and the reduced records.

    Returns:
        The paths written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    charts = contest_pictures(results)
    specs = {name: spec for mine in charts for name, (spec, _) in mine.items()}
    titles = {name: title for mine in charts for name, (_, title) in mine.items()}
    written = write_pictures(specs, titles, folder / "charts", ["svg"])
    shown: dict[str, Sequence[str]] = {}
    for result, mine in zip(results, charts, strict=True):
        opened = [name for start in _SHOWN for name in mine if name.startswith(start)]
        rest = [picture(name, titles) for name in mine if name not in opened]
        drawn = [picture(name, titles) for name in opened]
        shown[result.contest.case] = [*drawn, _COLOURS, *folded(rest)]
    written += write_files(folder, {"report.md": contest_markdown(results, shown)})
    for result in results:
        case = result.contest.case
        path = inside(folder, f"record-{safe(case)}.json.gz" if case else "record.json.gz")
        write_record(result.record, path)
        written.append(path)
    files = {f"configurations/{name}": text for name, text in run_files(results).items()}
    return written + write_files(folder, files)


def safe(name: str) -> str:
    """Return a name as a safe part of a file name, because users can choose any name."""
    return _UNSAFE.sub("-", name).lstrip(".") or "-"


def _provenance(result: ContestResult, contender: Contender) -> list[str]:
    """Return the provenance of an arm's configuration, and its claims."""
    record, contest = result.record, result.contest
    case = f", {contest.case}" if contest.case else ""
    found = contest.servers[[s.name for s in contest.servers].index(contender.server)]
    return [
        (
            f"From tuner {record.tuner_version}, study {record.name}: {contender.label},"
            f" configuration {contender.digest}: {contender.origin or contender.kind}."
        ),
        *(
            f"{contest.title}{case}: {line}"
            for line in brief(result)
            if contender.label in line.partition(":")[0].split(" against ")
        ),
        (
            f"Holds for {found.name} {found.version}, this workload, rate and host; measure again"
            " elsewhere. Paths, ports and the user are examples: fit them to yours."
        ),
    ]
