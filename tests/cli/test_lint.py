"""``tuner doctor --config``: what is printed, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tuner.cli.doctor import command
from tuner.errors import DefinitionError, HostError
from tuner.servers import catalog

WRONG = "worker_processes 2;\nevents {\n}\nhttp {\n    tcp_nodelay off;\n}\n"


def test_what_is_plainly_wrong_ends_with_exit_code_1(tmp_path: Path) -> None:
    """File, line, what, why, and the way out."""
    path = tmp_path / "nginx.conf"
    path.write_text(WRONG, encoding="utf-8")
    done = CliRunner().invoke(command, ["--config", str(path)])
    assert done.exit_code == 1
    assert f"{path}:5: wrong: the end of an answer waits" in done.output
    assert "[nodelay-off]" in done.output
    assert "remedy   remove it; the default is on" in done.output


def test_the_same_for_programs(tmp_path: Path) -> None:
    """All that a finding has."""
    path = tmp_path / "nginx.conf"
    path.write_text(WRONG, encoding="utf-8")
    (found,) = json.loads(CliRunner().invoke(command, ["--config", str(path), "--json"]).output)
    assert (found["rule"], found["severity"], found["line"]) == ("nodelay-off", "wrong", 5)


def test_the_same_for_a_code_review(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SARIF with the path from the checkout, the line, the level, and the rule's page."""
    monkeypatch.chdir(tmp_path)
    Path("web").mkdir()
    Path("web/nginx.conf").write_text(WRONG, encoding="utf-8")
    arguments = ["--config", "web/nginx.conf", "--sarif", "out/lint.sarif"]
    assert CliRunner().invoke(command, arguments).exit_code == 1
    log = json.loads(Path("out/lint.sarif").read_text())
    (run,) = log["runs"]
    (found,) = run["results"]
    (rule,) = run["tool"]["driver"]["rules"]
    assert (log["version"], found["ruleId"], found["level"]) == ("2.1.0", "nodelay-off", "error")
    (place,) = found["locations"]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "web/nginx.conf"},
        "region": {"startLine": 5},
    }
    assert rule["helpUri"].startswith("https://nginx.org/en/docs/")


@pytest.mark.parametrize("option", [("--sarif", "x"), ("--prefix", "/a=b"), ("--env-file", "x")])
def test_an_option_of_a_configuration_needs_one(option: tuple[str, str]) -> None:
    """Instead of checking the machine without it."""
    error = CliRunner().invoke(command, [*option]).exception
    assert isinstance(error, DefinitionError)
    assert "--config FILE" in str(error)


def test_nothing_wrong_ends_with_exit_code_0(tmp_path: Path) -> None:
    """And says so."""
    path = tmp_path / "nginx.conf"
    path.write_text(WRONG.replace("off", "on"), encoding="utf-8")
    done = CliRunner().invoke(command, ["--config", str(path)])
    assert done.exit_code == 0
    assert "no mistakes found" in done.output


def test_what_is_no_configuration_is_answered_at_its_line(tmp_path: Path) -> None:
    """As anywhere."""
    path = tmp_path / "nginx.conf"
    path.write_text("http {\n", encoding="utf-8")
    error = CliRunner().invoke(command, ["--config", str(path)]).exception
    assert isinstance(error, DefinitionError)
    assert str(path) in str(error)


def test_a_caddyfile_is_read_by_caddy_itself(tmp_path: Path) -> None:
    """Rules see the JSON that it makes of it; its own words answer what is not a Caddyfile."""
    try:
        catalog.server("caddy").detect()
    except HostError as missing:
        pytest.skip(str(missing))
    path = tmp_path / "Caddyfile"
    path.write_text(":8080 {\n\treverse_proxy localhost:9000 {\n\t\tflush_interval -1\n\t}\n}\n")
    done = CliRunner().invoke(command, ["--config", str(path)])
    assert done.exit_code == 0
    assert f"{path}:3: costs: every piece" in done.output
    assert "[flush-each-piece]" in done.output
    path.write_text("{\n\tdebug\n}\n:8080 {\n\trespond hello\n}\n")
    done = CliRunner().invoke(command, ["--config", str(path)])
    assert done.exit_code == 1
    assert f"{path}:2: wrong:" in done.output
    assert "[debug-log]" in done.output
    path.write_text(":8080 {\n\tnonsense\n}\n")
    error = CliRunner().invoke(command, ["--config", str(path)]).exception
    assert isinstance(error, DefinitionError)
    assert "unrecognized directive: nonsense" in str(error)
    assert "level" not in str(error)
