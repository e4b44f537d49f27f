"""A playbook that fails says why: with Ansible's own words, or those of what it ran."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tuner.errors import HostError
from tuner.hosts import playbooks as playbooks_module
from tuner.hosts.playbooks import LOCAL_INVENTORY, Playbooks
from tuner.hosts.reason import reason

MODULE = """
import os, signal, sys
from ansible.module_utils.basic import AnsibleModule

module = AnsibleModule(argument_spec={"how": {"type": "str"}})
how = module.params["how"]
if how == "raises":
    raise RuntimeError("the disk is on fire")
if how == "is killed":
    os.kill(os.getpid(), signal.SIGKILL)
if how == "says failed":
    module.fail_json(msg="failed", stderr="first\\nthe real reason\\n")
if how == "has no Python":
    sys.stderr.write("sh: 1: python3: not found\\n")
    sys.exit(127)
if how == "says nothing":
    module.fail_json(msg="")
"""
SHELL: dict[str, object] = {
    "ansible.builtin.shell": {"cmd": "echo out; echo why it broke >&2; exit 3"}
}
TASKS: Mapping[str, tuple[dict[str, object], str]] = {
    "raises": ({"breaks": {"how": "raises"}}, "the disk is on fire"),
    "is killed": ({"breaks": {"how": "is killed"}}, "killed by SIGKILL"),
    "says failed": ({"breaks": {"how": "says failed"}}, "the real reason"),
    "has no Python": (
        {"breaks": {"how": "has no Python"}},
        "exit code 127: sh: 1: python3: not found",
    ),
    "says nothing": ({"breaks": {"how": "says nothing"}}, "Ansible gave no reason"),
    "command": (SHELL, "exit code 3: why it broke"),
    "no such program": ({"ansible.builtin.command": "/no/such/program"}, "/no/such/program"),
    "items": (
        {"breaks": {"how": "{{ item }}"}, "loop": ["raises", "says failed", "raises"]},
        "the disk is on fire; the real reason",
    ),
    "hidden": ({**SHELL, "no_log": True}, "its result is hidden (no_log)"),
    "undefined": ({"ansible.builtin.debug": {"msg": "{{ no_such }}"}}, "'no_such' is undefined"),
    "file": (
        {"ansible.builtin.copy": {"src": "/no/such/file", "dest": "/tmp/x"}},  # noqa: S108 - never made
        "/no/such/file",
    ),
    "argument": ({"breaks": {"bogus": 1}}, "Unsupported parameters for (breaks) module: bogus"),
    "condition": (
        {"ansible.builtin.assert": {"that": ["1 == 2"]}},
        "this does not hold: 1 == 2",
    ),
}


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Playbooks:
    """Playbooks of a folder of the test's own, with a module that breaks."""
    library = tmp_path / "playbooks" / "library"
    library.mkdir(parents=True)
    (library / "breaks.py").write_text(MODULE)
    monkeypatch.setattr(playbooks_module, "data_dir", lambda _: tmp_path / "playbooks")
    return Playbooks(tmp_path / "work")


def test_each_kind_of_failure_has_its_reason(control: Playbooks, tmp_path: Path) -> None:
    """One host fails in each way; none is reported as "failed", "MODULE FAILURE" or "{}"."""
    local = LOCAL_INVENTORY["targets"]["hosts"]["localhost"]
    hosts = {name.replace(" ", "-"): {**local, "way": name} for name in TASKS}
    hosts["gone"] = {**local, "way": "", "ansible_connection": "ssh", "ansible_port": 1}
    hosts["gone"]["ansible_host"] = "127.0.0.1"
    tasks = [{**task, "when": f"way == {name!r}"} for name, (task, _) in TASKS.items()]
    tasks.append({"ansible.builtin.ping": {}, "when": "way == ''"})
    play = {"hosts": "targets", "gather_facts": False, "tasks": tasks}
    (tmp_path / "playbooks" / "all.yml").write_text(yaml.safe_dump([play], sort_keys=False))
    played = Playbooks(control.work, {"targets": {"hosts": hosts}}).play("all.yml", {})
    for name, (_, words) in TASKS.items():
        reported = played.failed[name.replace(" ", "-")].partition(": ")[2]
        assert words in reported, name
        assert "deserialization" not in reported
    assert "Connection refused" in played.failed["gone"]
    assert played.unreachable == {"gone"}


def test_a_playbook_that_cannot_be_read_says_where(control: Playbooks, tmp_path: Path) -> None:
    """No host has failed; the words are those of Ansible itself, without colours."""
    (tmp_path / "playbooks" / "bad.yml").write_text("- hosts: [\n")
    with pytest.raises(HostError, match=r"bad\.yml failed: \[ERROR\]: YAML parsing failed"):
        control.run("bad.yml", {})


def test_a_playbook_that_is_killed_says_so(control: Playbooks, tmp_path: Path) -> None:
    """Not "failed": the process was ended from outside, as the kernel does without memory."""
    begun = tmp_path / "begun"
    wait = {"ansible.builtin.shell": f"touch {begun}; sleep 60"}
    play = {"hosts": "targets", "gather_facts": False, "tasks": [wait]}
    (tmp_path / "playbooks" / "slow.yml").write_text(yaml.safe_dump([play]))

    def kill() -> None:
        while not begun.exists():
            time.sleep(0.05)
        for pid in players(str(tmp_path)):
            os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.raises(HostError, match=r"slow\.yml failed: ansible-playbook was killed"):
        control.run("slow.yml", {})
    thread.join()


def players(word: str) -> list[int]:
    """Return the processes of Ansible's whose command line holds a word."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_text(errors="replace")
            except OSError:
                continue
            if "ansible-playbook" in words and word in words:
                found.append(int(entry.name))
    return found


def test_a_result_without_words_is_said_to_have_none() -> None:
    """ansible-runner leaves out a result that is too long."""
    assert reason({}) == "Ansible gave no reason; its result was empty or too long"
    assert reason({"msg": "MODULE FAILURE\nSee stdout/stderr", "rc": 1}) == "exit code 1"
