"""Contenders as plain data: servers with their configurations, and aligned defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tuner.machine.facts import ServerFacts
from tuner.stats.margin import DEFAULT_MARGIN

Evidence = Literal["typical", "whole", "starts"]
"""Basis of a claim: the typical block alone (``typical``); for *better* also the whole arms, which
must not contradict it (``whole``); for *better* and *worse* the whole arms, with enough starts of
each arm (``starts``). See ``tuner.judge.whole``."""

STOCK, PUBLISHED, HAND, TUNED = "stock", "published", "hand", "tuned"


@dataclass(frozen=True, slots=True)
class Contender:
    """An arm: a server with a configuration of its space."""

    label: str
    """``nginx-tuned``: the instance's name in every block."""
    server: str
    kind: str
    """``stock``, ``distro``, ``hand``, ``published``, ``tuned``, or the path of a file."""
    digest: str
    origin: str = ""
    """Provenance of the configuration, in words."""
    not_carried: tuple[str, ...] = ()
    """Published settings without a parameter here, each with the reason."""
    program: str = ""
    """Path of its program, if arms of one server have different ones."""


@dataclass(frozen=True, slots=True)
class AlignedDefault:
    """A default that differs between servers, and the aligned setting of each."""

    what: str
    why: str
    by_server: Mapping[str, str]
    """Settings by server, or why there are none, in words."""


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """Published figures of one measurement."""

    case: str
    server: str
    arm: str
    """Measured arm, in words."""
    figures: Mapping[str, str]
    """Published texts by name, with their unit."""


@dataclass(frozen=True, slots=True)
class Published:
    """The published figures of an experiment."""

    title: str
    source: str
    year: str
    setting: str
    concluded: tuple[str, ...]
    weak: tuple[str, ...]
    """Limits of the method."""
    rows: tuple[PublishedRow, ...]


@dataclass(frozen=True, slots=True)
class Ladder:
    """The rates of a ladder, stored before its first block."""

    rates_per_s: tuple[float, ...]
    passes: int
    """Times that every rate is offered."""
    window_s: float


@dataclass(frozen=True, slots=True)
class Contest:
    """The plan of several arms in common blocks, stored before the first block."""

    title: str
    """Title of the experiment, or ``nginx against caddy``."""
    case: str
    """Case of the experiment; empty if there is only one."""
    summary: str
    workload: str
    """In words."""
    mode: str
    """``open`` or ``closed``."""
    contenders: tuple[Contender, ...]
    servers: tuple[ServerFacts, ...]
    capacities_per_s: Mapping[str, float]
    """Closed-loop capacity of each arm, by label."""
    generator_bound: tuple[str, ...]
    """Arms with a capacity of at least that figure, because the generator was the limit."""
    rate_per_s: float
    rate_source: str
    blocks: int
    rounds: int
    window_s: float
    limit: str
    """``p99 <= 5ms``: limit of the reported highest rate."""
    within_s: float
    """Time within which an answer counts for the availability."""
    ladder: Ladder | None = None
    margin: float = DEFAULT_MARGIN
    """Smallest difference worth having, as a share."""
    margin_symmetric: bool = False
    """As ``tuner.record.model.Protocol.margin_symmetric``."""
    slice_ms: float = 0.0
    """Length of the slices in which the arms share a window, ms; 0: separate windows."""
    level: int | None = None
    """Outstanding requests above which a busy cycle begins; None: spans around stalls."""
    busy_share: float | None = None
    """Busy share of the weakest arm's cores at the rate; None if unknown."""
    evidence: Evidence = "typical"
    """Basis of the claims; "typical" in records of earlier versions."""
    alike: tuple[AlignedDefault, ...] = ()
    scaling: tuple[str, ...] = ()
    """Scaling of the published sizes, in words."""
    published: Published | None = None
    results: Mapping[str, str] = field(default_factory=dict)
    """Names of the studies that found the tuned configurations, by server, or by server and
    program."""

    def server_of(self, contender: Contender) -> ServerFacts:
        """Return the facts of an arm's server."""
        named = [found for found in self.servers if found.name == contender.server]
        own = [found for found in named if found.binary == contender.program]
        return (own or named)[0]


def server_keys(servers: Sequence[ServerFacts]) -> tuple[str, ...]:
    """Return the key of each server in ``AlignedDefault.by_server``."""
    names = [found.name for found in servers]
    words = server_words(servers)
    return tuple(
        name if names.count(name) == 1 else more for name, more in zip(names, words, strict=True)
    )


def server_words(servers: Sequence[ServerFacts]) -> tuple[str, ...]:
    """Return each server's name and version, with its program if they repeat."""
    words = [found.words for found in servers]
    return tuple(
        found.words if words.count(found.words) == 1 else f"{found.words} ({found.binary})"
        for found in servers
    )
