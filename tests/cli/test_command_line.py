"""The command line: options, messages, exit codes; nothing is started where something is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Tuner, quiet
from tuner import __version__
from tuner.app import this_machine
from tuner.cli.commands import resume_command
from tuner.errors import DefinitionError
from tuner.generators import program
from tuner.servers import nginx

COMMANDS = ("optimize", "compare", "measure", "report", "export", "studies", "workload", "doctor")


def test_help_lists_every_command_and_the_exit_codes(tuner: Tuner) -> None:
    """Exit code 0, on standard output."""
    done = tuner("--help")
    assert (done.code, done.err) == (0, "")
    for word in (*COMMANDS, "Exit codes", "130", "--fail-if"):
        assert word in done.out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(tuner: Tuner, command: str) -> None:
    """With what it does and its options."""
    done = tuner(command, "--help")
    assert (done.code, done.err) == (0, "")
    assert f"tuner {command}" in done.out


def test_the_version_is_the_packages(tuner: Tuner) -> None:
    """One place says it."""
    assert tuner("--version").out.strip().endswith(__version__)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("optimise",), "No such command 'optimise'"),
        (("optimize", "--frobnicate"), "No such option"),
        (("optimize", "--trials", "many"), "'many' is not a valid integer"),
        (("optimize", "--objective", "fast"), "--objective: unknown objective 'fast'"),
        (
            ("optimize", "--time", "soon"),
            "--time: expected a duration such as 90s or 10m, found 'soon'",
        ),
        (("optimize", "--time", "0s"), "--time: 0 s is out of range; allowed: 1 s to 720 h"),
        (("optimize", "--rate", "-5"), "--rate: -5 is out of range; allowed: 1 to 10,000,000"),
        (
            ("optimize", "--load", "ab"),
            "--load: 'ab' is not allowed; allowed: native, wrk2",
        ),
        (("optimize", "--server", "lighttpd"), "--server: 'lighttpd'"),
        (("optimize", "--baseline", "best"), "--baseline: 'best'"),
        (("optimize", "--baseline", "missing.yaml"), "missing.yaml: "),
        (("optimize", "--workload", "video"), "--workload: there is no workload 'video'"),
        (("optimize", "--space", "nginx/videos"), "--space: there is no space 'nginx/videos'"),
        (("optimize", "--study", "nowhere"), "--study: there is no study 'nowhere'"),
        (("optimize", "--study", "missing.yaml"), "missing.yaml"),
        (("optimize", "--name", "../x"), "--name: '../x' is not a name"),
        (("optimize", "--allow", "sendfile"), "'sendfile' has no trade-off"),
        (("optimize", "--allow", "turbo"), "unknown parameter 'turbo'"),
        (("measure", "nope"), "tuner: CONFIGURATION: 'nope' is"),
        (("ladder", "nginx:stock", "nginx:hand", "--limit", "x"), "tuner: --limit: 'x' is no"),
        (("optimize", "--in-place", "yes"), "--in-place: "),
        (("compare", "stock"), "Missing argument 'B'"),
        (("compare", "best", "stock"), "tuner: A: 'best' is not allowed"),
        (("compare", "stock", "best"), "tuner: B: 'best' is not allowed; allowed: stock"),
        (
            ("optimize", "--resume", "--server-name", "x"),
            "keeps its definition; leave out --server-name",
        ),
        (("run", "https-proxy-500", "--stalls", "no"), "tuner: --stalls: 'no' is not allowed"),
        (("compare", "stock", "missing.yaml"), "missing.yaml"),
        (("compare", "stock", "hand", "--fail-if", "great"), "'great' is not one of"),
        (("report", "mine"), "no study called 'mine'"),
        (("export", "mine"), "no study called 'mine'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_is_wrong_is_said_in_one_message_and_nothing_is_started(
    tuner: Tuner, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    """Exit code 2, no traceback, no study's folder."""

    def started(*_: object) -> None:
        pytest.fail("the lab was opened")

    quiet(monkeypatch)
    monkeypatch.setattr(this_machine, "AnsibleDeployer", started)
    done = tuner(*arguments)
    assert done.code == 2
    assert words in done.err
    assert "Traceback" not in done.err
    assert done.out == ""
    assert not Path("studies").exists()


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("server: nginx\nobjective: fast\n", "s.yaml:2: objective: unknown objective 'fast'"),
        ("server: nginx\n\nrate: fast\n", "s.yaml:3: rate: expected a number, found 'fast'"),
        ("server: nginx\ncolour: red\n", "s.yaml:2: unknown"),
        ("server: [nginx\n", "s.yaml:"),
    ],
)
def test_a_wrong_file_is_said_with_its_line(tuner: Tuner, text: str, where: str) -> None:
    """FILE:LINE, as editors understand it."""
    Path("s.yaml").write_text(text)
    done = tuner("optimize", "--study", "s.yaml")
    assert done.code == 2
    assert where in done.err


def test_a_value_out_of_range_is_said_with_its_line_and_what_is_allowed(
    tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a configuration's file too."""
    quiet(monkeypatch)
    Path("mine.yaml").write_text("space: nginx/static\nvalues:\n  sendfile: on\n  backlog: 1\n")
    done = tuner("optimize", "--study", "static", "--baseline", "mine.yaml")
    assert done.code == 2
    assert "mine.yaml:4: " in done.err
    assert "allowed: 511 to" in done.err


def test_a_host_without_a_server_is_no_fault_of_the_user(
    tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 3, and what to install."""
    monkeypatch.setattr(nginx, "_CANDIDATES", ())
    done = tuner("optimize")
    assert done.code == 3
    assert "no Nginx found" in done.err


def test_a_tool_that_cannot_do_what_is_asked_is_refused_before_anything_starts(
    tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2, the reason, and two ways out."""
    quiet(monkeypatch)
    monkeypatch.setattr(program, "find", lambda *_: Path("/bin/true"))
    done = tuner("optimize", "--load", "h2load", "--objective", "p99")
    assert done.code == 2
    assert "--load: h2load is used for saturation only" in done.err
    assert "--objective throughput" in done.err
    assert not Path("studies").exists()


def test_a_tool_that_is_not_installed_is_no_fault_of_the_user(
    tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 3, and how to get it."""
    quiet(monkeypatch)
    monkeypatch.setenv("PATH", "/nowhere")
    done = tuner("optimize", "--load", "wrk2")
    assert done.code == 3
    assert "no wrk2 on the PATH; build it from" in done.err


def test_a_definition_error_names_file_and_line() -> None:
    """One form for all of them."""
    assert str(DefinitionError("wrong", path="a.yaml", line=7)) == "a.yaml:7: wrong"
    assert str(DefinitionError("wrong", path="--rate")) == "--rate: wrong"
    assert str(DefinitionError("wrong")) == "wrong"


@pytest.mark.parametrize(
    ("words", "way"),
    [
        (("optimize", "--time", "5m"), "resume with --resume"),
        (("--", "compare", "stock", "hand"), "resume with --resume"),
        (("worker", "run"), "run the same command again to resume"),
        (("ablate", "mine"), "run the same command again to resume"),
        (("rollback", "optimize"), ""),
        (("optimize", "--dry-run"), ""),
        (("proxy",), ""),
        ((), ""),
    ],
)
def test_an_interrupted_command_prints_how_to_resume_where_possible(
    words: tuple[str, ...], way: str
) -> None:
    """Only commands that take --resume name it."""
    reported = resume_command(words)
    assert reported.endswith(way)
    assert bool(reported) == bool(way)
