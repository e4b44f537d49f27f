"""Completion in shells: commands without imports, values by name, and each shell's own protocol."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import CompletionItem, ShellComplete

from tuner.cli.commands import cli
from tuner.machine.facts import SERVER_NAMES
from tuner.space.space import spaces

BIN = Path(sys.executable).parent
FREE = (
    *("rate", "connections", "time", "seed", "trials", "finalists", "margin", "slo", "constraint"),
    *("choose", "limit", "storage", "generator_cpus", "server_cpus", "backend_cpus", "location"),
    *("server_name", "prefix", "in_place", "assume", "as_name", "called", "as_host", "host"),
    *("service", "figure", "probe", "target", "watch", "listen", "line_format", "output"),
    *("metrics", "arm"),
)
"""Parameters with free values: numbers, addresses, new names."""


def completed(line: str) -> list[CompletionItem]:
    """Return the completions of a line; its last word is incomplete."""
    *words, incomplete = line.split(" ")
    return ShellComplete(cli, {}, "tuner", "_TUNER_COMPLETE").get_completions(words, incomplete)


def values(line: str) -> list[str]:
    """Return the values of the completions of a line."""
    return [item.value for item in completed(line)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with two records, a workload and an experiment of the user's own."""
    for name in ("shop", "shop-before"):
        (tmp_path / "studies" / name).mkdir(parents=True)
        (tmp_path / "studies" / name / "record.db").touch()
    (tmp_path / "mine.yaml").write_text("cases: {a: {workload: x}}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("re", ["replicate", "report"]),
        ("report s", ["shop", "shop-before"]),
        ("export shop-", ["shop-before"]),
        ("compare nginx:st", ["nginx:stock"]),
        ("ladder nginx:stock caddy:h", ["caddy:hand"]),
        ("optimize --server n", [name for name in SERVER_NAMES if name.startswith("n")]),
        ("optimize --server=ca", ["caddy"]),
        ("optimize --objective p99", ["p99", "p99.9"]),
        ("optimize --workload https-proxy-2", ["https-proxy-20b", "https-proxy-256k"]),
        ("optimize --workload m", ["mine.yaml"]),
        ("optimize --study qui", ["quickstart"]),
        ("optimize --ablate o", ["off"]),
        ("run http3", ["http3-page"]),
        ("run https-proxy-500 --case 2", ["20B", "256KB"]),
        ("space show nginx/", [name for name in spaces() if name.startswith("nginx/")]),
        ("space show kernel", ["kernel/net"]),
        ("schema st", ["study"]),
        ("export shop --format ro", ["role"]),
        ("optimize --fina", ["--finalists"]),
    ],
)
def test_names_are_completed(line: str, wanted: list[str]) -> None:
    """By what ships with tuner and what this folder has."""
    assert values(line) == wanted


@pytest.mark.parametrize(
    ("line", "has", "lacks"),
    [
        ("optimize --only ", "sendfile", "encode"),
        ("optimize --server caddy --only ", "encode", "sendfile"),
        ("optimize --space nginx/static --only ", "sendfile", "proxy_buffers_number"),
        ("space explain --space caddy/static ", "encode", "sendfile"),
        ("optimize --allow ", "access_log_buffer", "sendfile"),
        ("optimize --force ", "ssl_ciphers", "sendfile"),
    ],
)
def test_parameters_are_those_of_the_space_on_the_line(line: str, has: str, lacks: str) -> None:
    """Those with a trade-off for --allow, and the never-list for --force."""
    found = values(line)
    assert has in found
    assert lacks not in found
    assert len(found) == len(set(found))


def test_parameters_of_a_space_of_the_users_own(folder: Path) -> None:
    """Parameters of a file complete, and a wrong file completes nothing."""
    text = "space: nginx/a\nserver: nginx\nparameters: {ab: {type: boolean, default: on}}\n"
    (folder / "own.yaml").write_text(text, encoding="utf-8")
    assert values("optimize --space own.yaml --only ") == ["ab"]
    (folder / "own.yaml").write_text("parameters: [", encoding="utf-8")
    assert values("optimize --space own.yaml --only ") == []


