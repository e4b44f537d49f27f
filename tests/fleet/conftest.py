"""Hosts for the tests here; where a machine cannot have any, they are skipped, and say why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fleet.bed import Bed, bed, refusal


@pytest.fixture(scope="session")
def pair() -> Iterator[Bed]:
    """A target and a generator."""
    skip_without_bed()
    with bed({"targets": ["web"], "generators": ["load"]}) as hosts:
        yield hosts


def skip_without_bed() -> None:
    """Skip what needs hosts where there can be none."""
    reason = refusal()
    if reason:
        pytest.skip(f"{reason}: nothing on remote hosts was tested")
