"""The configurations of all arms of a run, with their provenance."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tuner.export.configuration import comment
from tuner.judge.contest_results import ContestResult
from tuner.record.contenders import Contender
from tuner.report.contest_tables import brief
from tuner.space.space import configuration_yaml

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


def safe(name: str) -> str:
    """Return a name as a safe part of a file name, because users can choose any name."""
    return _UNSAFE.sub("-", name).lstrip(".") or "-"


def _provenance(result: ContestResult, contender: Contender) -> list[str]:
    """Return the provenance of an arm's configuration, and its claims."""
    record, contest = result.record, result.contest
    case = f", {contest.case}" if contest.case else ""
    found = contest.server_of(contender)
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
            f"Holds for {found.words}, this workload, rate and host; measure again"
            " elsewhere. Paths, ports and the user are examples: fit them to yours."
        ),
    ]
