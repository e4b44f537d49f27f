"""Runs commands in a broken surrounding, each in a fork of this one process, for ``test_walk``.

Called with the kind of trouble and a folder to work in, which holds ``sound/``. Reads commands as
JSON from standard input and prints a line of JSON with the outcome of each.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from tests.cli.conftest import simulate
from tuner import cli
from tuner.app import notes
from tuner.cli import commands
from tuner.testing.lab import Faults

PATIENCE_S = 600
LATE = (
    *("optuna", "optuna.importance", "sqlalchemy.dialects.sqlite", "alembic.command", "psycopg"),
    *("scipy.stats", "altair"),
)
"""Modules that commands import late; loading them here saves an import in each fork."""
Trouble = Callable[[Path], None]


def read_only(folder: Path) -> None:
    """Nothing in the folder can be changed; not by root either, whom no mode of a file stops."""
    if os.geteuid() == 0:
        remount(folder, "ro")
        return
    for path in [folder, *folder.rglob("*")]:
        path.chmod(path.stat().st_mode & 0o555)


def remount(folder: Path, how: str) -> None:
    """Change the file system that a copy of the sound folder lies on."""
    subprocess.run(["mount", "-o", f"remount,{how}", folder.parent], check=True)


def full_disk(folder: Path) -> None:
    """Not a byte more fits on the folder's file system; temporary files would lie there too."""
    (folder / "tmp").mkdir()
    os.environ["TMPDIR"] = str(folder / "tmp")
    with contextlib.suppress(OSError), (folder / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(b"x" * 4096)


def files_for_folders(folder: Path) -> None:
    """Wherever a command makes a folder, a file of that name is already."""
    shutil.rmtree(folder / "studies" / "mine" / "best")
    for name in ("studies/mine/best", "studies/new", "kept", "out", "state"):
        (folder / name).write_text("in the way")


def closed_output(_: Path) -> None:
    """As ``>&-`` leaves it."""
    os.close(1)
    sys.stdout = sys.__stdout__ = None  # type: ignore[misc]


def full_output(_: Path) -> None:
    """As ``>/dev/full``."""
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)


def ascii_locale(_: Path) -> None:
    """As ``PYTHONIOENCODING=ascii`` leaves the streams."""
    made = [io.TextIOWrapper(io.FileIO(n, "w", closefd=False), encoding="ascii") for n in (1, 2)]
    sys.stdout = sys.__stdout__ = made[0]  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = made[1]  # type: ignore[misc]


TROUBLES: dict[str, Trouble] = {
    trouble.__name__: trouble
    for trouble in (
        *(read_only, full_disk, files_for_folders),
        *(closed_output, full_output, ascii_locale),
    )
}


def run(arguments: list[str], trouble: Trouble, folder: Path) -> int:
    """Run a command in this process, and return its exit code; what it prints goes to files."""
    signal.alarm(PATIENCE_S)
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    os.chdir(folder)
    for number, name in ((1, "out"), (2, "err")):
        path = folder.parents[1] / f"{name}.txt"
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    trouble(folder)
    sys.argv = ["tuner", *arguments]
    try:
        cli.main()
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 0
    raise AssertionError


def outcome(arguments: list[str], trouble: Trouble, place: Path) -> dict[str, object]:
    """Return how a command ends in a copy of the sound folder, and what it prints."""
    folder = place / "disk" / "here"
    folder.parent.mkdir(exist_ok=True)
    shutil.copytree(place / "sound", folder)
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = run(arguments, trouble, folder)
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if trouble is read_only and os.geteuid() == 0:
        remount(folder, "rw")
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755)
    shutil.rmtree(folder)
    out, err = ((place / f"{name}.txt").read_bytes() for name in ("out", "err"))
    return {
        "arguments": arguments,
        "code": code,
        "out": out.decode("utf-8", "replace"),
        "err": err.decode("utf-8", "replace"),
    }


def main() -> None:
    """Load everything once, then run each command."""
    trouble, place = TROUBLES[sys.argv[1]], Path(sys.argv[2])
    patch = pytest.MonkeyPatch()
    host = simulate(patch)
    # What ends after its beginning is enough, and quick.
    host.faults = Faults(host_gone=range(1000))
    for name in ("NOISE_S", "_SPEED_S"):
        patch.setattr(notes, name, 0.2)
    for name in commands.cli.list_commands(click.Context(commands.cli)):
        importlib.import_module(f"tuner.cli.{name}")
    for name in LATE:
        importlib.import_module(name)
    # The forks need not look at these objects again, nor copy their pages.
    gc.collect()
    gc.freeze()
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = str(busy.getsockname()[1])
        for line in sys.stdin:
            arguments = [word.replace("BUSY", port) for word in json.loads(line)]
            click.echo(json.dumps(outcome(arguments, trouble, place)))


if __name__ == "__main__":
    main()
