"""Faults for a campaign: what can strike a command, and the crossings at which it strikes."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.testing.faults import dashboards, disks, exhaustion, network, people, processes
from tuner.testing.faults.crossings import Crossings
from tuner.testing.faults.fault import Fault, FaultTarget, Network

__all__ = ["FAULTS", "Crossings", "Fault", "FaultTarget", "Network"]
FAULTS: Mapping[str, Fault] = {
    fault.name: fault
    for module in (processes, dashboards, disks, network, exhaustion, people)
    for fault in module.FAULTS
}
"""All faults by name."""
