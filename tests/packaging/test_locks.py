"""The lock files: complete, hashed, and free of anybody's mirror or path."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TOP = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-release.lock")


def pins(lock: str) -> Iterator[tuple[Requirement, int]]:
    """Yield every pinned requirement of a lock with the number of its hashes."""
    text = re.sub(r"^ *#.*\n", "", (TOP / lock).read_text(encoding="utf-8"), flags=re.MULTILINE)
    for line in text.replace("\\\n", " ").splitlines():
        words, *hashes = line.split("--hash=sha256:")
        yield Requirement(words.strip()), len(hashes)


def problems(wanted: list[str], lock: str) -> list[str]:
    """Return the requirements that no pin of the lock satisfies."""
    pinned = [pin for pin, _ in pins(lock)]
    return [
        text
        for text in wanted
        if not any(
            canonicalize_name(pin.name) == canonicalize_name(Requirement(text).name)
            and all(exact.version in Requirement(text).specifier for exact in pin.specifier)
            for pin in pinned
        )
    ]


def test_the_lock_holds_what_the_package_and_its_build_need() -> None:
    """A dependency added to pyproject.toml without `make lock` is noticed."""
    wanted = PROJECT["project"]["dependencies"] + PROJECT["dependency-groups"]["build"]
    assert problems(wanted, "requirements.lock") == []


def test_the_development_lock_holds_every_extra_and_the_tools() -> None:
    """Extras are type-checked and tested too, so they are pinned with the tools.

    PyTorch (the extra ``gp``) is not: it takes several gigabytes.
    """
    optional = PROJECT["project"]["optional-dependencies"]
    extras = [wanted for name, wanted in optional.items() if name != "gp"]
    tools = [tool for tool in PROJECT["dependency-groups"]["dev"] if isinstance(tool, str)]
    wanted = [*tools, *(dependency for extra in extras for dependency in extra)]
    assert problems(wanted, "requirements-dev.lock") == []


def test_the_lock_of_a_release_holds_its_tools() -> None:
    """`make release`, `make release-check` and `make audit` run nothing that is not pinned."""
    tools = [tool for tool in PROJECT["dependency-groups"]["release"] if isinstance(tool, str)]
    wanted = [*tools, *PROJECT["dependency-groups"]["build"]]
    assert problems(wanted, "requirements-release.lock") == []


def test_what_builds_the_package_is_what_is_pinned() -> None:
    """The group `build` repeats build-system.requires, or `make setup` would build unpinned."""
    assert PROJECT["dependency-groups"]["build"] == PROJECT["build-system"]["requires"]


def test_all_locks_pin_the_same_versions() -> None:
    """Every version that users install is the one that the tests run with."""
    tested = {(pin.name, str(pin.specifier)) for pin, _ in pins(LOCKS[1])}
    used = {(pin.name, str(pin.specifier)) for pin, _ in pins(LOCKS[0])}
    assert used - tested == set()
    released = {(pin.name, str(pin.specifier)) for pin, _ in pins(LOCKS[2])}
    names = {name for name, _ in used}
    assert {(name, version) for name, version in released if name in names} <= used


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_is_exact_and_hashed(lock: str) -> None:
    """A file that is not the one that was locked is refused."""
    loose = [
        str(pin)
        for pin, hashes in pins(lock)
        if hashes == 0 or [exact.operator for exact in pin.specifier] != ["=="]
    ]
    assert loose == []


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_index_and_no_path(lock: str) -> None:
    """A lock names no index and no path, so that any mirror can serve it."""
    text = (TOP / lock).read_text(encoding="utf-8")
    assert re.findall(r"^.*(?:index-url|find-links|file:|://).*$", text, flags=re.MULTILINE) == []
