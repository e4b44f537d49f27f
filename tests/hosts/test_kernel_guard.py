"""The program that lends a target's kernel settings restores them after every kind of end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.namespaces import Namespace, namespace, needs_namespace
from tuner.paths import data_dir

pytestmark = needs_namespace

PROGRAM = data_dir("playbooks") / "files" / "tuner_kernel_guard.py"
CORKING, SOMAXCONN = "net.ipv4.tcp_autocorking", "net.core.somaxconn"
LONG_S, SHORT_S = 100.0, 1.0


@dataclass(frozen=True)
class Guarded:
    """The program on a namespace."""

    space: Namespace
    folder: Path
    owner: str = "study"

    def call(self, command: str, **asked: Any) -> dict[str, Any]:
        """Return the answer of the program."""
        done = self.space.run(
            sys.executable, str(PROGRAM), str(self.folder), command, text=json.dumps(asked)
        )
        assert done.stderr == ""
        found: dict[str, Any] = json.loads(done.stdout)
        assert (done.returncode != 0) == ("failed" in found)
        return found

    def apply(
        self, settings: dict[str, str], *, lease_s: float = LONG_S, continues: bool = False
    ) -> dict[str, Any]:
        """Make settings hold."""
        return self.call(
            "apply", owner=self.owner, lease_s=lease_s, settings=settings, continues=continues
        )

    def restore(self) -> list[str]:
        """Put all back; what had to be."""
        found = self.call("restore")["restored"]
        assert isinstance(found, list)
        return found

    @property
    def log(self) -> str:
        """Return the log of the program."""
        return (self.folder / "log").read_text()

    @property
    def watcher(self) -> int:
        """The process that would put all back."""
        return int((self.folder / "watch.lock").read_text())


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Guarded]:
    """A fresh namespace, and nothing left running afterwards."""
    with namespace() as made:
        found = Guarded(made, tmp_path / "guard")
        yield found
        with contextlib.suppress(AssertionError, FileNotFoundError):
            found.restore()


def eventually(holds: Callable[[], bool]) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def runs(pid: int) -> bool:
    """Return whether a process lives."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


def kill(pid: int) -> None:
    """End a process at once, and wait until it has gone."""
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not runs(pid))


def test_settings_hold_and_come_back(guard: Guarded) -> None:
    """One field of three, too; and the process that watches ends with the loan."""
    before = guard.space.values()
    wanted = {
        SOMAXCONN: "777",
        CORKING: "0",
        "net.ipv4.tcp_rmem": "4096 131072 8388608",
        "net.ipv4.tcp_congestion_control": "reno",
        "net.ipv4.ip_local_port_range": "20000 40000",
    }
    assert guard.apply(wanted) == {"state": "applied", "message": ""}
    assert guard.space.values() == wanted
    watcher = guard.watcher
    assert runs(watcher)
    assert set(guard.restore()) == {name for name in wanted if wanted[name] != before[name]}
    assert guard.space.values() == before
    eventually(lambda: not runs(watcher))
    assert "study borrows the kernel's settings" in guard.log
    assert "(asked to)" in guard.log


def test_restoring_may_be_done_any_number_of_times(guard: Guarded) -> None:
    """Also where nothing was ever lent; what somebody changed since is not undone."""
    assert guard.restore() == []
    guard.apply({CORKING: "0"})
    assert guard.restore() == [CORKING]
    guard.space.set(CORKING, "0")
    assert guard.restore() == []
    assert guard.space.value(CORKING) == "0"


def test_the_next_settings_replace_the_last_ones(guard: Guarded) -> None:
    """Settings that are no longer named return to the values from before the first change."""
    before = guard.space.values()
    guard.apply({SOMAXCONN: "777"})
    guard.apply({CORKING: "0"}, continues=True)
    assert guard.space.values() == {**before, CORKING: "0"}
    guard.apply({SOMAXCONN: "888"}, continues=True)
    guard.restore()
    assert guard.space.values() == before


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (SOMAXCONN, "-1", "the kernel refuses '-1' (Invalid argument)"),
        ("net.ipv4.tcp_congestion_control", "nothing", "the kernel refuses 'nothing'"),
        ("net.ipv4.tcp_autocorking", "many", "the kernel refuses 'many'"),
        (SOMAXCONN, "0777", "the kernel made '511' of '0777'"),
    ],
)
def test_what_the_kernel_refuses_is_the_values_fault(
    guard: Guarded, name: str, text: str, words: str
) -> None:
    """Or makes another value of; in its words, and nothing of the whole holds then."""
    before = guard.space.values()
    found = guard.apply({"net.ipv4.ip_local_port_range": "20000 40000", name: text})
    assert found["state"] == "refused"
    assert words in found["message"]
    assert guard.space.values() == before
    assert guard.apply({CORKING: "0"}, continues=True)["state"] == "applied"


@pytest.mark.parametrize(
    "name", ["kernel.randomize_va_space", "net.ipv4.conf.all.rp_filter", "net.core/../x", "vm.swap"]
)
def test_nothing_else_of_the_kernel_can_be_changed(guard: Guarded, name: str) -> None:
    """The guard refuses every name outside net.core and net.ipv4."""
    assert "not a setting of net.core or net.ipv4" in guard.apply({name: "1"})["failed"]


