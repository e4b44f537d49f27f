"""Hosts are changed one by one, and none stays changed when one cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from tests.app.services import MAIN, TEXT, TUNED, FakeHost, given, host, no_home, own_study
from tuner.app.canary import HostSample
from tuner.app.planning import HostPlan, planned, wanted
from tuner.app.roll_out import RollOut
from tuner.errors import HostError, Interrupted
from tuner.hosts.inventory import Host
from tuner.hosts.service import Restoration, ServiceChange, ServiceChangeResult
from tuner.record.model import Applied

NAMES = ("east", "north", "west")


@dataclass
class Site:
    """Fake services and probes that record their calls."""

    refuses: str = ""
    """Host whose server refuses the files."""
    worse: str = ""
    """Host that is worse after its change."""
    stops: str = ""
    """Host at which the user presses Ctrl-C."""
    lost: tuple[str, ...] = ()
    """Hosts that cannot be reached for the way back."""
    done: list[str] = field(default_factory=list)
    record: list[tuple[str, str]] = field(default_factory=list)
    leases_s: list[float] = field(default_factory=list)
    longest_s: float = 20.0

    def change(self, host: Host, change: ServiceChange) -> ServiceChangeResult:
        """Implement ``ChangesServices``."""
        self.done.append(f"change {host.name}")
        self.leases_s.append(change.lease_s)
        assert change.files == {MAIN: TUNED}
        assert set(change.expected) == {MAIN}
        if host.name == self.refuses:
            return ServiceChangeResult("refused", "unknown directive")
        return ServiceChangeResult("live", "")

    def keep(self, hosts: Sequence[Host]) -> None:
        """Implement ``ChangesServices``."""
        self.done.append(f"keep {' '.join(host.name for host in hosts)}")

    def give_back(self, hosts: Sequence[Host], owner: str) -> Restoration:
        """Implement ``ChangesServices``."""
        assert owner.startswith("mine ")
        self.done.append(f"give back {' '.join(host.name for host in hosts)}")
        names = [h.name for h in hosts if h.name not in (self.refuses, *self.lost)]
        return Restoration({name: [MAIN] for name in names}, dict.fromkeys(self.lost, "no answer"))

    def look(self, hosts: Sequence[Host]) -> Mapping[str, HostSample]:
        """Implement ``ChecksHosts``."""
        self.done.append(f"look {' '.join(host.name for host in hosts)}")
        return {host.name: HostSample((np.ones(1),), (1.0,)) for host in hosts}

    def checked(
        self, host: Host, before: Mapping[str, HostSample], control: Host | None, claim: str
    ) -> str:
        """Implement ``ChecksHosts``."""
        assert claim == "the claim"
        assert set(before) == {host.name, *([control.name] if control else [])}
        self.done.append(f"check {host.name} against {control.name if control else 'nothing'}")
        if host.name == self.worse:
            raise HostError(f"{host.name} is worse")
        if host.name == self.stops:
            raise Interrupted("terminated")
        return "as fast"

    def keep_record(self, entry: Applied) -> None:
        """Add to the record."""
        self.record.append((entry.host, entry.what))

    def run(self, plans: Sequence[HostPlan], controls: Sequence[Host] = ()) -> None:
        """Roll out."""
        RollOut(self, self, self.keep_record, "the claim", note=self.done.append).run(
            plans, controls
        )


def plans(hosts: Mapping[str, FakeHost] | None = None) -> list[HostPlan]:
    """Return the plans of the hosts."""
    there = hosts or {name: FakeHost() for name in NAMES}
    want = wanted(given(own_study()), inventory="prod.yml")
    return [*planned([host(name) for name in there], want, lambda h: there[h.name], no_home).plans]


def acts(site: Site) -> list[str]:
    """Return the calls of services and probes."""
    return [each for each in site.done if each.split()[0] in {"look", "change", "check", "keep"}]


def test_each_host_is_measured_before_and_after_its_change() -> None:
    """In turn with a host that does not change at that time; all stay when all are well."""
    site = Site()
    site.run(plans(), [host("spare")])
    assert acts(site) == [
        *("look east spare", "change east", "check east against spare"),
        *("look north spare", "change north", "check north against spare"),
        *("look west spare", "change west", "check west against spare"),
        "keep east north west",
    ]
    assert site.record == [(name, "applied") for name in NAMES]
    # The first host waits while the others are measured twice and changed.
    assert min(site.leases_s) >= 300 + 3 * (60 + site.longest_s)


def test_the_last_host_has_no_other_to_be_compared_with() -> None:
    """Hosts that were changed in the same run are not a control."""
    site = Site()
    site.run(plans())
    assert "check north against west" in site.done
    assert "check west against nothing" in site.done


def test_a_host_that_is_worse_puts_every_host_back() -> None:
    """By itself, with the reason; the next host is not touched."""
    site = Site(worse="north")
    with pytest.raises(HostError, match="north is worse; rolled back: east, north"):
        site.run(plans())
    assert "change west" not in site.done
    assert not any(each.startswith("keep") for each in site.done)
    assert site.record == [
        *(("east", "applied"), ("north", "applied")),
        *(("east", "rolled back"), ("north", "rolled back")),
    ]


def test_a_host_that_refuses_the_files_puts_the_others_back() -> None:
    """In the words of its server; it was not changed itself."""
    site = Site(refuses="north")
    with pytest.raises(HostError, match="north: nginx refused: unknown directive; rolled back: e"):
        site.run(plans())
    assert site.record == [("east", "applied"), ("east", "rolled back")]


def test_an_interruption_puts_every_host_back() -> None:
    """And is still an interruption."""
    site = Site(stops="east")
    with pytest.raises(Interrupted):
        site.run(plans())
    assert site.record == [("east", "applied"), ("east", "rolled back")]
    assert site.done[-1] == "rolled back: east"


def test_a_host_that_is_away_on_the_way_back_is_named() -> None:
    """With what becomes of it, and what to do."""
    site = Site(worse="north", lost=("east",))
    with pytest.raises(HostError, match=r"NOT rolled back: east: no answer.*tuner rollback"):
        site.run(plans())


def test_hosts_that_have_it_already_are_left_alone() -> None:
    """They are neither measured nor changed."""
    site = Site()
    site.run(plans({"east": FakeHost({**FakeHost().texts, MAIN: TUNED}), "north": FakeHost()}))
    assert acts(site)[0].startswith("look north")
    assert site.record == [("north", "applied")]
    none = Site()
    none.run(plans({"east": FakeHost({**FakeHost().texts, MAIN: TUNED})}))
    assert none.done == []
    assert TEXT != TUNED
