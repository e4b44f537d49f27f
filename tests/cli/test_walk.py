"""Every command in a broken surrounding: a message and an exit code, never a traceback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.cli import walker
from tuner.cli.commands import cli

TOP = Path(__file__).parents[2]
SHORT = ("--study", "static", "--time", "10s", "--rate", "600", "--quiet")
NEW = (*SHORT, "--name", "new")
NOWHERE = ("--storage", "postgresql+psycopg://127.0.0.1:1/none")
LINES = {
    "worker": ("new", *NOWHERE),
    "proxy": NOWHERE,
    "init": (
        *("--yes", "--server", "nginx", "--config", "none", "--access-log", "access.log"),
        *("--objective", "p99", "--output", "new.yaml"),
    ),
    "optimize": (*NEW, "--trials", "1"),
    "compare": ("stock", "hand", *NEW),
    "ablate": ("mine", "--time", "10s", "--quiet", "--foreign"),
    "replicate": ("mine", "--time", "10s", "--name", "new", "--foreign"),
    "run": ("reverse-proxy-ladder", "--server", "nginx", "--time", "30s", "--name", "new"),
    "ladder": ("nginx:stock", "nginx:hand", *NEW),
    "measure": ("stock", *NEW),
    "report": ("mine", "--junit", "out/junit.xml"),
    "dashboard": ("mine", "--port", "BUSY"),
    "export": ("mine", "--results", "kept"),
    "apply": ("mine", "--inventory", "hosts.yml"),
    "rollback": ("mine", "--inventory", "hosts.yml"),
    "studies": (),
    "workload from-log": ("access.log", "--output", "out"),
    "workload check": ("static",),
    "workload show": ("static",),
    "space show": ("nginx/static",),
    "space check": ("nginx/static", "--samples", "0"),
    "space explain": ("sendfile", "--space", "nginx/static"),
    "schema": ("study",),
    "doctor": ("--quick",),
}
"""Arguments of every command, in a folder with the finished study ``mine``."""
WRITERS = ("optimize", "compare", "ladder", "measure", "report", "export")
PRINTERS = ("studies", "workload show", "workload check", "space show", "space explain")
MUST_FAIL = {
    **dict.fromkeys(("read_only", "full_disk"), (*WRITERS, "init", "workload from-log")),
    "files_for_folders": WRITERS,
    **dict.fromkeys(("closed_output", "full_output"), (*PRINTERS, "schema")),
}
"""Commands that cannot do their work under a trouble, and so must say so."""


def leaves(command: click.Command, *words: str) -> Iterator[str]:
    """Yield every command below one, by its words."""
    if not isinstance(command, click.Group):
        yield " ".join(words)
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from leaves(found, *words, name)


def test_the_walk_knows_every_command() -> None:
    """A new command needs a line above."""
    assert set(leaves(cli)) == set(LINES)


def confined(trouble: str, place: Path) -> list[str]:
    """Return what a process runs under to have a small disk of its own, where it needs one."""
    root = os.geteuid() == 0
    if trouble != "full_disk" and not (trouble == "read_only" and root):
        return []
    mount = f'mount -t tmpfs -o size=8m,mode=755 none {place}/disk && exec "$@"'
    own = ["unshare", "--mount", *([] if root else ["--map-root-user"])]
    return [*own, "sh", "-c", mount, "sh"]


@pytest.mark.parametrize("trouble", walker.TROUBLES)
def test_every_command_ends_with_a_message(trouble: str, done: Path, tmp_path: Path) -> None:
    """Exit code 0 to 3, no traceback, nothing unforeseen; 3 where it cannot do its work."""
    sound = tmp_path / "sound"
    shutil.copytree(done, sound / "studies" / "mine")
    (tmp_path / "disk").mkdir()
    line = '1.2.3.4 - - [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1" 200 612 "-" "-"\n'
    (sound / "access.log").write_text(line)
    asked = {name: [*name.split(), *arguments] for name, arguments in LINES.items()}
    ended = subprocess.run(
        [*confined(trouble, tmp_path), sys.executable, "-m", "tests.cli.walker", trouble, tmp_path],
        cwd=TOP,
        input="".join(json.dumps(words) + "\n" for words in asked.values()),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    outcomes = dict(zip(asked, map(json.loads, ended.stdout.splitlines()), strict=True))
    bad = {
        name: found
        for name, found in outcomes.items()
        if found["code"] not in range(4)
        or "Traceback" in found["err"]
        or (found["code"] and not found["err"].strip())
    }
    assert not bad, json.dumps(bad, indent=1)
    must = MUST_FAIL.get(trouble, ())
    wrong = {name: outcomes[name] for name in must if outcomes[name]["code"] != 3}
    assert not wrong, json.dumps(wrong, indent=1)
