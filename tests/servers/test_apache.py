"""Apache's adapter: its builds, and its processes, which the lab must know from the start."""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path

import pytest

from tests.servers.labs import server_lab
from tuner.errors import HostError
from tuner.servers import apache
from tuner.workload.wire import Tls, Wire

BUILD = """\
Server version: Apache/2.4.62 (Debian)
Server built:   2025-01-01T00:00:00
Compiled in modules:
  core.c
  mod_so.c
  http_core.c
  mod_log_config.c
mod_http2.so
mod_mpm_event.so
mod_ssl.so
"""
"""Output of the program, and the files of its modules."""


def test_modules_are_those_compiled_in_and_those_to_load() -> None:
    """By their names without `mod_`."""
    found = apache.parse_build(BUILD, "/usr/sbin/apache2")
    assert (found.name, found.version) == ("apache", "2.4.62")
    assert set(found.modules) == {
        *("core", "so", "http_core", "log_config"),
        *("http2", "mpm_event", "ssl"),
    }


def test_another_program_is_no_apache() -> None:
    """The message has what it printed."""
    with pytest.raises(HostError, match="does not print a version"):
        apache.parse_build("Server version: nothing", "/usr/sbin/apache2")


@pytest.mark.parametrize(
    ("missing", "wire", "words"),
    [
        ("2.4.62", Wire(), "too old"),
        ("", Wire("http3", Tls()), "does not speak HTTP/3"),
        ("mod_mpm_event.so\n", Wire(), "no mod_mpm_event"),
        ("mod_ssl.so\n", Wire(tls=Tls()), "no mod_ssl"),
        ("mod_http2.so\n", Wire("http2"), "no mod_http2"),
    ],
)
def test_what_a_build_lacks_is_said(missing: str, wire: Wire, words: str) -> None:
    """An old version, a protocol, the event MPM or another module."""
    text = BUILD.replace(missing, "2.4.29" if missing == "2.4.62" else "")
    assert words in apache.refuses(apache.parse_build(text, "/usr/sbin/apache2"), wire)
    assert (
        apache.refuses(apache.parse_build(BUILD, "/usr/sbin/apache2"), Wire("http2", Tls())) == ""
    )


@pytest.mark.integration
def test_no_process_comes_or_goes_under_the_workload(tmp_path: Path) -> None:
    """With a thread busy for each connection, over several of Apache's looks at idle threads."""
    with contextlib.ExitStack() as stack:
        lab = stack.enter_context(server_lab(tmp_path / "study", "apache/static"))
        port, state = lab.start(lab.space.baseline("distro"))
        assert (state.state, state.message) == ("live", "")
        for _ in range(lab.space.facts.connections):
            connection = socket.create_connection(("127.0.0.1", port), timeout=10)
            stack.enter_context(connection)
            connection.sendall(b"GET / HTTP/1.1\r\n")
        # Apache looks once a second.
        time.sleep(2.5)
        main = state.pids[0]
        children = Path(f"/proc/{main}/task/{main}/children").read_text()
        assert sorted(map(int, children.split())) == sorted(state.pids[1:])
