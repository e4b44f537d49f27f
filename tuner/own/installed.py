"""The servers of this machine that have a configuration of their own."""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.errors import TunerError
from tuner.machine.facts import DEFAULT_SERVER
from tuner.own.catalog import READERS
from tuner.own.files import HERE
from tuner.own.reader import Reader
from tuner.reading.printable import printable
from tuner.servers import catalog
from tuner.stats.words import counted

_PROC = Path("/proc")
_CONFIG = ("-c", "--config")
_SERVING = {"master", "run"}
"""Words of processes that serve: ``nginx: master process``, ``caddy run``; others only validate."""
_OF_LABS = {"-p", "--pidfile"}
"""Options of instances with a folder of their own, such as those of a lab."""
_MOST_FILES = 50
_MOST_BYTES = 64 << 10
"""Limits for counting sites: parsing takes some 3 ms per file."""


@dataclass(frozen=True, slots=True)
class InstalledServer:
    """A server of this machine, with the main file of its configuration."""

    server: str
    version: str
    main: str
    """Absolute path, as found: not escaped for terminals."""
    sites: int | None
    """Number of sites that serve pages; None if unknown."""

    @property
    def option(self) -> str:
        """The options that tune it."""
        named = "" if self.server == DEFAULT_SERVER else f"--server {self.server} "
        return f"{named}--config {shlex.quote(self.main)}"

    @property
    def words(self) -> str:
        """``nginx 1.26.0 with 3 sites in /etc/nginx``."""
        sites = f" with {counted(self.sites, 'site')}" if self.sites else ""
        return printable(f"{self.server} {self.version}{sites} in {Path(self.main).parent}")


def installed(proc: Path = _PROC) -> tuple[InstalledServer, ...]:
    """Return the servers of this machine with a configuration to tune, running ones first.

    A configuration without a site is left out. Reads a few small files and asks each program for
    its version; starts nothing.

    Args:
        proc: the kernel's folder of processes; another one in tests.
    """
    running = list(dict.fromkeys(_running(proc)))
    usual = [(name, catalog.server(name).usual_place.path) for name in READERS]
    found = []
    for server, main in dict.fromkeys((*running, *usual)):
        if not main.isprintable() or not os.path.isfile(main):  # noqa: PTH113 - raises nothing
            continue
        reader = READERS[server]
        try:
            version = reader.version()
        except TunerError:
            continue  # the files of a server that was removed
        sites = _sites(reader, main)
        if sites != 0:
            found.append(InstalledServer(server, version, main, sites))
    return tuple(found)


def _sites(reader: Reader, main: str) -> int | None:
    """Return the number of sites; None if the files cannot be read, or are too many."""
    try:
        return reader.sites(main, _FewFiles())
    except (TunerError, OSError, ValueError, RecursionError):
        return None


@dataclass(slots=True)
class _FewFiles:
    """The files of this machine, up to a limit."""

    files: int = _MOST_FILES
    size_bytes: int = _MOST_BYTES

    def read(self, path: str) -> bytes:
        """Implement ``Files.read``."""
        content = HERE.read(path)
        self.files -= 1
        self.size_bytes -= len(content)
        if min(self.files, self.size_bytes) < 0:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        return content

    def matches(self, pattern: str) -> list[str]:
        """Implement ``Files.matches``."""
        return HERE.matches(pattern)


def _running(proc: Path) -> Iterator[tuple[str, str]]:
    """Yield server and main file of the running servers that name their file."""
    for folder in sorted(proc.glob("[0-9]*")):
        try:
            name = (folder / "comm").read_text(errors="replace").strip()
            if name not in READERS or not _is_host_process(folder, proc):
                continue
            command = (folder / "cmdline").read_text("utf-8", "surrogateescape").rstrip("\0")
        except OSError:
            continue
        # Nginx joins its arguments by blanks in the title of its main process.
        main = _named(command.split("\0" if "\0" in command else None))
        if main.startswith("/"):
            yield name, main


def _is_host_process(folder: Path, proc: Path) -> bool:
    """Return whether a process of root or of this account sees the files of this machine."""
    if folder.stat().st_uid not in (0, os.geteuid()):
        return False
    try:
        return (folder / "ns" / "mnt").readlink() == (proc / "self" / "ns" / "mnt").readlink()
    except PermissionError:
        return True  # of root, for another account; the file is looked for here anyway


def _named(words: Sequence[str]) -> str:
    """Return the configuration file of a command line; empty without one."""
    if not _SERVING & set(words) or _OF_LABS & set(words):
        return ""
    for word, after in zip(words, (*words[1:], ""), strict=True):
        if word in _CONFIG:
            return after
        if word.startswith("--config="):
            return word.removeprefix("--config=")
    return ""
