"""Locks of the machine's cores: who holds one, what a hostile file does, when the holder dies."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tuner.errors import HostError
from tuner.hosts.agent import Agent
from tuner.hosts.inventory import Host
from tuner.hosts.locks import VARIABLE, LockHolder, Locks, cores_folder, take_cores

MINE = LockHolder(study="mine", folder="/here/studies/mine", tuner="host 1 1")
OTHER = "other", "/there/studies/other", "host 2 2"
HOLD = """
import sys
from tuner.hosts.locks import LockHolder, Locks, take_cores
locks = Locks()
holder = LockHolder(0, *sys.argv[1].split("|"))
print(take_cores(locks, map(int, sys.argv[2:]), holder).cpu, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Locks of each test are its own."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "locks"))
    return tmp_path / "locks"


@contextmanager
def another(*cpus: int) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the locks of these cores."""
    command = [sys.executable, "-c", HOLD, "|".join(OTHER), *map(str, cpus)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "-1\n"
        yield process
        process.kill()


def test_a_core_is_one_study_s_at_a_time() -> None:
    """The other one is named: study, folder, process; nothing is held after a refusal."""
    with another(1) as process:
        locks = Locks()
        found = take_cores(locks, [0, 1], MINE)
        assert found.cpu == 1
        assert found.holder == LockHolder(process.pid, *OTHER)
        assert found.holder.words.startswith("the study other in /there/studies/other (process 2 ")
        assert take_cores(Locks(), [0], MINE._replace(tuner="host 3 3")).cpu == -1


def test_the_kernel_releases_what_a_killed_holder_had() -> None:
    """The kernel releases a killed holder's lock, although its text stays in the file."""
    with another(0, 1) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert take_cores(Locks(), [0, 1], MINE).cpu == -1


def test_a_tuner_does_not_stand_in_its_own_way() -> None:
    """A second channel of the same tuner passes over what the first one holds."""
    first, second = Locks(), Locks()
    assert take_cores(first, [0], MINE).cpu == -1
    assert take_cores(second, [0], MINE).cpu == -1
    assert take_cores(second, [0], MINE._replace(tuner="host 9 9")).cpu == 0
    first.release()


def test_every_account_can_lock_the_same_file(folder: Path) -> None:
    """The lock file is writable for all accounts under a strict umask too."""
    kept = os.umask(0o077)
    try:
        take_cores(Locks(), [0], MINE)
    finally:
        os.umask(kept)
    assert stat.S_IMODE((folder / "tuner-core-0.lock").stat().st_mode) == 0o666


@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "folder", "second name"])
def test_a_planted_file_is_passed_over(folder: Path, tmp_path: Path, kind: str) -> None:
    """A planted file stops no measurement, is reported, and its target stays as it is."""
    folder.mkdir()
    path, victim = folder / "tuner-core-0.lock", tmp_path / "victim"
    victim.write_text("kept")
    if kind == "link":
        path.symlink_to(victim)
    elif kind == "dangling":
        path.symlink_to(tmp_path / "nowhere")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.hardlink_to(victim)
    locks = Locks()
    found = take_cores(locks, [0, 1], MINE)
    assert found.cpu == -1
    (words,) = found.unusable
    assert words.startswith(f"{path}: ")
    assert victim.read_text() == "kept"
    assert not (tmp_path / "nowhere").exists()
    locks.release()


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\xff\xfe",
        b"[" * 5_000,
        b'{"pid": 1}',
        b'[1, "a"]',
        b'["x", "a", "b", "c"]',
        b'[1, "forged", "/etc", "host 5 5"]',
    ],
)
def test_what_a_lock_says_is_not_trusted(folder: Path, said: bytes) -> None:
    """The kernel knows the process; words of another one, or none, are left out."""
    with another(0) as process:
        (folder / "tuner-core-0.lock").write_bytes(said)
        found = take_cores(Locks(), [0], MINE)
        assert found.cpu == 0
        assert found.holder == LockHolder(process.pid)


def test_words_of_a_lock_are_fit_for_a_terminal(folder: Path) -> None:
    """No escape sequence, no mark of direction, no endless text."""
    with another(0) as process:
        said = f'[{process.pid}, "\\u001b[2J\\u202eevil", "{"x" * 900}", "h 2 2"]'
        (folder / "tuner-core-0.lock").write_text(said)
        words = take_cores(Locks(), [0], MINE).holder.words
        assert words.isprintable()
        assert "evil" in words
        assert len(words) < 400


def test_the_folder_is_one_for_all_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """All accounts may write to the folder, and none may remove another's file."""
    monkeypatch.delenv(VARIABLE)
    mode = Path(cores_folder()).stat().st_mode
    assert mode & stat.S_ISVTX
    assert mode & stat.S_IWOTH


def test_the_agent_holds_the_cores_of_another_host(tmp_path: Path) -> None:
    """As long as the channel lasts; the other controller is named, and a lost lock is noticed."""
    here = Host("here", {"ansible_connection": "local"})
    theirs = LockHolder(0, *OTHER)
    with contextlib.ExitStack() as stack:
        first, second = (Agent(here, str(tmp_path / f"socket{i}")) for i in range(2))
        stack.callback(first.close)
        stack.callback(second.close)
        assert first.take_cores([0, 1], MINE).cpu == -1
        found = second.take_cores([1], theirs)
        assert (found.cpu, found.holder[1:]) == (1, MINE[1:])
        assert "process 1 on host" in found.holder.words
        first.close()
        assert second.take_cores([1], theirs).cpu == -1
        with pytest.raises(HostError, match="core 1 of here is in use by the study other"):
            first.clocks()
        second.close()
        first.clocks()
        with pytest.raises(HostError, match="core 1 of here is in use by the study mine"):
            second.clocks()
