"""Files that users hand in are regular and bounded, or refused in one line."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.errors import DefinitionError
from tuner.reading.inputs import open_input, read_input, read_input_text

_MEMORY = 700 << 20


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    """The last byte that fits, and the first that does not."""
    file = tmp_path / "file"
    file.write_bytes(b"x" * 10)
    assert read_input(file, 10) == b"x" * 10
    with pytest.raises(DefinitionError, match=re.escape(f"{file}: is too large: 10 bytes")) as seen:
        read_input(file, 9, "split it")
    assert "and the limit is 9; split it" in str(seen.value)


def test_a_size_that_the_system_does_not_state_is_bounded_too() -> None:
    """Files in /proc have a size of 0 and content."""
    assert Path("/proc/self/maps").stat().st_size == 0
    with pytest.raises(DefinitionError, match="is too large: 21 bytes"):
        read_input("/proc/self/maps", 20)


def test_text_is_utf8_with_one_kind_of_line_end(tmp_path: Path) -> None:
    """Text is read as UTF-8 with universal newlines; other bytes are refused."""
    file = tmp_path / "file"
    file.write_bytes("é\r\nb\rc\n".encode())
    assert read_input_text(file) == "é\nb\nc\n"
    file.write_bytes(b"\xff")
    with pytest.raises(DefinitionError, match="is not UTF-8 text"):
        read_input_text(file)


@pytest.mark.parametrize("kind", ["folder", "device", "pipe", "missing", "name"])
def test_what_is_no_regular_file_is_refused(tmp_path: Path, kind: str) -> None:
    """Without waiting for anybody to write."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    paths = {
        "folder": (str(tmp_path), "is a folder; name a regular file"),
        "device": ("/dev/zero", "is a character device; name a regular file"),
        "pipe": (str(pipe), "is a pipe; name a regular file"),
        "missing": (str(tmp_path / "none"), "cannot be read: No such file or directory"),
        "name": ("a\0b", "cannot be read: embedded null byte"),
    }
    path, words = paths[kind]
    with pytest.raises(DefinitionError, match=re.escape(words)):
        open_input(path)


@pytest.mark.parametrize(
    "words",
    [
        ("optimize", "--workload", "/dev/zero"),
        ("workload", "from-log", "/dev/zero"),
        ("doctor", "--config", "/dev/zero"),
        ("compare", "FOLDER/zero.yaml", "FOLDER/zero.yaml"),
        ("optimize", "--inventory", "/dev/zero"),
    ],
    ids=" ".join,
)
def test_a_device_without_an_end_is_refused_by_every_command(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    """In one line, within bounded memory."""
    (tmp_path / "zero.yaml").symlink_to("/dev/zero")
    (tmp_path / "studies").mkdir()
    command = [sys.executable, "-m", "tuner"]
    command += [word.replace("FOLDER", str(tmp_path)) for word in words]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY)),
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr) < 1000
