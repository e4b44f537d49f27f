"""The processes of a lab are found by their command line and by where they work."""

from __future__ import annotations

import runpy
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from tuner.paths import data_dir

SHARED = data_dir("playbooks") / "module_utils" / "tuner_processes.py"


@pytest.fixture(scope="module")
def belongs_to() -> Callable[[int, str], bool]:
    """Return the function as targets and the sweep call it."""
    return cast("Callable[[int, str], bool]", runpy.run_path(str(SHARED))["belongs_to"])


@pytest.mark.parametrize("name", ["lab", "a study/lab", "two  blanks/=lab"])
@pytest.mark.parametrize("shape", ["{}", "--conf={}", "nginx: master process -p {} -c x"])
def test_a_command_line_that_names_the_folder_belongs_to_it(
    tmp_path: Path, belongs_to: Callable[[int, str], bool], name: str, shape: str
) -> None:
    """As nghttpx, Caddy and Nginx show it, which work elsewhere; the path may have spaces."""
    lab = tmp_path / name
    command = ["sleep", "1000"]
    with subprocess.Popen(
        ["bash", "-c", 'exec -a "$0" "$@"', shape.format(lab / "instances/x.conf"), *command],
        cwd="/",
    ) as process:
        try:
            wait_for_exec(process.pid)
            assert belongs_to(process.pid, str(lab))
            assert belongs_to(process.pid, f"{lab}/")
            assert not belongs_to(process.pid, str(lab / "instances/y"))
            assert not belongs_to(process.pid, str(tmp_path / name[:-1]))
        finally:
            process.kill()


def test_a_process_that_works_in_the_folder_belongs_to_it(
    tmp_path: Path, belongs_to: Callable[[int, str], bool]
) -> None:
    """A worker's command line names no file; where it works stays."""
    lab = tmp_path / "a study" / "lab"
    inside = lab / "instances" / "one"
    inside.mkdir(parents=True)
    with subprocess.Popen(["sleep", "1000"], cwd=inside) as process:
        try:
            assert belongs_to(process.pid, str(lab))
            assert not belongs_to(process.pid, str(tmp_path / "a"))
        finally:
            process.kill()


def wait_for_exec(pid: int) -> None:
    """Wait until the shell has become the command, and its command line can be read.

    The kernel sets the name first; in between the command line is empty.
    """
    process, patience = Path(f"/proc/{pid}"), time.monotonic() + 60
    while (process / "comm").read_text() != "sleep\n" or not (process / "cmdline").read_bytes():
        assert time.monotonic() < patience
        time.sleep(0.005)
