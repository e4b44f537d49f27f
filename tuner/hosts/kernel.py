"""Kernel settings of a target as found, before anything is changed."""

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
    """Return the kernel's names of what a space is about, and of what its choices depend on."""
    return [*(name for name in names if name != OPEN_FILES), ALGORITHMS]


def look(names: Collection[str]) -> KernelState:
    """Look at this machine, by the program that other targets get (see ``seen``).

    Args:
        names: ``net.core.somaxconn``.

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
        DefinitionError: it cannot; the message says why, and the way out.
    """
    if not found["root"]:
        raise DefinitionError(
            "the kernel's settings belong to the whole host and need root: run tuner as root"
            " (sudo; ansible_become for a target of an inventory), or leave the layer out; without"
            " it nothing of the kernel is touched",
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
    """Return the limit as a number: -1 is without limit, up to what the kernel has room for."""
    return limit if limit >= 0 else 1_048_576
