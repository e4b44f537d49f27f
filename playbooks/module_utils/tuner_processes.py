"""The processes of a server.

Only Python's standard library, 3.8 or newer, is used: it runs on the target.
"""

from __future__ import annotations

import contextlib
import os


def pids_of(pid_file):
    """The main process and all that came from it, main first; nothing where no file is named.

    Args:
        pid_file: where the main process writes its id.
    """
    if not pid_file:
        return []
    with open(pid_file, encoding="utf-8") as stream:
        found = [int(stream.read())]
    for pid in found:  # which grows: children have children
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children", encoding="utf-8") as stream:
                    found.extend(int(word) for word in stream.read().split())
    return found
