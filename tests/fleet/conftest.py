"""Hosts for the tests here; where a machine cannot have any, they are skipped, and say why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import kept_handlers, run_main, simulate
from tests.fleet.bed import Bed, BedHost, bed, refusal, systemd_refusal
from tests.fleet.services import Service, restored

INITS = ("sysvinit", pytest.param("systemd", marks=[pytest.mark.fleet, pytest.mark.systemd]))
"""Kinds of a target's process 1, which controls its service."""


@pytest.fixture(scope="session")
def pair() -> Iterator[Bed]:
    """A target and a generator."""
    skip_without_bed()
    with bed({"targets": ["web"], "generators": ["load"]}) as hosts:
        yield hosts


@pytest.fixture
def web(hosts: Bed, service: Service) -> Iterator[BedHost]:
    """The host ``web`` of a module's ``hosts``, whose ``service`` serves.

    It must be as it was when the test is over: files, their times, and its service.
    """
    host = hosts["web"]
    service.awaited(host)
    before = service.state(host)
    yield host
    restored(host)
    service.awaited(host)
    assert service.state(host) == before


@pytest.fixture(scope="module")
def recommended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished study, ``mine``, that recommends something."""
    folder = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch, kept_handlers():
        patch.chdir(folder)
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        simulate(patch)
        short = ("--time", "10s", "--rate", "600", "--trials", "1", "--quiet", "--name", "mine")
        assert run_main(patch, "optimize", "--study", "static", *short) == 0
    return folder


def skip_without_bed(*, systemd: bool = False) -> None:
    """Skip what needs hosts where there can be none."""
    reason = refusal() or (systemd_refusal() if systemd else "")
    if reason:
        pytest.skip(f"{reason}: nothing on remote hosts was tested")


def program_of(root: Path, name: str, folder: Path) -> str:
    """Return a program, in ``folder``, that runs one of a bed's root on this machine.

    The root's own loader starts it with the root's libraries, which are newer than this machine's.
    """
    loader, libraries = root / "lib64/ld-linux-x86-64.so.2", root / "usr/lib/x86_64-linux-gnu"
    if not loader.exists():
        pytest.skip(f"the bed's root is of another architecture: no newer {name} was tried")
    program = folder / name
    words = f'{loader} --library-path {libraries} {root}/usr/sbin/{name} "$@"'
    program.write_text(f"#!/bin/sh\nexec {words}\n")
    program.chmod(0o755)
    return str(program)
