"""Hosts for the tests here; where a machine cannot have any, they are skipped, and say why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fleet.bed import Bed, BedHost, bed, refusal, systemd_refusal
from tests.fleet.services import Service, restored

INITS = ("sysvinit", pytest.param("systemd", marks=pytest.mark.fleet))
"""What may be a target's process 1, and so what controls its service."""


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


def skip_without_bed(*, systemd: bool = False) -> None:
    """Skip what needs hosts where there can be none."""
    reason = refusal() or (systemd_refusal() if systemd else "")
    if reason:
        pytest.skip(f"{reason}: nothing on remote hosts was tested")
