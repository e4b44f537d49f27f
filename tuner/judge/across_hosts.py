"""Evaluation across hosts: whether the gain holds on each of them, and on others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tuner.goals.objective import Objective
from tuner.judge.support import Support
from tuner.record.model import Record
from tuner.stats.hosts import FEW_HOSTS, AcrossHosts, across_hosts
from tuner.stats.margin import Margin
from tuner.stats.paired import PairedEstimate
from tuner.stats.verdict import Verdict, VerdictKind, decide
from tuner.stats.words import counted, p_in_words, percent

if TYPE_CHECKING:
    from tuner.judge.results import StudyResult


@dataclass(frozen=True, slots=True)
class HostResult:
    """One host's own confirmation."""

    name: str
    blocks: int
    """Blocks that count."""
    planned: int
    verdict: Verdict | None
    """Verdict from its own blocks; None until its confirmation is complete."""
    estimate: PairedEstimate | None
    why: str
    """Why its blocks do not support a claim; empty if they do."""
    outlier: bool
    """True if it is an outlier among the hosts."""


@dataclass(frozen=True, slots=True)
class HostsResult:
    """A study on several hosts."""

    hosts: tuple[HostResult, ...]
    """Hosts in the order of joining."""
    across: AcrossHosts | None
    """Result over the hosts as a sample; None while fewer than two have a verdict."""
    verdict: Verdict | None
    """Verdict for similar hosts; None while fewer than two have a verdict."""
    everywhere: str
    """Sentence on whether the result holds on every host."""
    notes: tuple[str, ...]
    """Notes on few hosts, outliers and missing hosts."""


def as_seen_on(record: Record, name: str) -> Record:
    """Return the record for one host, with its facts, calibration, protocol and blocks."""
    host = record.hosts[name]
    return replace(
        record,
        host=host.host,
        server=host.server,
        cores=host.cores,
        notes=host.notes,
        generator=host.generator,
        calibration=host.calibration,
        protocol=host.protocol,
        ended_unix_s=host.ended_unix_s,
        blocks=tuple(b for b in record.blocks if b.phase == "search" or b.host == name),
        here=name,
    )


def stands_for(record: Record) -> str:
    """Return the representative host for single figures: the first with a protocol."""
    names = list(record.hosts)
    return next((name for name in names if record.hosts[name].protocol), names[0])


def on_hosts(record: Record, evaluate: Callable[[Record], StudyResult]) -> HostsResult:
    """Judge a study on several hosts.

    Args:
        record: record for no particular host.
        evaluate: function that judges one host's record.
    """
    studies = {name: evaluate(as_seen_on(record, name)) for name in record.hosts}
    done = {name: study for name, study in studies.items() if study.verdict and not study.void}
    objective = next(iter(studies.values())).objective
    across = verdict = None
    rows = {name: _differences(study) for name, study in done.items()}
    rows = {name: d for name, d in rows.items() if len(d) > 1}
    if len(rows) > 1:
        across = across_hosts(list(rows.items()))
        narrow = across_hosts(list(rows.items()), 0.90)
        verdict = _verdict(across, narrow, [done[name] for name in rows], objective)
    outliers = across.outliers if across else ()
    hosts = tuple(
        HostResult(
            name=name,
            blocks=len(study.used),
            planned=study.record.protocol.blocks if study.record.protocol else 0,
            verdict=study.verdict,
            estimate=study.estimate,
            why="" if name in done else study.sentence,
            outlier=name in outliers,
        )
        for name, study in studies.items()
    )
    return HostsResult(hosts, across, verdict, _everywhere(hosts), _notes(hosts, across))


def _differences(study: StudyResult) -> list[float]:
    return [block.difference(study.objective.difference_ln) for block in study.used]


def _verdict(
    across: AcrossHosts,
    narrow: AcrossHosts,
    studies: Sequence[StudyResult],
    objective: Objective,
) -> Verdict:
    """Apply the rule for one host to the interval of the population of hosts.

    A result that is worse or violates a constraint on one host is not a gain on all, and a gain is
    not shown while another goal is open on a host, or if all requests of a host contradict it.
    """
    own = [study.verdict for study in studies if study.verdict]
    verdict = population_verdict(
        across,
        narrow,
        max((verdict.margin for verdict in own), key=lambda margin: margin.share),
        objective,
        minimum_detectable_effect=max(v.minimum_detectable_effect for v in own),
    )
    kinds = [v.kind for v in own]
    unsure = [study.record.here for study in studies if _is_open(study)]
    against = [study for study in studies if study.contradiction]
    few = _too_few_starts(studies)
    reason = ""
    if VerdictKind.VIOLATED in kinds:
        verdict = replace(verdict, kind=VerdictKind.VIOLATED)
    elif verdict.kind is VerdictKind.BETTER and VerdictKind.WORSE in kinds:
        verdict = replace(verdict, kind=VerdictKind.INCONCLUSIVE)
    elif verdict.kind is VerdictKind.BETTER and unsure:
        verdict = replace(verdict, kind=VerdictKind.INCONCLUSIVE)
        reason = f" Whether all else that is wanted holds is open on {', '.join(unsure)}."
    elif verdict.kind is VerdictKind.BETTER and against:
        verdict = replace(verdict, kind=VerdictKind.INCONCLUSIVE)
        reason = f" On {against[0].record.here} {against[0].contradiction}."
    elif verdict.kind is VerdictKind.BETTER and few:
        verdict = replace(verdict, kind=VerdictKind.INCONCLUSIVE)
        reason = f" {few[0].upper()}{few[1:]}."
    return replace(verdict, sentence=_sentence(verdict, across, objective) + reason)


