"""The agent on a host: what becomes of one that a broken connection left there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tuner.hosts import local
from tuner.hosts.agent import Agent
from tuner.hosts.inventory import Host
from tuner.hosts.locks import VARIABLE, LockHolder


@pytest.fixture(autouse=True)
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Locks of these tests' own."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return tmp_path


def agent() -> Agent:
    """Return an agent on this machine, without SSH."""
    return Agent(Host("here", {"ansible_connection": "local"}), "")


def holder(tuner: str) -> LockHolder:
    """Return what a tuner writes into its locks."""
    return LockHolder(0, "mine", "/there/studies/mine", tuner)


def ended_tuner() -> str:
    """Return the identity of a tuner that ran here and has ended."""
    with subprocess.Popen(["sleep", "60"]) as process:
        started = local.start_time(process.pid)
        process.kill()
    name, _, _, boot = local.this_tuner().split(" ")
    return f"{name} {process.pid} {started} {boot}"


def test_the_agent_of_a_tuner_that_ended_gives_its_cores_up(
    monkeypatch: pytest.MonkeyPatch, locks: Path
) -> None:
    """A silent network keeps it alive on the host; the next tuner ends it, and it cleans up."""
    ended = ended_tuner()
    with monkeypatch.context() as patch:
        patch.setattr(local, "this_tuner", lambda: ended)
        orphan = agent()
        assert orphan.take_cores([0, 1], holder(ended)).cpu == -1
        folder = orphan.ask("folder")["path"]
    following = agent()
    try:
        assert following.take_cores([1, 2], holder(local.this_tuner())).cpu == -1
        assert not Path(folder).exists()
    finally:
        following.close()
        orphan.close()
    assert sorted(path.name for path in locks.iterdir()) == [
        f"tuner-core-{cpu}.lock" for cpu in range(3)
    ]


@pytest.mark.parametrize("other", ["here", "elsewhere"])
def test_an_agent_keeps_its_cores_while_its_tuner_may_live(
    other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tuner that lives here, or one of another machine, of which nothing is known."""
    identity = local.this_tuner()
    if other == "elsewhere":
        identity = f"{ended_tuner()}0"
    monkeypatch.setattr(local, "this_tuner", lambda: identity)
    first, second = agent(), agent()
    try:
        assert first.take_cores([0], holder(identity)).cpu == -1
        found = second.take_cores([0], holder("other 1 2 3"))
        assert (found.cpu, found.holder.tuner) == (0, identity)
        assert first.ask("clock")
    finally:
        second.close()
        first.close()


def test_the_text_of_a_lock_ends_no_other_process() -> None:
    """Each account can write into a lock's file: the command line decides what is ended."""
    live = agent()
    ended = ended_tuner()
    try:
        assert live.take_cores([0], holder(ended)).cpu == -1
        following = agent()
        try:
            assert following.take_cores([0], holder(local.this_tuner())).cpu == 0
            assert live.ask("clock")
        finally:
            following.close()
    finally:
        live.close()


def test_a_tuner_has_ended_only_if_it_ran_here() -> None:
    """An identity of another boot, an older version's, or one that lives says nothing."""
    ended = ended_tuner()
    assert local.has_ended_here(ended)
    assert not local.has_ended_here(local.this_tuner())
    assert not local.has_ended_here(f"{ended}0")
    assert not local.has_ended_here(ended.rsplit(" ", 1)[0])
    assert not local.has_ended_here("")
