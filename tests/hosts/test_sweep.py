"""A dead study's processes are stopped by identity, under a lock, only if in the way."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.errors import HostError
from tuner.hosts import local, playbooks
from tuner.hosts import sweep as sweep_module
from tuner.hosts.ansible import AnsibleDeployer
from tuner.hosts.sweep import Need, stop_lab, sweep

CPUS = frozenset(os.sched_getaffinity(0))
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims of these tests stay among themselves, and no playbook runs."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(playbooks.Playbooks, "play", lambda *_: pytest.fail("a playbook ran"))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a process of a program of the test's own."""
    program = shutil.copy2(shutil.which("sleep") or "", tmp_path / "server")
    started: list[subprocess.Popen[bytes]] = []

    def run(folder: Path, *command: str) -> subprocess.Popen[bytes]:
        folder.mkdir(parents=True, exist_ok=True)
        process = subprocess.Popen(command or [program, "1000"], cwd=folder)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()


def dead(tmp_path: Path, *pids: int, inventory: str = "", name: str = "dead") -> local.Claim:
    """Return the claim of a study whose tuner is gone, and had started these processes."""
    folder = tmp_path / "studies" / name
    made = local.claim(folder, folder / "lab", folder / "work", inventory=inventory)
    made = local.with_started(made, [str(tmp_path / "server")], pids)
    (folder / "work").mkdir(parents=True, exist_ok=True)
    left = replace(made, started=made.started + 1)
    local.keep(left)
    return left


def never(_: local.Claim) -> None:
    """For tests without other hosts."""
    pytest.fail("no other host is concerned")


def test_what_was_started_is_stopped_and_reported(tmp_path: Path, start: Start) -> None:
    """By its recorded identity; lab, work folder and claim go with it."""
    server = start(tmp_path / "studies" / "dead" / "lab" / "instances" / "a")
    left = dead(tmp_path, server.pid)
    (done,) = sweep(Need(tmp_path / "new", CPUS), never)
    assert done == (
        f"stopped processes that the dead study {left.study} had left: server"
        f" (process {server.pid})"
    )
    assert server.wait() == -signal.SIGTERM
    assert not Path(left.lab).exists()
    assert not Path(left.work).exists()
    assert local.claims() == []


def test_a_server_that_was_being_started_is_found_in_the_lab(tmp_path: Path, start: Start) -> None:
    """A server in a dead study's lab is stopped without being listed; an editor is not."""
    lab = tmp_path / "studies" / "dead" / "lab"
    server = start(lab / "instances" / "a")
    editor = start(
        lab,
        sys.executable,
        "-c",
        "import time; time.sleep(1000)",
        str(lab / "instances" / "nginx.conf"),
    )
    dead(tmp_path)
    sweep(Need(tmp_path / "new", CPUS), never)
    assert server.wait() == -signal.SIGTERM
    assert editor.poll() is None