def population_verdict(
    across: AcrossHosts,
    narrow: AcrossHosts,
    margin: Margin,
    objective: Objective,
    *,
    minimum_detectable_effect: float,
) -> Verdict:
    """Apply the rule for one host to the intervals of the population of hosts.

    Args:
        across: the estimate with its 95 % interval.
        narrow: the same with its 90 % interval.
        margin: smallest difference worth having.
        objective: the figure.
        minimum_detectable_effect: reduction that the noisiest host was planned to see, a share.
    """
    found = PairedEstimate(
        n=len(across.hosts),
        ratio=across.ratio,
        low=across.low,
        high=across.high,
        confidence=across.confidence,
        p_value=across.p_value,
        method=f"Student's t over {len(across.hosts)} hosts (Ibragimov and Müller 2010)",
    )
    return decide(
        found,
        (narrow.low, narrow.high),
        margin=margin,
        minimum_detectable_effect=minimum_detectable_effect,
        objective=objective.words,
        larger_is_better=objective.larger_is_better,
    )


def _too_few_starts(studies: Sequence[StudyResult]) -> str:
    """Return why the starts of all hosts together are too few for a gain; empty if they are not."""
    protocols = [study.record.protocol for study in studies]
    if not all(protocol and protocol.evidence == "starts" for protocol in protocols):
        return ""
    return Support("starts").too_few(sum(study.whole.starts for study in studies if study.whole))


def _is_open(study: StudyResult) -> bool:
    """Return whether a limit, or the other objective, is still open on a host."""
    apart = {study.objective.name, study.goals.choice.given}
    kinds = {c.verdict.kind for c in study.objectives if c.objective.name not in apart}
    undecided = any(claim.state == "undecided" for claim in study.constraints)
    return undecided or bool(kinds & {VerdictKind.WORSE, VerdictKind.INCONCLUSIVE})


def _sentence(verdict: Verdict, across: AcrossHosts, objective: Objective) -> str:
    change = across.ratio - 1
    return (
        f"{verdict.kind.capitalize()} over {counted(len(across.hosts), 'host')}: {objective.words}"
        f" is {percent(abs(change))} {'lower' if change < 0 else 'higher'} than the baseline's on"
        f" average (ratio {across.ratio:.3f}, 95 % interval {across.low:.3f} to {across.high:.3f}"
        f" for hosts like these, {p_in_words(across.p_value)})."
    )


def _everywhere(hosts: Sequence[HostResult]) -> str:
    """Return each host's own test at its own 5 %: together they claim "on every one" at 5 %.

    The intersection-union test, which needs no correction (Berger, Technometrics 24, 1982).
    """
    measured = [host for host in hosts if host.verdict]
    if not measured:
        return "No host has a verdict of its own yet."
    by_kind: dict[str, list[str]] = {}
    for host in measured:
        assert host.verdict is not None  # noqa: S101 - filtered above
        by_kind.setdefault(str(host.verdict.kind), []).append(host.name)
    if len(by_kind) == 1:
        kind = next(iter(by_kind))
        return f"By its own blocks it is {kind} on each of {counted(len(measured), 'host')}."
    each = "; ".join(f"{kind} on {', '.join(names)}" for kind, names in by_kind.items())
    return f"It does not hold alike on every host: {each}."


def _notes(hosts: Sequence[HostResult], across: AcrossHosts | None) -> tuple[str, ...]:
    notes = []
    if across:
        k = len(across.hosts)
        if k < FEW_HOSTS:
            notes.append(
                f"{k} hosts show little of others: the interval rests on {k - 1} degree"
                f"{'s' * (k != 2)} of freedom; measure on more hosts"
            )
        notes += [
            f"host {host.name} is an outlier: the others do not account for what was measured there"
            f" (adjusted {p_in_words(host.outlier_p)})"
            for host in across.hosts
            if host.is_outlier
        ]
        if across.q_p < 0.05:
            notes.append(
                f"the gain differs from host to host: {across.i_squared:.0%} of the spread is not"
                f" noise ({p_in_words(across.q_p)}), its standard deviation is"
                f" {percent(across.tau)}"
            )
    notes += [f"host {host.name} is left out: {host.why}" for host in hosts if host.why]
    return tuple(notes)
