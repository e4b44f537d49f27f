"""The outcome as JUnit XML, which every CI server reads.

Cases of a study: ``not-worse`` fails if the verdict is *worse*; ``improvement`` fails if the study
claims one (it searched, or it repeats another that did) and the verdict is not *better*; each
constraint fails if it is violated. A study without a verdict is an error: nothing was shown.
The format is that of Jenkins: https://github.com/jenkinsci/junit-plugin
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from tuner.judge.results import StudyResult
from tuner.reading.printable import printable_lines
from tuner.report.text import result_lines
from tuner.stats.verdict import VerdictKind

CaseOutcome = Literal["passed", "failure", "error", "skipped"]


@dataclass(frozen=True, slots=True)
class JunitCase:
    """One thing that a build may fail by."""

    name: str
    outcome: CaseOutcome
    message: str


def cases(study: StudyResult) -> list[JunitCase]:
    """Return the claims of a study as test cases."""
    found = []
    if study.verdict is None:
        found.append(JunitCase("not-worse", "error", study.sentence))
    else:
        worse = study.verdict.kind in {VerdictKind.WORSE, VerdictKind.VIOLATED}
        found.append(JunitCase("not-worse", "failure" if worse else "passed", study.sentence))
    if _claims_improvement(study):
        found.append(_improvement(study))
    for limit in study.constraints:
        outcome: CaseOutcome = "failure" if limit.state == "violated" else "passed"
        found.append(JunitCase(f"constraint {limit.constraint.text}", outcome, limit.words))
    return found


def render_junit(studies: Sequence[StudyResult]) -> str:
    """Return all studies as one document, a suite each."""
    root = Element("testsuites", name="tuner")
    for study in studies:
        _suite(root, study)
    indent(root)
    text: str = tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _claims_improvement(study: StudyResult) -> bool:
    """Return a comparison of two given configurations claims nothing beforehand; a search does."""
    return bool(study.record.trials) or study.record.original is not None


def _improvement(study: StudyResult) -> JunitCase:
    if study.status == "nothing-better":
        return JunitCase("improvement", "skipped", study.sentence)
    if study.replication is not None and not study.replication.agrees:
        return JunitCase("improvement", "failure", study.replication.sentence)
    if study.verdict is None:
        return JunitCase("improvement", "error", study.sentence)
    better = study.verdict.kind is VerdictKind.BETTER
    return JunitCase("improvement", "passed" if better else "failure", study.sentence)


def _suite(root: Element, study: StudyResult) -> None:
    found = cases(study)
    count = {kind: sum(case.outcome == kind for case in found) for kind in _COUNTED}
    record = study.record
    took_s = max(0.0, (record.ended_unix_s or record.started_unix_s) - record.started_unix_s)
    suite = SubElement(
        root,
        "testsuite",
        name=_text(record.name),
        hostname=_text(record.host.hostname),
        tests=str(len(found)),
        failures=str(count["failure"]),
        errors=str(count["error"]),
        skipped=str(count["skipped"]),
        time=f"{took_s:.3f}",
    )
    for case in found:
        entry = SubElement(
            suite, "testcase", classname=_text(f"tuner.{record.name}"), name=_text(case.name)
        )
        if case.outcome != "passed":
            SubElement(entry, case.outcome, message=_text(case.message))
    SubElement(suite, "system-out").text = _text("\n".join(result_lines(study)))


def _text(text: str) -> str:
    # XML 1.0 cannot hold most control characters, escaped or not (section 2.2).
    return printable_lines(text)


_COUNTED = ("failure", "error", "skipped")
