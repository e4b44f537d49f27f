"""Removal of what a bed left behind whose test run was killed.

The name of a bed's folder records its tag and its owner: ``tuner-bed-TAG-PID-START-…``. Networks,
namespaces and mounts carry the tag or lie in the folder, so nothing else needs a record.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from tuner.hosts.local import start_time

PLACE = Path("/var/tmp")  # noqa: S108 - overlays need a disk, and hosts a long-lived folder
CGROUP = "cgroup"
"""Where, in a host's folder, the hierarchy of control groups is mounted that systemd needs."""
_FOLDER = re.compile(r"tuner-bed-(?P<tag>[0-9a-f]{4})-(?P<pid>\d+)-(?P<start>\d+)-.+")
_PATIENCE_S = 20.0


def bed_folder(tag: str, place: Path = PLACE) -> Path:
    """Create the folder of a bed, owned by this process."""
    owner = f"{os.getpid()}-{start_time(os.getpid())}"
    return Path(tempfile.mkdtemp(prefix=f"tuner-bed-{tag}-{owner}-", dir=place))


def sweep(place: Path = PLACE) -> list[Path]:
    """Remove the beds of ended test runs; return their folders."""
    swept = []
    for folder in sorted(place.iterdir()):
        named = _FOLDER.fullmatch(folder.name)
        if named and start_time(int(named["pid"])) != int(named["start"]):
            remove(folder, f"tb{named['tag']}")
            swept.append(folder)
    return swept


def remove(folder: Path, bridge: str) -> None:
    """Remove a bed: its processes, namespaces, cables, mounts and files.

    Args:
        folder: the folder of the bed.
        bridge: name of its bridge, with which the names of its namespaces and cables begin.
    """
    for namespace in _names(Path("/run/netns"), bridge):
        _kill(namespace)
        quietly("ip", "netns", "del", namespace)
    for link in _names(Path("/sys/class/net"), bridge):
        quietly("ip", "link", "del", link)
    for mounted in reversed(mounts(folder)):
        if Path(mounted).name == CGROUP:
            quietly("find", mounted, "-depth", "-type", "d", "-path", f"*/{bridge}-*", "-delete")
        quietly("umount", "--lazy", mounted)
    shutil.rmtree(folder, ignore_errors=True)


def _names(place: Path, beginning: str) -> list[str]:
    found = place.iterdir() if place.is_dir() else ()
    return sorted(path.name for path in found if path.name.startswith(beginning))


def _kill(namespace: str) -> None:
    """End all processes of a namespace, and wait until they have ended."""
    deadline = time.monotonic() + _PATIENCE_S
    while (pids := pids_in(namespace)) and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def pids_in(namespace: str) -> list[int]:
    """Return the processes in a network namespace."""
    command = ["ip", "netns", "pids", namespace]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [int(word) for word in done.stdout.split()]


def mounts(folder: Path) -> list[str]:
    """Return what is mounted below a folder, outer mounts first."""
    rows = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    return [row.split()[1] for row in rows if row.split()[1].startswith(f"{folder}/")]


def quietly(*command: str) -> None:
    """Run a command, which may fail."""
    path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    subprocess.run(
        command, check=False, capture_output=True, env={**os.environ, "PATH": path}, timeout=60
    )
