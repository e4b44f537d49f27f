"""A worker of Ansible that ends without a result ends the playbook, with a real Ansible."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tuner.errors import HostError
from tuner.hosts import ansible_workers
from tuner.hosts.playbooks import Playbooks

_ACTION = """\
import os, time
from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        {body}
        return {{"changed": False, "said": "done"}}
"""
_PLAYBOOK = """\
- hosts: targets
  tasks:
    - odd:
"""


def played(folder: Path, body: str) -> object:
    """Run a playbook with one task; its worker runs a line of Python."""
    actions = folder / "actions"
    actions.mkdir()
    (actions / "odd.py").write_text(_ACTION.format(body=body))
    playbook = folder / "odd.yml"
    playbook.write_text(_PLAYBOOK)
    runner = Playbooks(folder / "work", settings={"ANSIBLE_ACTION_PLUGINS": str(actions)})
    return runner.run(str(playbook), {})["localhost"]["said"]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let two looks suffice."""
    monkeypatch.setattr(ansible_workers, "_LOOKS", 2)


def test_a_worker_without_a_result_ends_the_playbook(tmp_path: Path) -> None:
    """As on a full disk: Ansible itself waits without end."""
    with pytest.raises(HostError, match=r"odd\.yml failed: a worker of Ansible ended without"):
        played(tmp_path, "os._exit(0)")


def test_a_task_that_takes_its_time_is_waited_for(tmp_path: Path) -> None:
    """Its worker is there."""
    assert played(tmp_path, "time.sleep(11.5)") == "done"


def test_looks_that_come_at_once_count_as_one(tmp_path: Path) -> None:
    """A machine that was suspended, or much output, does not make a worker lost."""
    worker = ansible_workers.LostWorker(tmp_path, clock=lambda: 100.0)
    worker.see({"event": "runner_on_start", "event_data": {"host": "a"}})
    worker._has_none = lambda: True  # type: ignore[method-assign]
    assert not any(worker.look() for _ in range(20))


def test_workers_that_appear_during_the_search_are_killed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A living playbook forks a worker after the search has passed its place in /proc."""
    command = [sys.executable, "-c", "input()", f"@{ansible_workers.variables_file(tmp_path)}"]

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    look = ansible_workers._processes
    with start() as first:
        late: list[subprocess.Popen[bytes]] = []

        def searched(private: Path) -> Iterator[Path]:
            yield from list(look(private))
            if not late:
                late.append(start())

        monkeypatch.setattr(ansible_workers, "_processes", searched)
        ansible_workers.end_workers(tmp_path)
        with late[0] as second:
            assert (first.wait(10), second.wait(10)) == (-signal.SIGKILL, -signal.SIGKILL)


def test_a_playbook_that_finds_no_host_has_failed(tmp_path: Path) -> None:
    """Ansible itself ends with 0, and a stop would count as done."""
    playbook = tmp_path / "empty.yml"
    playbook.write_text("- hosts: nobody\n  tasks:\n    - ansible.builtin.ping:\n")
    with pytest.raises(HostError, match=r"empty\.yml failed: no task ran on any host"):
        Playbooks(tmp_path / "work").run(str(playbook), {})
