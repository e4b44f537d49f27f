"""A network namespace of a test's own: its net.* settings are not this machine's."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

CHANGED = (
    "net.core.somaxconn",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.ip_local_port_range",
)
"""Settings that the tests change; each namespace has its own."""


def _allowed() -> bool:
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "nsenter", "ip"))):
        return False
    tried = subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False)
    return tried.returncode == 0


needs_namespace = [
    pytest.mark.root,
    pytest.mark.skipif(
        not _allowed(),
        reason="no network namespace of its own (needs root, unshare, nsenter, ip): no setting of a"
        " kernel was changed, and none put back",
    ),
]


@dataclass(frozen=True)
class Namespace:
    """One namespace, held by a sleeping process."""

    pid: int

    def command(self, *words: str) -> list[str]:
        """Return a command line that runs in it."""
        return ["nsenter", "-t", str(self.pid), "-n", *words]

    def run(self, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command in it to its end."""
        return subprocess.run(
            self.command(*words), input=text, capture_output=True, text=True, check=False
        )

    def value(self, name: str) -> str:
        """Return a setting in it, fields separated by one blank."""
        path = "/proc/sys/" + name.replace(".", "/")
        return " ".join(self.run("cat", path).stdout.split())

    def set(self, name: str, text: str) -> None:
        """Change a setting in it, as somebody else would."""
        path = "/proc/sys/" + name.replace(".", "/")
        assert self.run("sh", "-c", f"echo {text} > {path}").returncode == 0

    def values(self) -> dict[str, str]:
        """Return all that the tests change."""
        return {name: self.value(name) for name in CHANGED}


@contextlib.contextmanager
def namespace() -> Iterator[Namespace]:
    """A namespace with a loopback that is up, gone afterwards; this machine's own is as before."""
    before = _own()
    with subprocess.Popen(["unshare", "-n", "sleep", "600"]) as sleeper:
        try:
            made = Namespace(sleeper.pid)
            _wait_until_inside(sleeper.pid)
            assert made.run("ip", "link", "set", "lo", "up").returncode == 0
            yield made
        finally:
            sleeper.kill()
    assert _own() == before, "a test changed the settings of the machine itself"


def _wait_until_inside(pid: int) -> None:
    own = Path("/proc/self/ns/net").readlink()
    end = time.monotonic() + 60
    while Path(f"/proc/{pid}/ns/net").readlink() == own:
        assert time.monotonic() < end, "unshare did not begin"
        time.sleep(0.01)


def _own() -> dict[str, str]:
    paths = {name: Path("/proc/sys", *name.split(".")) for name in CHANGED}
    return {name: path.read_text() for name, path in paths.items()}
