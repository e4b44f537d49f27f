"""Arms of a study with the windows that count, and the figures that its report shows of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tuner.judge.arms import Figure
from tuner.judge.contest import ArmFigures
from tuner.judge.contest_results import ContestResult
from tuner.judge.results import StudyResult
from tuner.judge.scoring import BASELINE, counted_windows
from tuner.measurement.window import Measurement
from tuner.record.model import Block
from tuner.report.tidy import TYPICAL, typical
from tuner.stats.paired import PairedEstimate

TUNED = "tuned"
"""Label of a study's candidate."""


@dataclass(frozen=True, slots=True)
class ObservedArm:
    """One arm of a comparison, or of a measurement."""

    study: str
    case: str
    """Case of an experiment; empty without cases."""
    server: str
    workload: str
    label: str
    """``baseline``, ``tuned``, or the label of a contender."""
    blocks: tuple[tuple[Measurement, ...], ...]
    """Windows that count, by block, in order of time."""


@dataclass(frozen=True, slots=True)
class ArmValue:
    """One figure of one arm over all blocks."""

    study: str
    arm: str
    figure: str
    """Name in the report, such as ``p99``."""
    unit: str
    """Unit in the report, such as ``µs``; empty for a plain number."""
    value: float


@dataclass(frozen=True, slots=True)
class FigureChange:
    """The ratio of two arms in one figure."""

    study: str
    arm: str
    against: str
    figure: str
    estimate: PairedEstimate


def observed_arms(study: StudyResult) -> tuple[ObservedArm, ...]:
    """Return the arms of a contest, of a confirmation, or else of the last A/A block.

    The last A/A block is that of a measurement, or of a study before its confirmation.
    """
    if study.contest is not None:
        return tuple(_contenders(study.contest))
    if study.used:
        pairs = [(block.baseline, block.candidate) for block in study.used]
        return (
            _arm(study, BASELINE, tuple(baseline for baseline, _ in pairs)),
            _arm(study, TUNED, tuple(candidate for _, candidate in pairs)),
        )
    same = [block for block in study.record.blocks if block.phase == "aa"][-1:]
    counted = _counted(same, BASELINE)
    return (_arm(study, BASELINE, counted),) if counted else ()


def arm_values(study: StudyResult) -> tuple[ArmValue, ...]:
    """Return the known figures of all arms, as the report shows them."""
    name = study.record.name
    if study.contest is not None:
        found = [value for arm in study.contest.arms for value in _contender_values(name, arm)]
    elif study.used:
        found = [
            ArmValue(name, label, figure.name, figure.unit, value)
            for figure in _named_alike(study)
            for label, value in ((BASELINE, figure.baseline), (TUNED, figure.candidate))
        ]
    else:
        found = [
            ArmValue(name, arm.label, each.name, each.unit, typical(windows, each))
            for arm in observed_arms(study)
            for windows in arm.blocks
            for each in TYPICAL
        ]
    return tuple(value for value in found if math.isfinite(value.value))


def figure_changes(study: StudyResult) -> tuple[FigureChange, ...]:
    """Return the ratios of all figures with an interval."""
    name = study.record.name
    if study.contest is not None:
        return tuple(
            FigureChange(
                name, row.claim.arm, row.claim.against, row.objective.name, row.verdict.estimate
            )
            for row in study.contest.compared
        )
    found: Sequence[Figure] = (*study.figures, *study.usage)
    return tuple(
        FigureChange(name, TUNED, BASELINE, figure.name, figure.change)
        for figure in found
        if figure.change is not None
    )


def _arm(
    study: StudyResult, label: str, blocks: tuple[tuple[Measurement, ...], ...]
) -> ObservedArm:
    record = study.record
    workload = str(record.definition.get("workload", ""))
    return ObservedArm(record.name, "", record.server.name, workload, label, blocks)


def _contenders(found: ContestResult) -> Iterator[ObservedArm]:
    record, contest = found.record, found.contest
    workload = str(record.definition.get("workload", ""))
    for each in contest.contenders:
        blocks = _counted(found.blocks, each.label)
        if blocks:
            yield ObservedArm(record.name, contest.case, each.server, workload, each.label, blocks)


def _named_alike(study: StudyResult) -> Iterator[Figure]:
    """Yield the figures of both arms by names that are the same for any number of blocks."""
    yield from (figure for figure in study.figures if not figure.whole)
    if study.whole is not None:
        name, unit = study.objective.words, study.objective.unit
        for which, (baseline, tuned) in (
            ("of all requests", study.whole.pooled),
            ("of all requests, raw", study.whole.pooled_raw),
            ("of the worst starts", study.whole.worst_starts),
        ):
            yield Figure(f"{name} {which}", unit, baseline, tuned, None, whole=True)
    yield from study.usage


def _counted(blocks: Sequence[Block], label: str) -> tuple[tuple[Measurement, ...], ...]:
    """Return the windows of an arm that count, without blocks that have none."""
    found = (tuple(counted_windows(block, label)) for block in blocks)
    return tuple(windows for windows in found if windows)


def _contender_values(study: str, arm: ArmFigures) -> Iterator[ArmValue]:
    for name, value in arm.latency_us.items():
        yield ArmValue(study, arm.label, name, "µs", value)
    for name, unit, value in (
        ("throughput", "/s", arm.answered_per_s),
        ("server CPU per request", "µs", arm.cpu_us),
        ("server memory (RSS)", "MiB", arm.memory_mib),
        ("error share", "share", arm.error_share),
    ):
        yield ArmValue(study, arm.label, name, unit, value)
