"""The list of published results: question, machine and outcome of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from tuner.export.configuration import archived
from tuner.judge.results import evaluate
from tuner.record.file import read_record
from tuner.record.model import Record
from tuner.report.markdown import document, plain
from tuner.report.standings import legend, orders, other_pairs
from tuner.words.figures import moment

_HEAD = """\
# Results of studies

Real output of tuner, kept as it was: each folder holds the report with its charts, the
configurations that were measured, and the record, from which `tuner report FOLDER/record*.json.gz`
makes the whole page again. `tuner export NAME --results studies/results/NAME` made this list.
"""
_SMALL = """\
**What a machine of {cores} shared cores can show:** which of several configurations is better
*there*, because they run side by side, freshly started, in random order, within the same minutes.
What it cannot show is what a server does on hardware of its own: load generator, server and
backends share a few cores, and a hypervisor takes them away at times. A short run has few blocks,
so *nothing shown* means that it was too short for the difference, not that there is none. Run it
again on your own machine.
"""
_FEW_CORES = 4


def write_index(folder: Path) -> Path | None:
    """Write README.md of a folder of results; return None if there are none.

    Raises:
        StoreError: a record there cannot be read.
    """
    kept = {
        place: [read_record(path) for path in sorted(place.glob("record*.json.gz"))]
        for place in sorted(folder.iterdir())
        if place.is_dir()
    }
    found = {place: records for place, records in kept.items() if records}
    if not found:
        return None
    cores = min(len(record.host.cpus) for records in found.values() for record in records)
    parts = [_HEAD]
    if cores < _FEW_CORES:
        parts.append(_SMALL.format(cores=cores))
    for place, records in found.items():
        records.sort(key=lambda record: record.started_unix_s)
        parts.append("\n".join(_entry(place.name, records)))
    path = folder / "README.md"
    path.write_text(document([part.rstrip("\n") for part in parts]), encoding="utf-8")
    return path


def _entry(name: str, records: Sequence[Record]) -> list[str]:
    first = records[0]
    host = first.host
    servers = [first.server] if first.contest is None else list(first.contest.servers)
    where = (
        f"{' and '.join(s.words for s in servers)}; {host.cpu_model},"
        f" {len(host.cpus)} cores, {host.distribution}, {host.kernel};"
        f" {moment(first.started_unix_s)}, tuner {first.tuner_version}"
    )
    files = " · ".join([f"[report]({quote(name)}/report.md)", *_configurations(records, name)])
    lines = [f"## {plain(name)}", "", plain(_summary(first)), "", f"*{plain(where)}* · {files}", ""]
    legends: dict[str, None] = {}
    for record in records:
        found = evaluate(record)
        if found.contest is None:
            lines.append(f"- {plain(found.sentence)}")
            continue
        case = f"{found.contest.contest.case}: " if found.contest.contest.case else ""
        legends |= dict.fromkeys(legend(found.contest))
        points = [*orders(found.contest), *other_pairs(found.contest)]
        lines += [f"- {plain(case + line)}" for line in points]
    return [*lines, "", f"*{plain(' '.join(legends))}*"] if legends else lines


def _summary(record: Record) -> str:
    if record.contest is not None:
        return record.contest.summary
    definition = record.definition
    return f"tuner optimize: {definition.get('objective')}, workload {definition.get('workload')}"


def _configurations(records: Sequence[Record], name: str) -> list[str]:
    """Return links to the folders of configurations."""
    if records[0].contest is not None:
        return [f"[configurations]({quote(name)}/configurations)"]
    titles = {"best": "recommended configuration"}
    folders = archived(evaluate(records[0]))
    return [f"[{titles.get(each, 'configuration')}]({quote(name)}/{each})" for each in folders]
