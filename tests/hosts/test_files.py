"""The files that a process executes, by their content."""

from __future__ import annotations

import re
import runpy
import subprocess
import time
from hashlib import sha256
from pathlib import Path

from tuner.paths import data_dir

SHARED = data_dir("playbooks") / "module_utils" / "tuner_files.py"


def wait_for_library(pid: int) -> None:
    """Wait until the command's loader has mapped the C library's code."""
    patience = time.monotonic() + 60
    while not re.search(r" r-xp .*/libc", Path(f"/proc/{pid}/maps").read_text()):
        assert time.monotonic() < patience
        time.sleep(0.005)


def test_the_code_of_a_process_is_its_program_and_its_libraries() -> None:
    """Each file with its SHA-256; one that is known is not read again; no process has none."""
    code_of = runpy.run_path(str(SHARED))["code_of"]
    program = Path("/bin/sleep").resolve()
    known: dict[tuple[int, int], str] = {}
    with subprocess.Popen(["sleep", "1000"]) as process:
        try:
            wait_for_library(process.pid)
            found = code_of(process.pid, known)
            assert found[str(program)] == sha256(program.read_bytes()).hexdigest()
            assert any("libc" in Path(path).name for path in found)
            assert sorted(known.values()) == sorted(found.values())
            place = program.stat()
            known[place.st_dev, place.st_ino] = "known"
            assert code_of(process.pid, known)[str(program)] == "known"
        finally:
            process.kill()
    assert code_of(process.pid, known) == {}
