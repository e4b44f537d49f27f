"""Files that the unprivileged account of the instances may read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tuner.hosts.access import is_enterable, is_readable
from tuner.hosts.agent import Agent
from tuner.hosts.inventory import Host


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    """The agent of this machine."""
    made = Agent(Host("here", {"ansible_connection": "local"}), str(tmp_path / "socket"))
    yield made
    made.close()


@pytest.mark.root
def test_one_folder_that_is_closed_keeps_all_below_it_out(tmp_path: Path, agent: Agent) -> None:
    """Root itself may read everything; the account of the instances may not."""
    if os.geteuid() != 0:
        pytest.skip("not root: instances run as this account, and nothing was tested")
    inner = tmp_path / "closed" / "site"
    inner.mkdir(parents=True)
    (inner / "page").write_text("a page\n")
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o111)
    for mode, may in ((0o711, True), (0o700, False)):
        inner.parent.chmod(mode)
        assert is_enterable(str(inner)) == may
        assert is_readable(str(inner / "page")) == may
        assert agent.is_enterable(str(inner)) == may
        assert agent.is_readable(str(inner / "page")) == may


def test_what_is_not_there_may_not_be_read(tmp_path: Path, agent: Agent) -> None:
    """Wherever it would be."""
    for who in (agent.is_enterable, agent.is_readable, is_enterable, is_readable):
        assert not who(str(tmp_path / "missing"))
