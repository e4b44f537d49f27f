"""The cases of a campaign: all of a case follows from the seed and its number."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.campaign.scenarios import SCENARIOS, Scenario
from tuner.testing.faults import FAULTS, Fault
from tuner.testing.faults.exhaustion import memory_groups

_TWO_SHARE = 1 / 3
"""Share of cases with a second fault."""
_AS_ROOT = frozenset(
    {"disk", "servers", "here", "hosts", "names", "network", "backend", "generator"}
)
"""Properties that only root can give to a scenario."""


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault at one of the crossings."""

    fault: Fault
    crossing: int
    share: float
    """A number from [0, 1) for what else is drawn."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a campaign."""

    number: int
    scenario: Scenario
    strikes: tuple[Strike, ...]
    """The first strikes the command, each other one its resumption."""

    @property
    def fault(self) -> Fault:
        """The first fault."""
        return self.strikes[0].fault

    @property
    def words(self) -> str:
        """Description in one line."""
        struck = ", then ".join(f"{each.fault.name} at {each.crossing}" for each in self.strikes)
        return f"{self.number}: {self.scenario.name}, {struck}"


@dataclass(frozen=True, slots=True)
class Choice:
    """The scenarios and faults that a campaign draws from."""

    scenarios: Sequence[Scenario] = SCENARIOS
    faults: Sequence[Fault] = tuple(FAULTS.values())

    def of(self, fault: Fault) -> list[Scenario]:
        """Return the scenarios that a fault can strike."""
        return [each for each in self.scenarios if _fits(fault, each)]

    def with_(self, scenario: Scenario) -> list[Fault]:
        """Return the faults that can strike a scenario."""
        return [fault for fault in self.faults if _fits(fault, scenario)]

    def struck(self) -> list[Scenario]:
        """Return the scenarios that any fault can strike."""
        return [each for each in self.scenarios if self.with_(each)]

    def usable(self) -> list[Fault]:
        """Return the faults that can strike any scenario."""
        return [fault for fault in self.faults if self.of(fault)]


def _fits(fault: Fault, scenario: Scenario) -> bool:
    # Nothing can add to a study that was removed.
    removed = fault.name == "removed folder" and scenario.extends
    return fault.needs <= offered(scenario) and not removed


def offered(scenario: Scenario) -> frozenset[str]:
    """Return the properties of a scenario that it has here."""
    missing = frozenset() if os.geteuid() == 0 else _AS_ROOT
    tools = frozenset() if shutil.which("strace") else frozenset({"strace"})
    groups = frozenset({"memory groups"}) if memory_groups() else frozenset[str]()
    return (scenario.offers | groups) - missing - tools


def cases(
    count: int, seed: int, known: Mapping[str, int], choice: Choice = Choice()
) -> Iterator[Case]:
    """Yield the cases of a campaign: every fault in turn, scenario and crossing drawn.

    Args:
        count: number of cases.
        seed: of everything drawn.
        known: crossings of each scenario without a fault, from ``lengths``.
        choice: what to draw from.
    """
    usable = choice.usable()
    for number in range(count):
        draw = random.Random(f"{seed}/{number}")
        faults = [usable[number % len(usable)]]
        scenario = draw.choice(choice.of(faults[0]))
        if draw.random() < _TWO_SHARE:
            faults.append(draw.choice(choice.with_(scenario)))
        strikes = (
            Strike(fault, draw.randrange(known[scenario.name]), draw.random()) for fault in faults
        )
        yield Case(number, scenario, tuple(strikes))
