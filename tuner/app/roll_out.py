"""The roll-out: change hosts one after another, and restore all of them if one fails."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tuner.app.canary import HostSample
from tuner.app.planning import HostPlan
from tuner.app.undisturbed import undisturbed
from tuner.errors import HostError
from tuner.hosts.inventory import Host
from tuner.hosts.service import Restoration, ServiceChange, ServiceChangeResult
from tuner.record.model import Applied

_HOST_S = 60.0
"""Longest time that changing one host is expected to take."""


class ChangesServices(Protocol):
    """An adapter that changes services: ``tuner.hosts.service.Services``."""

    def change(self, host: Host, change: ServiceChange) -> ServiceChangeResult:
        """Back up, replace and validate the files, then reload or restart the service."""
        ...

    def keep(self, hosts: Sequence[Host]) -> None:
        """Make the change permanent."""
        ...

    def give_back(self, hosts: Sequence[Host], owner: str) -> Restoration:
        """Restore the old files on as many hosts as possible."""
        ...


class ChecksHosts(Protocol):
    """A judge of a host before and after its change: ``tuner.app.canary.Probes``."""

    @property
    def longest_s(self) -> float:
        """Longest time of one measurement."""
        ...

    def look(self, hosts: Sequence[Host]) -> Mapping[str, HostSample]:
        """Measure hosts in turn."""
        ...

    def checked(
        self, host: Host, before: Mapping[str, HostSample], control: Host | None, claim: str
    ) -> str:
        """Measure a changed host again and compare; return a description of the outcome."""
        ...


def _nothing(_: str) -> None:
    """Print nothing."""


@dataclass(frozen=True, slots=True)
class RollOut:
    """A roll-out with its adapters."""

    services: ChangesServices
    probes: ChecksHosts
    keep_record: Callable[[Applied], None]
    """Writer of a change to the study's record."""
    claim: str
    """Finding of the study, in words."""
    say: Callable[[str], None] = _nothing
    """Printer of an outcome."""
    note: Callable[[str], None] = _nothing
    """Printer of progress."""

    def run(self, plans: Sequence[HostPlan], controls: Sequence[Host] = ()) -> None:
        """Change the hosts one after another, and check each before the next.

        Args:
            plans: plans in order.
            controls: further hosts, which do not change.

        Raises:
            HostError: a host failed; all hosts have been restored.
        """
        needed = [plan for plan in plans if plan.is_needed]
        if not needed:
            return
        # The first host must not restore itself while the last one is being changed.
        lease_s = needed[0].change.lease_s + sum(_HOST_S + self.probes.longest_s for _ in needed)
        begun: list[HostPlan] = []
        try:
            for number, plan in enumerate(needed):
                others = [*(each.host for each in needed[number + 1 :]), *controls]
                control = others[-1] if others else None
                measured = [plan.host] if control is None else [plan.host, control]
                before = self.probes.look(measured)
                begun.append(plan)
                self._change(replace(plan, change=replace(plan.change, lease_s=lease_s)))
                words = self.probes.checked(plan.host, before, control, self.claim)
                self.say(f"{plan.host.name}: applied; {words}")
            self.services.keep([plan.host for plan in needed])
        except BaseException as error:
            words = self._restored(begun, lease_s)
            if isinstance(error, HostError):
                raise HostError(f"{error}; {words}") from error
            self.note(words)
            raise

    def _change(self, plan: HostPlan) -> None:
        host, change = plan.host, plan.change
        self.note(f"{host.name}: changing {', '.join(change.paths)}")
        became = self.services.change(host, change)
        if became.state != "live":
            raise HostError(f"{host.name}: {change.service} {became.state}: {became.message}")
        if became.message:
            self.note(f"note: {host.name}: {became.message}")
        paths = tuple(change.files) if became.message else change.paths
        # The change must be in the record before anything else happens.
        self.keep_record(Applied(host.name, time.time(), "applied", paths, change.owner))

    def _restored(self, plans: Sequence[HostPlan], lease_s: float) -> str:
        """Restore the files of all reachable hosts; return a description of the outcome."""
        if not plans:
            return "nothing was changed"
        hosts, owner = [plan.host for plan in plans], plans[0].change.owner
        self.note(f"restoring: {', '.join(host.name for host in hosts)}")
        with undisturbed():
            try:
                given = self.services.give_back(hosts, owner)
            except HostError as error:
                given = Restoration({}, {host.name: str(error) for host in hosts})
            back = [name for name, files in given.files.items() if files]
            for name in back:
                files = tuple(given.files[name])
                self.keep_record(Applied(name, time.time(), "rolled back", files, owner))
        words = [f"rolled back: {', '.join(back)}"] if back else []
        if given.failed:
            failed = "; ".join(f"{name}: {reason}" for name, reason in given.failed.items())
            words.append(
                f"NOT rolled back: {failed}. A host that was changed puts its own files back by"
                f" itself within {math.ceil(lease_s / 60)} minutes while it is up; see with"
                " `tuner rollback` when it can be reached"
            )
        # A host that refused the files, or did not prove them, has restored its own already.
        return "; ".join(words) or "every host is as it was found"