def test_values_have_their_summary() -> None:
    """Shells that show a sentence on each value get it."""
    (found,) = completed("optimize --workload page-h")
    assert found.help == "One page of 6 KB over HTTP/3"


@pytest.mark.parametrize("line", ["optimize --config ", "optimize --workload ../other/"])
def test_a_path_is_left_to_the_shell(line: str) -> None:
    """The shell completes files of other folders itself."""
    assert [item.type for item in completed(line)] == ["file"]


def test_every_value_with_names_is_completed() -> None:
    """An option or argument has choices, a path, a completer, or is listed above as free."""

    def walk(command: click.Command, path: str) -> Iterator[tuple[str, click.Parameter]]:
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                found = command.get_command(context, name)
                assert found is not None
                yield from walk(found, f"{path} {name}")
        yield from ((path, parameter) for parameter in command.params)

    missing = [
        f"{path}: {parameter.name}"
        for path, parameter in walk(cli, "tuner")
        if not getattr(parameter, "is_flag", False)
        and isinstance(parameter.type, click.types.StringParamType)
        and parameter._custom_shell_complete is None
        and parameter.name not in FREE
        and not (parameter.name == "name" and isinstance(parameter, click.Option))
    ]
    assert missing == []


def test_commands_are_completed_without_their_imports() -> None:
    """The list of commands imports none of them."""
    code = (
        "import sys; from click.shell_completion import ShellComplete;"
        "from tuner.cli.commands import cli;"
        "print(len(ShellComplete(cli, {}, 'tuner', '_TUNER_COMPLETE').get_completions([], '')));"
        "print([name for name in sys.modules if name in ('numpy', 'yaml', 'tuner.cli.optimize')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    count, imported = done.stdout.splitlines()
    assert int(count) == len(cli.list_commands(click.Context(cli)))
    assert imported == "[]"


def shell(name: str, script: str) -> list[str]:
    """Return the lines that a real shell prints, with tuner on its PATH."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    quiet = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"], "fish": ["--no-config"]}[name]
    done = subprocess.run(
        [found, *quiet, "-c", script],
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(Path.cwd())},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_bash_completes() -> None:
    """The printed script registers a function that completes a line as bash passes it on."""
    # Bash splits at the colon and at '=', and replaces what follows.
    script = """
        eval "$(_TUNER_COMPLETE=bash_source tuner)"
        function=$(complete -p tuner | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        completed() {
            COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=($2) COMP_CWORD=$3 COMPREPLY=()
            "$function" tuner
            printf '%s\\n' "${COMPREPLY[@]}"
        }
        completed 'tuner space show caddy/' 'tuner space show caddy/' 3
        completed 'tuner compare nginx:st' 'tuner compare nginx : st' 4
        completed 'tuner measure --server=ca' 'tuner measure --server = ca' 4
    """
    assert shell("bash", script) == ["caddy/proxy", "caddy/static", "stock", "caddy"]


def test_zsh_completes() -> None:
    """The function calls zsh's own, here replaced by ones that print."""
    script = """
        compdef() { : }
        eval "$(_TUNER_COMPLETE=zsh_source tuner)"
        compadd() { print -l -- $completions }
        _describe() { print -l -- ${completions_with_descriptions%%:*} }
        words=(tuner space show caddy/) CURRENT=4
        _tuner_completion
    """
    assert shell("zsh", script) == ["caddy/proxy", "caddy/static"]


def test_fish_completes() -> None:
    """Fish itself answers what it would offer."""
    script = """
        _TUNER_COMPLETE=fish_source tuner | source
        complete --do-complete 'tuner space show caddy/'
    """
    found = [line.split("\t")[0] for line in shell("fish", script)]
    assert found == ["caddy/proxy", "caddy/static"]
