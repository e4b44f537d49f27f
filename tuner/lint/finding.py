"""Rules, their findings, and the facts that rules may use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from tuner.machine.facts import HostFacts, ServerFacts

Severity = Literal["wrong", "costs", "style"]
_Source_contra = TypeVar("_Source_contra", contravariant=True)
_Spot_co = TypeVar("_Spot_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem in a configuration."""

    rule: str
    """Name of the rule, such as ``sendfile-under-tls``."""
    severity: Severity
    """``wrong``: it has no effect, or does harm; ``costs``: it may be intended, but has a cost;
    ``style``: it works, and has a newer or plainer form."""
    file: str
    line: int | None
    """1-based; None where the format has no lines."""
    place: str
    """Directive, or path in the JSON."""
    what: str
    why: str
    remedy: str
    link: str
    """URL of the source: the server's documentation."""
    also: tuple[str, ...] = ()
    """Further places with the same problem, such as ``/etc/nginx/nginx.conf:12``."""
    measure: str = ""
    """Command that measures the setting by itself; empty where no study can."""
    measured: tuple[str, ...] = ()
    """Effects of the setting that studies of this configuration measured."""

    @property
    def where(self) -> str:
        """``/etc/nginx/nginx.conf:12``."""
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Measurable:
    """A parameter of the server's spaces that a study can measure for a finding."""

    name: str
    trade: bool = False
    """True if a study needs ``--allow`` for it."""


@dataclass(frozen=True, slots=True)
class LintFacts:
    """Facts of the server and the host of a configuration."""

    version: tuple[int, ...]
    cores: int
    """CPUs that the server may use."""
    somaxconn: int
    """The kernel's cap of a listening socket's backlog."""
    kernel_tls: bool = False
    """True if the kernel's TLS is loaded."""
    log_rates_per_s: Mapping[str, float] = field(default_factory=dict)
    """Rates of the lines at the ends of access logs, by path."""


# Without slots: a call of `LintRule[A, B]` would set an attribute (python/cpython#90562).
@dataclass(frozen=True)
class LintRule(Generic[_Source_contra, _Spot_co]):
    """A rule: a check, with its explanation and remedy."""

    id: str
    severity: Severity
    check: Callable[[_Source_contra, LintFacts], Iterator[tuple[_Spot_co, str]]]
    """Yields places of a configuration, and the problem at each."""
    why: str
    remedy: str
    link: str

    def finding(
        self, what: str, *, file: str, line: int | None, place: str, also: tuple[str, ...] = ()
    ) -> Finding:
        """Return the finding of this rule at a place."""
        return Finding(
            rule=self.id,
            severity=self.severity,
            file=file,
            line=line,
            place=place,
            what=what,
            why=self.why,
            remedy=self.remedy,
            link=self.link,
            also=also,
        )


def lint_facts(host: HostFacts, server: ServerFacts) -> LintFacts:
    """Return the facts of this host and server that the rules need."""
    return LintFacts(server.version_tuple, len(host.cpus), host.somaxconn, host.kernel_tls)
