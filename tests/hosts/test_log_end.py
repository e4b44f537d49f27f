"""The end of a log, here and over the channel to another host."""

from __future__ import annotations

import os
from pathlib import Path

from tuner.hosts.agent import Agent
from tuner.hosts.inventory import Host
from tuner.hosts.log_end import MOST_BYTES, log_end


def test_a_long_log_is_quoted_from_a_whole_line_on(tmp_path: Path) -> None:
    """And a short one from its beginning."""
    log = tmp_path / "error.log"
    log.write_bytes(b"first\nlast\n")
    assert log_end(str(log)) == b"first\nlast\n"
    line = b"x" * 99 + b"\n"
    log.write_bytes(line * 1000)
    reported = log_end(str(log))
    assert reported == line * (len(reported) // 100)
    assert MOST_BYTES - 200 < len(reported) <= MOST_BYTES


def test_only_a_plain_file_is_read(tmp_path: Path) -> None:
    """The server under test owns the folder: a link would lead elsewhere, a pipe never end."""
    (tmp_path / "secret").write_text("secret\n")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "missing", "."):
        assert log_end(str(tmp_path / name)) == b""


def test_another_host_gives_the_same(tmp_path: Path) -> None:
    """Through the agent, as over SSH."""
    log = tmp_path / "error.log"
    log.write_bytes(b"\xff words\n")
    agent = Agent(Host("here", {"ansible_connection": "local"}), str(tmp_path / "socket"))
    try:
        assert agent.log_end(str(log)) == b"\xff words\n"
        assert agent.log_end(str(tmp_path / "missing")) == b""
    finally:
        agent.close()
