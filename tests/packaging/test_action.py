"""The action for GitHub: its steps, run by bash with the variables that a runner sets."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from action import comment, compare
from tests.packaging.linted import actionlint

TOP = Path(__file__).resolve().parents[2]
ACTION = yaml.load((TOP / "action.yml").read_text(encoding="utf-8"), yaml.BaseLoader)  # noqa: S506 - safe
STEPS = {step["id"]: step for step in ACTION["runs"]["steps"]}
QUICK = "--workload static --time 10s --rate 600"


@dataclass(frozen=True)
class Runner:
    """A runner with a workspace, whose ``tuner`` is a script of the test."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    def program(self, name: str, script: str) -> None:
        """Put a program on the PATH."""
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/bash\n{script}\n", encoding="utf-8")
        path.chmod(0o755)

    def run(self, step: str, **inputs: str) -> subprocess.CompletedProcess[str]:
        """Run a step, with the defaults of the inputs that the test does not name."""
        given = {name: keys.get("default", "") for name, keys in ACTION["inputs"].items()}
        given |= {name.replace("_", "-"): value for name, value in inputs.items()}
        env = {
            name: given.get(str(_source(text)).partition("inputs.")[2], "")
            for name, text in STEPS[step]["env"].items()
        }
        base = {
            "PATH": f"{self.folder}/bin:{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(self.folder),
            "GITHUB_ACTION_PATH": str(TOP),
            "GITHUB_OUTPUT": str(self.folder / "output"),
            "GITHUB_PATH": str(self.folder / "path"),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
            "RUNNER_TEMP": str(self.folder / "temp"),
        }
        return subprocess.run(
            # As GitHub runs it: "Custom shell" in its syntax of workflows.
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[step]["run"]],
            env={**base, **env, **self.variables},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )

    def outputs(self) -> dict[str, str]:
        """Return the outputs that the step set, as the runner reads them."""
        text = (self.folder / "output").read_text(encoding="utf-8")
        found = re.findall(r"^(\w+)<<(\w+)\n(.*?)\n\2$", text, re.MULTILINE | re.DOTALL)
        return {name: value for name, _, value in found}


def _source(expression: str) -> str:
    """Return what an expression reads, such as ``inputs.before``."""
    found = re.fullmatch(r"\$\{\{ ([\w.-]+) \}\}", expression)
    assert found, expression
    return found[1]


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """A runner in an empty workspace."""
    return Runner(tmp_path)


def test_no_input_is_part_of_a_script() -> None:
    """Inputs and outputs reach the scripts as variables, and every output is a step's."""
    for step in STEPS.values():
        assert "${{" not in step.get("run", "")
        for value in step.get("env", {}).values():
            assert _source(value).startswith(("inputs.", "steps.compare.outputs."))
    made = re.findall(
        r'^        "(\w+)": ', Path(compare.__file__).read_text("utf-8"), re.MULTILINE
    )
    assert {_source(keys["value"]) for keys in ACTION["outputs"].values()} == {
        f"steps.compare.outputs.{name}" for name in made
    }


def test_the_page_lists_the_inputs_and_outputs() -> None:
    """Each with its default, as in action.yml."""
    page = (TOP / "docs" / "ci.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([\w-]+)` \| .*? \| (.*?) \|$", page, re.MULTILINE))
    assert set(rows) == set(ACTION["inputs"])
    for name, keys in ACTION["inputs"].items():
        default = keys.get("default")
        shown = "required" if default is None else f"`{default}`" if default else "none"
        if not str(default).startswith("${{"):
            assert rows[name] == shown
    assert all(f"`{name}`" in page for name in ACTION["outputs"])