def test_a_server_that_forks_during_the_search_is_stopped_too(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search repeats until it finds nothing."""
    lab = tmp_path / "studies" / "dead" / "lab"
    servers = [start(lab / "a")]
    search = sweep_module._processes

    def searched(claim: local.Claim) -> list[tuple[int, int]]:
        found = search(claim)
        if len(servers) == 1:
            servers.append(start(lab / "b"))
        return found

    monkeypatch.setattr(sweep_module, "_processes", searched)
    assert len(stop_lab(dead(tmp_path, servers[0].pid))) == 2
    assert [server.wait() for server in servers] == [-signal.SIGTERM] * 2


def test_processes_that_start_again_and_again_are_named(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stop ends, and says what to do."""
    stray = dead(tmp_path)
    lab = Path(stray.lab)
    search = sweep_module._processes

    def searched(claim: local.Claim) -> list[tuple[int, int]]:
        start(lab / "a")
        return search(claim)

    monkeypatch.setattr(sweep_module, "_processes", searched)
    with pytest.raises(HostError, match=r"server \(process \d+\) and 6 more start again"):
        stop_lab(stray)


def test_an_id_that_is_used_again_is_another_process(tmp_path: Path, start: Start) -> None:
    """A process with a reused id is left alone."""
    stranger = start(tmp_path)
    left = dead(tmp_path)
    started = local.start_time(stranger.pid)
    local.keep(replace(left, processes=((stranger.pid, started - 1),)))
    (done,) = sweep(Need(tmp_path / "new", CPUS), never)
    assert done.startswith("cleared up the dead study")
    assert stranger.poll() is None


def test_only_what_is_in_the_way_is_stopped(tmp_path: Path, start: Start) -> None:
    """Not a study on other cores or other hosts; the study itself is, wherever it ran."""
    server = start(tmp_path)
    left = dead(tmp_path, server.pid)
    hosts = dead(tmp_path, inventory="/other/hosts.yml", name="fleet")
    other_core = Need(tmp_path / "new", frozenset({max(CPUS) + 1}))
    elsewhere = Need(tmp_path / "new", inventory="/third/hosts.yml")
    assert sweep(other_core, never) == sweep(elsewhere, never) == []
    assert server.poll() is None
    swept: list[local.Claim] = []
    assert sweep(Need(tmp_path / "new", inventory="/other/hosts.yml"), swept.append)
    assert swept == [hosts]
    assert sweep(Need(Path(left.study)), never)
    assert server.wait() == -signal.SIGTERM


def test_a_service_elsewhere_that_may_be_changed_is_named(tmp_path: Path) -> None:
    """Nobody else would say that it still has a dead study's configuration."""
    left = replace(dead(tmp_path, inventory="/other/hosts.yml", name="fleet"), in_place=True)
    local.keep(left)
    (said,) = sweep(Need(tmp_path / "new", CPUS), never)
    assert said.startswith(f"the dead study {left.study} may have left its configuration")
    assert "a study with --inventory /other/hosts.yml restores the original" in said


def test_what_does_not_listen_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time that it has to end by itself."""
    monkeypatch.setattr("tuner.hosts.sweep._PATIENCE_S", 0.2)
    program = "import signal; signal.signal(15, signal.SIG_IGN); print(1, flush=True); input()"
    deaf = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with deaf:
        assert deaf.stdout is not None
        deaf.stdout.readline()
        dead(tmp_path, deaf.pid)
        assert sweep(Need(tmp_path / "new", CPUS), never)
        assert deaf.wait() == -signal.SIGKILL


def test_too_many_open_files_hide_no_process(tmp_path: Path, start: Start) -> None:
    """The claim stays, and the next sweep stops the process."""
    running = start(tmp_path / "studies" / "dead" / "lab")
    stray = dead(tmp_path, running.pid)
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # One file is left: /proc can be listed, and no process can be held and looked at.
    other = start(tmp_path / "studies" / "dead" / "lab" / "b1-i0")
    with Path(os.devnull).open("rb") as lowest:
        room = lowest.fileno() + 1
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (room, most))
        with pytest.raises(HostError, match=r"may still run.*Too many open files"):
            stop_lab(stray)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
    assert (running.poll(), other.poll()) == (None, None)
    (words,) = sweep(Need(Path(stray.study)), never)
    assert str(running.pid) in words
    assert str(other.pid) in words
    assert local.strays() == []


def test_a_lab_that_cannot_be_removed_keeps_its_claim(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next command tries again."""
    stray = dead(tmp_path, start(tmp_path / "studies" / "dead" / "lab").pid)
    with monkeypatch.context() as broken:
        broken.setattr(shutil, "rmtree", lambda *_, **__: None)
        sweep(Need(Path(stray.study)), never)
    assert local.strays() == [stray]
    sweep(Need(Path(stray.study)), never)
    assert local.strays() == []


def test_two_that_start_together_take_turns(tmp_path: Path, start: Start) -> None:
    """One stops the leftovers and the other finds nothing; both come to their end."""
    servers = [start(tmp_path / "studies" / "dead" / "lab" / str(i)) for i in range(3)]
    dead(tmp_path, *(server.pid for server in servers))
    program = (
        "import os, sys; from pathlib import Path; from tuner.hosts.sweep import Need, sweep;"
        "print('ready', flush=True); sys.stdin.readline();"
        "print(sweep(Need(Path('new'), frozenset(os.sched_getaffinity(0))), None))"
    )
    both = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in both:
        assert process.stdout is not None
        process.stdout.readline()
    for process in both:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    said = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert sorted("stopped processes" in out for out, _ in said) == [False, True]
    assert {server.wait() for server in servers} == {-signal.SIGTERM}


def test_a_playbook_that_has_no_room_names_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ansible's own error names no file."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(playbooks.Playbooks, "run", full)
    deployer = AnsibleDeployer(tmp_path / "lab", tmp_path / "work", user="")
    with pytest.raises(HostError, match=f"{tmp_path}/work cannot be written: No space left"):
        deployer.stop()
