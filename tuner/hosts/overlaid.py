"""A command that sees other contents in some files than the host has: in a mount namespace.

The drafts are bound over the files in a namespace of the command's own (mount_namespaces(7)), so
the host's files do not change for a moment, and nothing is left when the command ends.

The agent runs this file on other hosts, so it stands on the standard library of Python 3.8 alone.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

_CLONE_NEWNS = 0x0002_0000
_MS_BIND = 0x1000
_MS_PRIVATE_RECURSIVE = 0x4_0000 | 0x4000
_SAID = 4_000


def run_overlaid(
    contents: Mapping[str, bytes],
    command: Sequence[str],
    *,
    like: int = 0,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 60.0,
) -> Mapping[str, Any]:
    """Run a command in whose eyes existing files have these contents.

    Args:
        contents: by absolute path; each file exists.
        command: program and arguments.
        like: process whose account, groups and folder the command gets; 0: this one's.
        environment: of the command; None: this process's.
        timeout_s: longest time that it may take.

    Returns:
        ``code`` and ``said``, or ``unavailable``: why there can be no such namespace here.
    """
    with tempfile.TemporaryDirectory(prefix="tuner-") as folder:
        trouble = Path(folder, "trouble")
        try:
            drafts = {path: _draft(folder, path, content) for path, content in contents.items()}
            become, cwd = _likeness(like)

            def enter() -> None:
                try:
                    _bind(drafts)
                except OSError as error:
                    trouble.write_text(str(error), encoding="utf-8")
                    raise
                become()

            done = subprocess.run(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=None if environment is None else dict(environment),
                cwd=cwd,
                preexec_fn=enter,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.SubprocessError as error:
            if trouble.exists():
                return {"unavailable": trouble.read_text(encoding="utf-8")}
            return {"code": 1, "said": str(error)}
        except OSError as error:
            return {"code": 1, "said": str(error)}
        said = done.stdout.decode(errors="replace")[-_SAID:].strip()
        return {"code": done.returncode, "said": said}


def _draft(folder: str, path: str, content: bytes) -> str:
    """Write a draft, with owner and mode of the file that it stands for."""
    found = Path(path).stat()
    handle, draft = tempfile.mkstemp(dir=folder)
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)
    if os.geteuid() == 0:
        os.chown(draft, found.st_uid, found.st_gid)
    Path(draft).chmod(found.st_mode & 0o7777)
    return draft


def _bind(drafts: Mapping[str, str]) -> None:
    """Enter a mount namespace in which the drafts are the files.

    Raises:
        OSError: that is not allowed here.
    """
    libc = ctypes.CDLL(None, use_errno=True)

    def checked(code: int, what: str) -> None:
        if code != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{what}: {os.strerror(number)}")

    checked(libc.unshare(_CLONE_NEWNS), "unshare")
    # Else the host would see the mounts as well (mount_namespaces(7), "Shared subtrees").
    checked(libc.mount(b"none", b"/", None, _MS_PRIVATE_RECURSIVE, None), "mount --make-rprivate")
    for path, draft in drafts.items():
        bound = libc.mount(os.fsencode(draft), os.fsencode(path), None, _MS_BIND, None)
        checked(bound, f"mount --bind {path}")


def _likeness(pid: int) -> tuple[Callable[[], None], str | None]:
    """Return a function that gives a child the account and groups of a process, and its folder."""
    if not pid or os.geteuid() != 0:
        return (lambda: None), None
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    rows = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    uid, gid = int(rows["Uid"].split()[1]), int(rows["Gid"].split()[1])
    groups = [int(word) for word in rows["Groups"].split()]

    def become() -> None:
        os.setgroups(groups)
        os.setgid(gid)
        os.setuid(uid)

    return become, os.readlink(f"/proc/{pid}/cwd")
