"""Ansible's folder for temporary files on a host, and the removal of what killed playbooks left.

Ansible removes its files when a task ends. A killed Ansible leaves them in ``~/.ansible/tmp``,
among those of the user's own playbooks. tuner's playbooks therefore have a separate folder, and the
agent removes its old entries when it next starts there.

The agent runs this file on other hosts, so it stands on the standard library of Python 3.8 alone.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import time
from pathlib import Path

FOLDER = "~/.ansible/tuner"
"""Ansible's folder for temporary files, of the account that logs in."""
_DEAD_S = 3_600.0
"""A task of Ansible's has ended before this age: a playbook may take ten minutes."""


def sweep() -> None:
    """Remove the files of playbooks that were killed on this host.

    It runs as the account that logged in and owns the folder: with root's rights, a link
    there could lead to files of others.
    """
    with contextlib.suppress(OSError, KeyError, ValueError):
        user, group = os.geteuid(), os.getegid()
        account = pwd.getpwuid(int(os.environ.get("SUDO_UID") or user))
        try:
            os.setegid(account.pw_gid)
            os.seteuid(account.pw_uid)
            _remove_old(Path(FOLDER.replace("~", account.pw_dir, 1)))
        finally:
            os.seteuid(user)
            os.setegid(group)


def _remove_old(folder: Path) -> None:
    for found in folder.glob("ansible-tmp-*"):
        with contextlib.suppress(OSError):
            if time.time() - found.lstat().st_mtime > _DEAD_S:
                shutil.rmtree(str(found), ignore_errors=True)