def test_a_setting_that_is_not_there_is_the_hosts_fault(guard: Guarded) -> None:
    """And no configuration's: it is a failure, not a refusal."""
    assert "No such file" in guard.apply({"net.ipv4.tcp_no_such": "1"})["failed"]


def test_the_target_puts_all_back_when_nobody_renews(guard: Guarded) -> None:
    """The target restores its settings after the time limit; a later call learns that it did."""
    before = guard.space.values()
    guard.apply({CORKING: "0", SOMAXCONN: "777"}, lease_s=SHORT_S)
    eventually(lambda: guard.space.values() == before)
    eventually(lambda: "nobody renewed the time; lent to study" in guard.log)
    # On a busy machine nobody may have looked before; that it was changed stands there.
    assert f"{SOMAXCONN} = {before[SOMAXCONN]}" in guard.log
    eventually(lambda: not runs(guard.watcher))
    missed = guard.apply({CORKING: "0"}, continues=True)
    assert "put back meanwhile" in missed["failed"]
    assert "nobody renewed" in missed["failed"]
    assert guard.apply({CORKING: "0"})["state"] == "applied"


def test_every_call_renews_the_time_limit(guard: Guarded) -> None:
    """The same watching process goes on sleeping."""
    # Long enough for two calls on a busy machine.
    lease_s = 6.0
    guard.apply({CORKING: "0"}, lease_s=lease_s)
    watcher = guard.watcher
    guard.apply({CORKING: "0"}, lease_s=LONG_S, continues=True)
    time.sleep(lease_s + 0.3)
    assert guard.space.value(CORKING) == "0"
    assert guard.watcher == watcher
    assert runs(watcher)


def test_a_caller_that_is_killed_leaves_nothing_behind(guard: Guarded) -> None:
    """The watching process is in a session of its own: killing the caller's whole group spares it.

    The caller is killed while it holds the loan, as by kill -9 or a lost connection.
    """
    before = guard.space.values()
    script = (
        "import json, os, subprocess, sys\n"
        f"settings = {{{SOMAXCONN!r}: '777'}}\n"
        f"asked = json.dumps({{'owner': 'x', 'lease_s': {SHORT_S}, 'settings': settings}})\n"
        f"subprocess.run([sys.executable, {str(PROGRAM)!r}, {str(guard.folder)!r}, 'apply'],"
        " input=asked, text=True, check=True)\n"
        "os.killpg(0, 9)\n"
    )
    done = guard.space.run("setsid", "--wait", sys.executable, "-c", script)
    assert done.returncode not in (0, 1)
    eventually(lambda: guard.space.values() == before)
    eventually(lambda: "nobody renewed the time; lent to x" in guard.log)
    assert f"{SOMAXCONN} = {before[SOMAXCONN]}" in guard.log


def test_the_watching_process_restores_when_it_is_ended(guard: Guarded) -> None:
    """At once, as when the host shuts down; if it was killed, the next call starts another."""
    before = guard.space.values()
    guard.apply({SOMAXCONN: "777"})
    os.kill(guard.watcher, signal.SIGTERM)
    eventually(lambda: guard.space.values() == before)
    eventually(lambda: "the watching process was ended" in guard.log)
    guard.apply({SOMAXCONN: "777"})
    killed = guard.watcher
    kill(killed)
    guard.apply({SOMAXCONN: "888"}, continues=True)
    assert guard.watcher != killed
    assert runs(guard.watcher)


def test_only_one_study_at_a_time(guard: Guarded) -> None:
    """Another study is refused while the loan runs; the message gives the longest wait."""
    guard.apply({SOMAXCONN: "777"})
    other = replace(guard, owner="other")
    assert "lent to study for another" in other.apply({SOMAXCONN: "888"})["failed"]
    assert guard.space.value(SOMAXCONN) == "777"


def test_what_somebody_else_changed_is_found(guard: Guarded) -> None:
    """The last window does not count then; the call after that goes on."""
    guard.apply({SOMAXCONN: "777"})
    guard.space.set(SOMAXCONN, "555")
    found = guard.apply({SOMAXCONN: "777"}, continues=True)
    assert "something else changed" in found["failed"]
    assert "'555', was '777'" in found["failed"]
    assert guard.apply({SOMAXCONN: "777"}, continues=True)["state"] == "applied"
    assert guard.space.value(SOMAXCONN) == "777"


def test_old_values_of_another_start_of_the_host_are_forgotten(guard: Guarded) -> None:
    """A reboot has put everything back already."""
    guard.apply({SOMAXCONN: "777"})
    kill(guard.watcher)
    state = guard.folder / "saved.json"
    saved = json.loads(state.read_text())
    state.write_text(json.dumps({**saved, "boot": "another"}))
    guard.space.set(SOMAXCONN, "600")
    assert guard.restore() == []
    assert guard.space.value(SOMAXCONN) == "600"
    assert "started anew" in guard.log


def test_another_namespace_is_left_alone(guard: Guarded) -> None:
    """Values of one are never written to another."""
    guard.apply({SOMAXCONN: "777"})
    with namespace() as other:
        elsewhere = replace(guard, space=other)
        before = other.values()
        assert "another network namespace" in elsewhere.call("restore")["failed"]
        assert other.values() == before
