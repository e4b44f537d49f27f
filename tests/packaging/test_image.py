"""The image: what it is built from, and the account that it runs as."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
TEXT = (TOP / "Containerfile").read_text(encoding="utf-8")


def test_the_build_sees_what_it_reads_and_nothing_else() -> None:
    """Studies, environments and keys of a checkout reach no builder."""
    nothing, *lines = (TOP / ".dockerignore").read_text(encoding="utf-8").split()
    assert nothing == "*"
    seen = [line.removeprefix("!/") for line in lines]
    read = re.findall(r"/context/(\S+)", TEXT)
    assert {next(name for name in read if fnmatch(line, f"{name}*")) for line in seen} == set(read)


def test_it_runs_without_rights() -> None:
    """No account of the host's root, and every package by its hash."""
    accounts = re.findall(r"^USER (\S+)$", TEXT, re.MULTILINE)
    assert accounts
    assert accounts[-1] not in {"root", "0"}
    assert re.findall(r"pip install(?: --[\w-]+)*? --(require-hashes|no-deps) ", TEXT) == [
        "require-hashes",
        "no-deps",
    ]
