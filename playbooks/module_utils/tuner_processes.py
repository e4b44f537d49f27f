"""The processes of a server.

Only Python's standard library, 3.8 or newer, is used: it runs on the target.
"""

from __future__ import annotations

import contextlib
import os
import shutil


def pids_of(pid_file):
    """The main process and all that came from it, main first; nothing where no file is named.

    Args:
        pid_file: where the main process writes its id.
    """
    if not pid_file:
        return []
    with open(pid_file, encoding="utf-8") as stream:
        return family(int(stream.read()))


def is_named(pid_file):
    """Return whether the main process has written its id; True where no file is named."""
    try:
        return not pid_file or pids_of(pid_file) != []
    except (OSError, ValueError):  # ValueError: created, but not yet written
        return False


def family(pid):
    """A process and all that came from it, itself first."""
    found = [pid]
    for each in found:  # which grows: children have children
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{each}/task"):
                with open(f"/proc/{each}/task/{thread}/children", encoding="utf-8") as stream:
                    found.extend(int(word) for word in stream.read().split())
    return found


def runs_of(program, word=None):
    """Ids of the processes that run a program, with this word on their command line if given."""
    path = os.path.realpath(shutil.which(program) or program)
    found = []
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            pid = int(entry)
            with open(f"/proc/{pid}/cmdline", "rb") as stream:
                words = stream.read().split(b"\0")
            named = word is None or word.encode() in words[1:]
            if named and os.readlink(f"/proc/{pid}/exe") == path:
                found.append(pid)
    return sorted(found)


def the_run_of(program, word="run"):
    """The process of the service that runs a program.

    Raises:
        LookupError: there is none, or more than one; the words say so.
    """
    found = runs_of(program, word)
    if len(found) == 1:
        return found[0]
    if found:
        pids = ", ".join(map(str, found))
        raise LookupError(f"{len(found)} processes are {program} {word} ({pids}), not one")
    raise LookupError(f"no process is {program} {word}; start the service first")


def belongs_to(pid, folder):
    """Return whether a process belongs to a folder.

    Its command line names a path in it (``nginx: master process … -p LAB/…``), or it works in it,
    which workers do even after their master was killed. The folder's own path may have spaces.

    Raises:
        OSError: the process has ended, or belongs to another account.
    """
    prefix = os.fsencode(folder.rstrip("/") + "/")
    with open(f"/proc/{pid}/cmdline", "rb") as stream:
        command = b"\0" + stream.read()
    if any(before + prefix in command for before in (b"\0", b" ", b"=")):
        return True
    return os.readlink(os.fsencode(f"/proc/{pid}/cwd")).startswith(prefix)


def environment_of(pid):
    """The environment that a process was started with."""
    with open(f"/proc/{pid}/environ", "rb") as stream:
        rows = stream.read().decode(errors="surrogateescape").split("\0")
    return dict(row.split("=", 1) for row in rows if "=" in row)
