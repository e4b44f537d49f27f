"""Reports of bugs: exceptions other than ``TunerError``, in one line and a file."""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from tuner import __version__
from tuner.paths import state_dir
from tuner.store.storage import scrubbed

_LONGEST_TEXT = 200
_LAST_FRAMES = 3
_SECRETS = ("PGPASSWORD", "TUNER_STORAGE")
"""Environment variables with secret values."""


def report(error: BaseException, words: Sequence[str]) -> str:
    """Write the details of an error to a file and return a message that names it.

    Args:
        error: unexpected exception.
        words: arguments of the command line.
    """
    lines = str(error).splitlines() or [""]
    text = _clean(f"{type(error).__name__}: {lines[0]}".rstrip(": "))
    if len(text) > _LONGEST_TEXT:
        text = text[:_LONGEST_TEXT] + "…"
    written = _write(_details(error, words))
    where = f"details in {written}" if written else f"at {_last_frames(error)}"
    return f"tuner failed with an unexpected error: {text}; {where} (please report it)"


def _details(error: BaseException, words: Sequence[str]) -> str:
    head = (
        f"tuner {__version__}, Python {platform.python_version()}, {platform.platform()}",
        time.strftime("%Y-%m-%d %H:%M:%S %z"),
        shlex.join(["tuner", *words]),
    )
    return _clean("\n".join((*head, "", *traceback.format_exception(error))))


def _clean(text: str) -> str:
    """Return text without the passwords of URLs and of the environment."""
    text = scrubbed(text)
    for name in _SECRETS:
        if secret := os.environ.get(name):
            text = text.replace(secret, "***")
    return text


def _write(text: str) -> Path | None:
    """Write a file that only its owner can read; return None if that fails."""
    name = time.strftime("error-%Y%m%d-%H%M%S-") + f"{os.getpid()}.txt"
    for folder in _folders():
        path = folder / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError:
            continue
        try:
            with os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
        except OSError:
            # The disk is full, and half a report does not help.
            path.unlink(missing_ok=True)
        else:
            return path
    return None


def _folders() -> Iterator[Path]:
    """Yield the folders for the report, best first."""
    # There may be no home folder, or no folder for temporary files.
    with contextlib.suppress(RuntimeError):
        yield state_dir() / "errors"
    with contextlib.suppress(OSError):
        yield Path(tempfile.gettempdir())


def _last_frames(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-_LAST_FRAMES:]
    package = str(Path(__file__).parents[1].parent) + os.sep
    return " < ".join(
        f"{frame.filename.removeprefix(package)}:{frame.lineno}" for frame in reversed(frames)
    )
