"""What this machine's kernel is set to, before anything is changed."""

from __future__ import annotations

import os
import platform
from collections.abc import Collection
from pathlib import Path

from tuner.errors import DefinitionError
from tuner.kernel import ALGORITHMS, OPEN_FILES, Seen

_SETTINGS = Path("/proc/sys")


def look(names: Collection[str], file_limit: int) -> Seen:
    """Read settings by the kernel's names; what is missing is said, and nothing is changed.

    Args:
        names: ``net.core.somaxconn``.
        file_limit: hard limit of open files.

    Raises:
        DefinitionError: this process may not change any of them.
    """
    if os.geteuid() != 0:
        raise DefinitionError(
            "the kernel's settings belong to the whole host and need root: run tuner as root"
            " (sudo), or leave the layer out; without it nothing of the kernel is touched",
            path="--layer",
        )
    texts = {OPEN_FILES: str(file_limit)}
    missing = {}
    for name in (*names, ALGORITHMS):
        path = _SETTINGS / name.replace(".", "/")
        try:
            texts.setdefault(name, " ".join(path.read_text(encoding="ascii").split()))
        except OSError:
            missing[name] = f"is not there: Linux {platform.release()}, or this network namespace"
        else:
            if name != ALGORITHMS and not _writable(path):
                missing[name] = "cannot be written: /proc/sys is read-only, as in a container"
    missing.pop(OPEN_FILES, None)
    wanted = set(names) - {OPEN_FILES}
    if wanted and wanted <= missing.keys():
        reasons = sorted(set(missing.values()))
        raise DefinitionError(
            f"no setting of the kernel can be changed here ({'; '.join(reasons)}): run tuner on the"
            " host itself, or in a privileged container, or leave the layer out",
            path="--layer",
        )
    return Seen(texts, missing)


def _writable(path: Path) -> bool:
    # Mode and file system, both: as root, access(2) looks at the file system alone.
    return os.access(path, os.W_OK) and bool(path.stat().st_mode & 0o200)
