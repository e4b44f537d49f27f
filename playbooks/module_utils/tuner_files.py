"""The content of files: of any one, and of those that a process executes.

Only Python's standard library, 3.8 or newer, is used: it runs on the target.
"""

from __future__ import annotations

import contextlib
import hashlib
import os


def sha256_of(path):
    """Return the SHA-256 of a file, in hex.

    Raises:
        OSError: it cannot be read.
    """
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for piece in iter(lambda: stream.read(1 << 20), b""):
            digest.update(piece)
    return digest.hexdigest()


def code_of(pid, known):
    """Return the SHA-256 of the program and the libraries that a process executes, by path.

    Files are left out from the first one on that cannot be read. The result is empty if the kernel
    does not let this user read the process's map.

    Args:
        pid: the process.
        known: SHA-256 of files by device and inode, to which new ones are added.
    """
    found = {}
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as stream:
            rows = [line.rstrip("\n").split(None, 5) for line in stream]
        # [address, permissions, offset, device, inode, path]; see proc(5).
        for path in sorted({row[5] for row in rows if len(row) == 6 and "x" in row[1]}):
            if path.startswith("/") and not path.endswith(" (deleted)"):
                # By way of its root, for a process in a container or a chroot.
                seen = f"/proc/{pid}/root{path}"
                facts = os.stat(seen)
                place = (facts.st_dev, facts.st_ino)
                if place not in known:
                    known[place] = sha256_of(seen)
                found[path] = known[place]
    return found
