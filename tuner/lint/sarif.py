"""Findings in SARIF, the format of code reviews.

Static Analysis Results Interchange Format 2.1.0, OASIS 2020
(https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tuner import __version__
from tuner.lint.finding import Finding, Severity

_LEVELS: dict[Severity, str] = {"wrong": "error", "costs": "warning", "style": "note"}


def sarif(found: Sequence[Finding], folder: Path) -> dict[str, Any]:
    """Return findings as a SARIF log with one run.

    Args:
        found: the findings.
        folder: absolute folder of the checkout, from which paths of files count.
    """
    rules = {finding.rule: _rule(finding) for finding in found}
    order = {name: index for index, name in enumerate(rules)}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "tuner doctor",
                        "version": __version__,
                        "rules": list(rules.values()),
                    }
                },
                "results": [
                    {
                        "ruleId": finding.rule,
                        "ruleIndex": order[finding.rule],
                        "level": _LEVELS[finding.severity],
                        "message": {"text": f"{finding.what}: {finding.place}. {finding.remedy}"},
                        "locations": list(_locations(finding, folder)),
                    }
                    for finding in found
                ],
            }
        ],
    }


def _rule(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.rule,
        "shortDescription": {"text": finding.why},
        "help": {"text": finding.remedy},
        "helpUri": finding.link,
        "defaultConfiguration": {"level": _LEVELS[finding.severity]},
    }


def _locations(finding: Finding, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the place of a finding, then the further ones."""
    places: list[tuple[str, int | None]] = [(finding.file, finding.line)]
    for other in finding.also:
        file, _, number = other.rpartition(":")
        places.append((file, int(number)))
    for file, line in places:
        region = {} if line is None else {"region": {"startLine": line}}
        yield {"physicalLocation": {"artifactLocation": {"uri": _uri(file, folder)}, **region}}


def _uri(file: str, folder: Path) -> str:
    path = Path(file)
    if not path.is_absolute():
        return path.as_posix()
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.as_uri()
