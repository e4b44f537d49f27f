"""The check that this machine can open a workload's connections."""

from __future__ import annotations

from pathlib import Path

from tuner.definition.study import StudyDefinition
from tuner.errors import DefinitionError
from tuner.hosts import local
from tuner.workload.workload import Workload

_OTHER_FILES = 64
"""Open files of a generator or a server in addition to connections, at least."""
_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def check(definition: StudyDefinition, workload: Workload) -> None:
    """Raise DefinitionError for more connections than this machine's limits allow.

    Hosts of an inventory have their own limits, which the load generator reports.

    Raises:
        DefinitionError: the limit of open files, or the range of ports, is too small.
    """
    if definition.inventory:
        return
    asked = workload.connections
    path = "--workload" if definition.connections is None else "--connections"
    files = local.facts().file_limit
    if asked + _OTHER_FILES > files:
        raise DefinitionError(
            f"{asked:,} connections need {asked + _OTHER_FILES:,} open files, but the limit is"
            f" {files:,}; raise it (ulimit -n {asked + _OTHER_FILES}, as root) or use at most"
            f" {files - _OTHER_FILES:,}",
            path=path,
        )
    ports = _ports()
    if ports is not None and asked > ports:
        raise DefinitionError(
            f"{asked:,} connections to one address need as many local ports, but there are"
            f" {ports:,}; widen the range (sysctl net.ipv4.ip_local_port_range) or use at most"
            f" {ports:,}",
            path=path,
        )


def _ports() -> int | None:
    """Return the number of ports for outgoing connections (ip(7)); None if unknown."""
    try:
        first, last = map(int, _PORTS.read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return None
    return last - first + 1
