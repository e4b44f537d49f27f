"""Idle CPUs poll by default where a hypervisor would delay their wake-ups."""

from __future__ import annotations

import pytest

from tuner.machine.idle import IdleCpus, should_poll


@pytest.mark.parametrize(
    ("wanted", "virtualisation", "polls"),
    [
        ("auto", "kvm", True),
        ("auto", "none", False),
        ("auto", "unknown", False),
        ("poll", "none", True),
        ("halt", "kvm", False),
    ],
)
def test_the_host_decides_unless_the_user_does(
    wanted: IdleCpus, virtualisation: str, *, polls: bool
) -> None:
    """A physical core gains nothing from polling, so it has to be asked for there."""
    assert should_poll(wanted, virtualisation) == polls
