"""A command with other contents in some files, by a mount namespace.

Drafts are bound over the files in the command's own namespace (mount_namespaces(7)), so the host's
files never change, and nothing remains when the command ends.

The agent runs this file on other hosts, so it needs only the standard library of Python 3.8.
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
    """Run a command that sees these contents in existing files.

    Args:
        contents: contents by absolute path of existing files.
        command: program and arguments.
        like: process with the account, groups and folder for the command; 0: this process.
        environment: environment of the command; None: this process's.
        timeout_s: time limit for the command.

    Returns:
        ``code`` and ``said``, or ``unavailable``: why such a namespace is impossible here.
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
    """Write a draft, with owner and mode of the original file."""
    found = Path(path).stat()
    handle, draft = tempfile.mkstemp(dir=folder)
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)
    if os.geteuid() == 0:
        os.chown(draft, found.st_uid, found.st_gid)
    Path(draft).chmod(found.st_mode & 0o7777)
    return draft


def _bind(drafts: Mapping[str, str]) -> None:
    """Enter a mount namespace with the drafts in place of the files.

    Raises:
        OSError: the namespace is not allowed here.
    """
    libc = ctypes.CDLL(None, use_errno=True)

    def checked(code: int, what: str) -> None:
        if code != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{what}: {os.strerror(number)}")

    checked(libc.unshare(_CLONE_NEWNS), "unshare")
    # Otherwise the host would see the mounts as well (mount_namespaces(7), "Shared subtrees").
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
