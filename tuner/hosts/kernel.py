"""Kernel settings of a target before any change."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection, Mapping
from typing import Any

from tuner.errors import DefinitionError, HostError
from tuner.paths import data_dir
from tuner.space.kernel import ALGORITHMS, OPEN_FILES, KernelState


def names_to_look_at(names: Collection[str]) -> list[str]:
    """Return the kernel's names of a space's settings, and of those that their choices need."""
    return [*(name for name in names if name != OPEN_FILES), ALGORITHMS]


def look(names: Collection[str]) -> KernelState:
    """Read the settings of this machine with the program for other targets (see ``seen``).

    Args:
        names: names such as ``net.core.somaxconn``.

    Raises:
        DefinitionError: this process may not change any of them.
        HostError: the program does not answer.
    """
    program = data_dir("playbooks") / "files" / "tuner_kernel_guard.py"
    done = subprocess.run(
        [sys.executable, "-B", str(program), "", "look"],
        input=json.dumps({"names": names_to_look_at(names)}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise HostError(f"the kernel's settings cannot be read: {done.stdout}{done.stderr}")
    return seen(json.loads(done.stdout))


def seen(found: Mapping[str, Any]) -> KernelState:
    """Return the kernel settings that ``tuner_kernel`` read, if a study can change any.

    Raises:
        DefinitionError: it cannot; the message has the reason and a way out.
    """
    if not found["root"]:
        raise DefinitionError(
            "the kernel's settings belong to the whole host and need root: run tuner as root"
            " (sudo; ansible_become for a target of an inventory), or leave the layer out,"
            " which keeps the kernel unchanged",
            path="--layer",
        )
    texts = {**found["texts"], OPEN_FILES: str(_open_files(found["open_files"]))}
    missing = {name: why for name, why in found["missing"].items() if name != ALGORITHMS}
    if missing and texts.keys() <= missing.keys() | {OPEN_FILES, ALGORITHMS}:
        reasons = "; ".join(sorted(set(missing.values())))
        raise DefinitionError(
            f"no setting of the kernel can be changed here ({reasons}): run tuner on the host"
            " itself, or in a privileged container, or leave the layer out",
            path="--layer",
        )
    return KernelState(texts, missing)


def _open_files(limit: int) -> int:
    """Return the limit as a number; -1, unlimited, becomes the kernel's maximum."""
    return limit if limit >= 0 else 1_048_576
