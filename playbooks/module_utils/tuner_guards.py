"""Common code of the modules that change a target temporarily: they install and call a guard.

A guard is a program (``playbooks/files/tuner_*_guard.py``) with a common module
(``tuner_guard.py``). It must outlive the module, and an administrator may call it by hand.

Only Python's standard library, 3.8 or newer, is used: it runs on the target.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys


class GuardFailedError(Exception):
    """An error that the guard reports, or the reason why it could not run."""


def put_in_place(folder, texts):
    """The program's path, in a folder that nobody else can write to.

    Args:
        folder: made if it is not there.
        texts: of the files by their names; ``guard.py`` is the program.

    Raises:
        GuardFailedError: the folder is somebody else's.
    """
    os.makedirs(folder, mode=0o700, exist_ok=True)
    found = os.lstat(folder)
    if os.path.islink(folder) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise GuardFailedError(f"{folder} belongs to somebody else; remove it")
    for name, text in texts.items():
        write(os.path.join(folder, name), text)
    return os.path.join(folder, "guard.py")


def write(path, text):
    """A file in one step, unless it is there already: a full disk must not keep it from running."""
    try:
        with open(path, encoding="utf-8") as stream:
            if stream.read() == text:
                return
    except FileNotFoundError:
        pass
    draft = path + ".new"
    with open(draft, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.replace(draft, path)


def ask(program, folder, command, asked, patience_s):
    """Run the guard and return its answer.

    Args:
        program: of the guard.
        folder: of its state.
        command: with what belongs to it.
        asked: as JSON on its standard input.
        patience_s: longest time that it may take.

    Raises:
        GuardFailedError: the host is not as it has to be, or the guard does not answer.
    """
    try:
        done = subprocess.run(
            # No compiled files, so that only named files stay on a target.
            [sys.executable, "-B", program, folder, *command],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            timeout=patience_s,
            check=False,
        )
        found = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise GuardFailedError(f"{type(error).__name__}: {error}") from error
    if done.returncode != 0:
        raise GuardFailedError(found.get("failed", done.stderr))
    return found