def test_the_shown_workflow_is_valid(tmp_path: Path) -> None:
    """The page names inputs that the action has, and actionlint reads both."""
    page = (TOP / "docs" / "ci.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / ".git").mkdir()
    (tmp_path / "action.yml").write_bytes((TOP / "action.yml").read_bytes())
    workflow = tmp_path / ".github" / "workflows" / "performance.yml"
    workflow.parent.mkdir(parents=True)
    text = shown.replace("servertune/servertune@main", "./")
    workflow.write_text(text, encoding="utf-8")
    assert actionlint(workflow) == ""
    workflow.write_text(text.replace("fail-if:", "fails-if:"), encoding="utf-8")
    assert 'input "fails-if" is not defined in action "tuner compare"' in actionlint(workflow)


def test_a_comparison_fails_the_job_and_shows_why(runner: Runner) -> None:
    """On a simulated host: exit code, outputs, summary, and an annotation of the new file."""
    python = shlex.quote(sys.executable)
    program = shlex.quote(str(Path(__file__).with_name("simulated_tuner.py")))
    runner.program("tuner", f'PYTHONPATH={shlex.quote(str(TOP))} exec {python} {program} "$@"')
    for name in ("before", "after"):
        sendfile = "on" if name == "before" else "off"
        (runner.folder / f"{name}.yaml").write_text(
            f"space: nginx/static\nvalues: {{sendfile: {sendfile}}}\n", encoding="utf-8"
        )
    done = runner.run("compare", before="before.yaml", after="after.yaml", options=QUICK)
    assert done.returncode == 4, done.stderr
    found = runner.outputs()
    folder = runner.folder / found["folder"]
    assert (found["verdict"], folder.name) == ("worse", found["study"])
    assert found["sentence"].startswith("Worse: p99 is ")
    report = (folder / "report.md").read_text(encoding="utf-8")
    assert (runner.folder / "summary.md").read_text(encoding="utf-8") == report
    assert "<testsuites" in (folder / "junit.xml").read_text(encoding="utf-8")
    (shown,) = (line for line in done.stdout.splitlines() if line.startswith("::error"))
    title = f"tuner.{found['study']}%3A not-worse"
    assert shown.startswith(f"::error file=after.yaml,title={title}::Worse: p99 is ")
    assert "%25" in shown


def test_inputs_are_passed_on_as_they_are(runner: Runner) -> None:
    """No shell reads them, a name is no option, and a failure of tuner is one of the step."""
    runner.program("tuner", 'printf "%s\\n" "$@" > called\nexit 2')
    done = runner.run(
        "compare",
        before="$(touch x).yaml",
        after="--storage=x; `touch x`",
        options="--slo 'p99 < 5ms' --time 5m",
        fail_if="worse, violated",
    )
    assert done.returncode == 2
    assert (runner.folder / "called").read_text(encoding="utf-8").splitlines() == [
        *("compare", "--json", "--fail-if=worse", "--fail-if=violated"),
        *("--slo", "p99 < 5ms", "--time", "5m", "--", "$(touch x).yaml", "--storage=x; `touch x`"),
    ]
    assert not (runner.folder / "x").exists()
    assert "::error title=tuner compare::exit code 2" in done.stdout


def test_the_runner_obeys_no_line_of_tuner(runner: Runner) -> None:
    """Its commands are off while tuner prints."""
    runner.program("tuner", "echo '::error::from a server' >&2; exit 3")
    done = runner.run("compare", before="stock", after="hand")
    start, end, *_ = done.stdout.splitlines()
    assert re.fullmatch(r"::stop-commands::(\w{32})", start)
    assert end == f"::{start.rpartition(':')[2]}::"


def test_annotations_are_escaped() -> None:
    """Text of a study cannot end the message or add a property."""
    assert (
        compare.annotation("error", "a\nb %", "t: x, line=1", "f.yaml")
        == "::error file=f.yaml,title=t%3A x%2C line=1::a%0Ab %25"
    )


def test_a_long_report_is_cut_at_a_line() -> None:
    """GitHub refuses a longer summary and a longer comment."""
    report = "é" * 70 + "\n"
    summary = compare.summary(report * 10_000)
    assert len(summary.encode()) <= compare.LONGEST_SUMMARY
    assert "é\n\n*The summary is cut here" in summary
    text = comment.body("<!-- x -->", report * 10_000)
    assert len(text) <= comment.LONGEST
    assert text.startswith("<!-- x -->\n")
    assert comment.body("<!-- x -->", report) == f"<!-- x -->\n{report}"


def test_tuner_is_installed_apart(runner: Runner) -> None:
    """Into an environment of its own, which the next steps find on their PATH."""
    runner.program("python3", 'mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; echo "$@" >> called')
    done = runner.run("install", install="servertune[caddy]==1.0")
    assert done.returncode == 0, done.stderr
    made = f"{runner.folder}/temp/tuner"
    first, second = (runner.folder / "called").read_text(encoding="utf-8").splitlines()
    assert first == f"-m venv {made}"
    assert second.startswith("-m pip install ")
    assert second.endswith(" -- servertune[caddy]==1.0")
    assert (runner.folder / "path").read_text(encoding="utf-8") == f"{made}/bin\n"


def test_an_installed_tuner_is_used(runner: Runner) -> None:
    """An empty input installs nothing."""
    assert runner.run("install", install="").returncode == 0
    assert not (runner.folder / "path").exists()


class GitHub(BaseHTTPRequestHandler):
    """The interface of comments, of one pull request with comments of others on a full page."""

    comments: list[dict[str, Any]]
    status = 200
    key = "a1"

    def answer(self) -> None:
        """Apply a request and answer it."""
        length = int(self.headers.get("Content-Length") or 0)
        content = json.loads(self.rfile.read(length)) if length else {}
        assert self.headers["Authorization"] == f"Bearer {self.key}"
        path, _, query = self.path.removeprefix("/repos/me/site/").partition("?")
        found: object = {}
        match self.command, path:
            case "GET", "issues/7/comments":
                page = int(query.rpartition("page=")[2]) - 1
                found = self.comments[100 * page : 100 * page + 100]
            case "POST", "issues/7/comments" if self.status == 200:
                self.comments.append({"id": len(self.comments), **content})
            case "PATCH", _:
                self.comments[int(path.removeprefix("issues/comments/"))] |= content
            case _:
                assert self.status == 403
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(json.dumps(found).encode())

    do_GET = do_POST = do_PATCH = answer  # noqa: N815 - as http.server names them

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def github(runner: Runner) -> Iterator[type[GitHub]]:
    """The interface, which the runner's variables name."""
    handler = type("Handler", (GitHub,), {"comments": [{"id": n, "body": "x"} for n in range(100)]})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    event = runner.folder / "event.json"
    event.write_text('{"pull_request": {"number": 7}}', encoding="utf-8")
    (runner.folder / "report.md").write_text("# first", encoding="utf-8")
    runner.variables.update(
        GITHUB_API_URL=f"http://127.0.0.1:{server.server_port}",
        GITHUB_REPOSITORY="me/site",
        GITHUB_EVENT_PATH=str(event),
        STUDY="compare-static",
        FOLDER=".",
    )
    yield handler
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_comment_is_renewed(runner: Runner, github: type[GitHub]) -> None:
    """The second run changes the comment of the first, which is on a later page."""
    assert runner.run("comment", token=github.key).returncode == 0
    assert github.comments[100]["body"] == "<!-- tuner compare compare-static -->\n# first"
    (runner.folder / "report.md").write_text("# second", encoding="utf-8")
    assert runner.run("comment", token=github.key).returncode == 0
    assert len(github.comments) == 101
    assert github.comments[100]["body"].endswith("# second")


def test_without_the_right_to_comment_the_job_goes_on(runner: Runner, github: type[GitHub]) -> None:
    """A token of a fork may only read; the log names the permission."""
    github.status = 403
    done = runner.run("comment", token=github.key)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("::warning title=tuner::no comment: GitHub answers 403")
    assert "pull-requests: write" in done.stdout


def test_a_push_has_no_comment(runner: Runner, github: type[GitHub]) -> None:
    """Without a pull request there is nowhere to write."""
    (runner.folder / "event.json").write_text("{}", encoding="utf-8")
    done = runner.run("comment", token=github.key)
    assert (done.returncode, done.stdout[:8]) == (0, "::notice")
    assert len(github.comments) == 100
