"""The hosts of an inventory, as far as they need no connection."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuner.app.fleet_generators import refuse_target_among
from tuner.app.fleet_look import _notes, _role
from tuner.errors import DefinitionError
from tuner.hosts.inventory import Host, Inventory
from tuner.machine.topology import Interrupt, flat

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


def test_a_look_at_a_host_has_notes_on_its_role() -> None:
    """A card matters on the generator's host, also if it was quiet; irqbalance on both."""
    hosts = Inventory("hosts.yml", (WEB,), (LOAD1,), (APP,))
    card = Interrupt("eth0", 30, (0,), 1.0)
    found = replace(flat((0, 1, 2)), irqbalance=True, interrupts=(card,))
    assert [len(_notes(hosts, host, found)) for host in (WEB, LOAD1, APP)] == [1, 2, 0]
    alone = Inventory("hosts.yml", (WEB,), (WEB,))
    busy = replace(found, interrupts=(replace(card, per_s=900.0),))
    assert [len(_notes(alone, WEB, each)) for each in (found, busy)] == [1, 2]
