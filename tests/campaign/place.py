"""A folder for one case: as root on an ext4 of its own, and in a network of its own if asked."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tuner.testing.faults import Network

_MEMORY = Path("/dev/shm")  # noqa: S108 - disks of the cases, which vanish with them
_CLONE_NEWNS = 0x00020000
_CLONE_NEWNET = 0x40000000
_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Place:
    """A folder, and what is known of where it lies."""

    folder: Path
    image: Path | None = None
    """File with the file system of the folder; None if it has none of its own."""
    namespace: str = ""
    """Network namespace; empty: the one of the tests."""
    networks: tuple[Network, ...] = ()
    """Networks that faults may strike."""
    storage: str = ""
    """URL of the storage that all workers share; empty for a file."""
    gateway: str = ""
    """URL of the proxy through which commands reach that storage; empty without one."""
    inventory: str = ""
    """Inventory of its hosts; empty for this one."""
    names: Path = Path()
    """File with the addresses of its hosts, which commands have as ``/etc/hosts``."""
    changed: Callable[[], list[str]] = list
    """Returns what is not as it was on its hosts, each in a sentence."""
    supervise: Callable[[], None] = lambda: None
    """Brings back what a fault ended, as its supervisor does, before the next command."""

    def remount(self) -> None:
        """Mount the file system again; its journal is replayed, as after a power failure."""
        assert self.image is not None
        # A record that this process has read may be open until its objects are collected.
        gc.collect()
        deadline = time.monotonic() + _PATIENCE_S
        while subprocess.run(["umount", self.folder], capture_output=True, check=False).returncode:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.folder} is in use")
            time.sleep(0.02)
        # The namespace of another test's host may hold the file system that failed, and a mount
        # of the same file would be that one again.
        copy = self.image.with_suffix(".copy")
        shutil.copyfile(self.image, copy)
        copy.replace(self.image)
        _mount(self.image, self.folder)

    def enter(self) -> None:
        """Move this process into the network namespace, with the names of the hosts."""
        if self.namespace:
            _enter(Path("/run/netns", self.namespace))
        if self.names.is_file():
            _call("unshare", _CLONE_NEWNS)
            for words in (("--make-rprivate", "/"), ("--bind", self.names, "/etc/hosts")):
                subprocess.run(["mount", *words], check=True)


@contextmanager
def within(name: str) -> Iterator[None]:
    """Be in a network namespace for a while; what is started there stays there."""
    with Path("/proc/self/ns/net").open("rb") as home:
        _enter(Path("/run/netns", name))
        try:
            yield
        finally:
            _set(home.fileno())


def _enter(path: Path) -> None:
    with path.open("rb") as stream:
        _set(stream.fileno())


def _set(number: int) -> None:
    _call("setns", number, _CLONE_NEWNET)


def _call(name: str, *arguments: int) -> None:
    # os.setns and os.unshare are new in Python 3.12.
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments):
        raise OSError(ctypes.get_errno(), name)


@contextmanager
def namespace(name: str) -> Iterator[str]:
    """Make a network namespace with a loopback only; its processes end with it."""
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        yield name
    finally:
        _disband(name)


@contextmanager
def place(size: str, *, network: bool = False) -> Iterator[Place]:
    """Make a place; nothing of it is left.

    Args:
        size: of its disk, such as ``24M``.
        network: whether it has a network namespace of its own, with a loopback only.
    """
    root = os.geteuid() == 0
    parent = _MEMORY if root and os.access(_MEMORY, os.W_OK) else None
    top = Path(tempfile.mkdtemp(prefix="tuner-campaign-", dir=parent))
    # The account of the servers must reach its files.
    top.chmod(0o755)
    folder = top / "here"
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, top, ignore_errors=True)
        image = top / "disk" if root else None
        if image is not None:
            with image.open("wb") as stream:
                stream.truncate(_bytes(size))
            # Root's share is for those who clean up, and the campaign fills the disk as root.
            subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
            _mount(image, folder)
            stack.callback(_unmount, folder)
            (folder / "lost+found").rmdir()
        name = ""
        if network and root:
            name = stack.enter_context(namespace(top.name.replace("tuner-campaign-", "tc-")))
        (folder / "tmp").mkdir()
        yield Place(folder, image, name, networks=(Network(name),) if name else ())


def _bytes(size: str) -> int:
    return int(size.removesuffix("M")) << 20


def _mount(image: Path, folder: Path) -> None:
    # Read-only at once after an error, as Debian's installer sets it.
    options = "loop,errors=remount-ro"
    subprocess.run(["mount", "-t", "ext4", "-o", options, image, folder], check=True)


def _unmount(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", folder], check=False, capture_output=True)


def pids_in(namespace: str) -> list[int]:
    """Return the processes in a network namespace."""
    asked = ["ip", "netns", "pids", namespace]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return [int(word) for word in done.stdout.split()]


def _disband(namespace: str) -> None:
    for pid in pids_in(namespace):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
    subprocess.run(["ip", "netns", "del", namespace], check=False, capture_output=True)
