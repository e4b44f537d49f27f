"""Step of the action: compare two configurations, and report the result in the runner's forms.

The report becomes the summary of the job, and each failed case of the JUnit file an annotation of
the configuration. Variables and commands of the runner:
https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

MATCHED = 4
"""Exit code of tuner if the verdict matches ``--fail-if``."""
LONGEST_SUMMARY = 1 << 20
"""Limit of GitHub for the summary of a step, bytes."""
_CUT = "\n\n*The summary is cut here; report.md has the rest.*\n"


def command(variables: Mapping[str, str]) -> list[str]:
    """Return the command that the inputs ask for."""
    verdicts = re.split(r"[\s,]+", variables["INPUT_FAIL_IF"].strip())
    fail_if = [f"--fail-if={verdict}" for verdict in verdicts if verdict]
    options = shlex.split(variables["INPUT_OPTIONS"])
    arms = (variables["INPUT_BEFORE"], variables["INPUT_AFTER"])
    return ["tuner", "compare", "--json", *fail_if, *options, "--", *arms]


def outputs(found: Mapping[str, Any]) -> str:
    """Return the lines that set the step's outputs."""
    values = {
        "study": found["study"],
        "verdict": found["verdict"] or "",
        "sentence": found["sentence"],
        "folder": Path(found["report"]).parent,
    }
    # A random mark, so that no value can end early and set another output.
    end = secrets.token_hex(16)
    return "".join(f"{name}<<{end}\n{value}\n{end}\n" for name, value in values.items())


def summary(report: str) -> str:
    """Return a report of at most the length that GitHub shows."""
    data = report.encode()
    if len(data) <= LONGEST_SUMMARY:
        return report
    kept = data[: LONGEST_SUMMARY - len(_CUT)].decode(errors="ignore")
    return kept.rpartition("\n")[0] + _CUT


def annotated(junit: str, level: str, file: str) -> Iterator[str]:
    """Yield a command of the runner for each failed case.

    Args:
        junit: the JUnit document.
        level: ``error``, ``warning`` or ``notice``.
        file: file to annotate; empty for none.
    """
    for case in ET.fromstring(junit).iter("testcase"):  # noqa: S314 - tuner wrote it
        for failed in (*case.iter("failure"), *case.iter("error")):
            title = f"{case.get('classname')}: {case.get('name')}"
            yield annotation(level, failed.get("message") or "", title, file)


def annotation(level: str, message: str, title: str, file: str = "") -> str:
    """Return the command that shows a message at a file."""
    properties = {"file": file, "title": title}
    named = ",".join(f"{name}={_property(value)}" for name, value in properties.items() if value)
    return f"::{level} {named}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Run tuner; the runner obeys no line that it prints meanwhile."""
    mark = secrets.token_hex(16)
    print(f"::stop-commands::{mark}", flush=True)
    try:
        return subprocess.run(arguments, stdout=subprocess.PIPE, text=True, check=False)
    finally:
        print(f"::{mark}::", flush=True)


def main() -> int:
    """Compare, report, and return the exit code of the comparison."""
    compared = run(command(os.environ))
    if compared.returncode not in {0, MATCHED}:
        code = compared.returncode
        print(annotation("error", f"exit code {code}; the log has the reason", "tuner compare"))
        return code
    found = json.loads(compared.stdout)
    folder = Path(found["report"]).parent
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as file:
        file.write(outputs(found))
    with Path(os.environ["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as file:
        file.write(summary((folder / "report.md").read_text(encoding="utf-8")))
    junit = folder / "junit.xml"
    run(["tuner", "report", found["study"], "--format", "junit", "--out", str(junit)])
    matched = compared.returncode == MATCHED
    after = os.environ["INPUT_AFTER"]
    at = after if Path(after).is_file() else ""
    level = "error" if matched else "warning"
    shown = list(annotated(junit.read_text(encoding="utf-8"), level, at))
    if not shown:
        level = "error" if matched else "notice"
        shown = [annotation(level, found["sentence"], found["study"], at)]
    print("\n".join(shown))
    return compared.returncode


if __name__ == "__main__":
    sys.exit(main())
