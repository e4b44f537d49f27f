"""Folders that are made where everybody may make some (/var/tmp).

Only Python's standard library, 3.8 or newer, is used: it runs on the target.
"""

from __future__ import annotations

import os
import stat


def refuse_planted(path):
    """Nothing, if no other account could have put something in the way to a path.

    In a folder like /var/tmp anybody may make a folder or a link of any name that is free. Root
    would write and remove wherever that leads.

    Raises:
        PermissionError: a part of the path, in such a folder, is another account's.
    """
    mine = {0, os.geteuid(), int(os.environ.get("SUDO_UID", "0"))}
    while path != os.path.dirname(path):
        folder = os.path.dirname(path)
        try:
            planted = os.stat(folder).st_mode & stat.S_ISVTX and os.lstat(path).st_uid not in mine
        except FileNotFoundError:
            planted = False
        if planted:
            raise PermissionError(f"{path} belongs to another account; remove it, or name another")
        path = folder


def own_folder(path, mode):
    """Make a folder, and what is missing above it; whether there was none.

    Args:
        path: absolute.
        mode: of all that is made.

    Raises:
        PermissionError: see ``refuse_planted``.
    """
    refuse_planted(path)
    made = not os.path.isdir(path)
    kept = os.umask(0o777 & ~mode)
    try:
        os.makedirs(path, exist_ok=True)
    finally:
        os.umask(kept)
    # Once more, since another one could have been faster.
    refuse_planted(path)
    return made
