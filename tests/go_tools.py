"""Tools that are written in Go: from the PATH, or built by Go in one pinned version."""

from __future__ import annotations

import functools
import shutil
import subprocess


@functools.cache
def go_tool(package: str, *probe: str) -> list[str] | None:
    """Return the command of a tool; None if it is not on the PATH and Go cannot build it.

    Args:
        package: import path and version, such as ``golang.org/x/perf/cmd/benchstat@v0.1.0``.
        probe: arguments with which a built tool ends without an error.
    """
    if found := shutil.which(package.partition("@")[0].rpartition("/")[2]):
        return [found]
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    command = [go or "", "run", package]
    return command if go and ran([*command, *probe]).returncode == 0 else None


def ran(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command and return what it printed."""
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
