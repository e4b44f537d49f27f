"""The hosts of an inventory, as far as they need no connection."""

from __future__ import annotations

import pytest

from tuner.app.fleet_generators import refuse_target_among
from tuner.app.fleet_look import _role
from tuner.errors import DefinitionError
from tuner.hosts.inventory import Host, Inventory

WEB, LOAD1, LOAD2, APP = (Host(name, {}) for name in ("web", "load1", "load2", "app"))


def test_the_target_cannot_be_one_of_several_generators() -> None:
    """Its load would disturb the server; a single generator gets cores apart from it."""
    refuse_target_among(Inventory("hosts.yml", (WEB,), (WEB,)))
    refuse_target_among(Inventory("hosts.yml", (WEB,), (LOAD1, LOAD2)))
    with pytest.raises(DefinitionError, match="web is the target and one of several generators"):
        refuse_target_among(Inventory("hosts.yml", (WEB,), (LOAD1, WEB)))


def test_all_generators_are_in_use() -> None:
    """Each host once, of targets and backends the first."""
    hosts = Inventory("hosts.yml", (WEB, APP), (LOAD1, LOAD2), (LOAD1,))
    assert hosts.in_use == (WEB, LOAD1, LOAD2)


def test_a_host_may_have_several_roles() -> None:
    """Generators are numbered if there are several."""
    hosts = Inventory("hosts.yml", (WEB,), (LOAD1, LOAD2), (LOAD2,))
    assert [_role(hosts, host) for host in (WEB, LOAD1, LOAD2)] == [
        "target",
        "generator 1 of 2",
        "generator 2 of 2, backend",
    ]
    assert _role(Inventory("hosts.yml", (WEB,), (WEB,)), WEB) == "target, generator"
