"""The outcome for scripts, as ``tuner report --json`` prints it.

``page/report.schema.json`` is its JSON schema. Figures that are not there are null, never NaN.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from tuner.judge.across_hosts import HostsResult
from tuner.judge.arms import Figure
from tuner.judge.comparison import Judged
from tuner.judge.confirmation import Missing
from tuner.judge.contest_results import ContestResult
from tuner.judge.results import StudyResult
from tuner.judge.taken_apart import minimal_changes
from tuner.paths import record_file
from tuner.stats.paired import PairedEstimate
from tuner.stats.replication import Replication


def schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of ``as_data``."""
    text = files("tuner.report").joinpath("page", "report.schema.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def results_data(studies: Sequence[StudyResult], folder: Path) -> dict[str, Any]:
    """Return the outcome of a study, or of a run's contests.

    Args:
        studies: a study, or a run's contests; none if no contest of a run has begun.
        folder: folder of the results.
    """
    if studies and studies[0].contest is None:
        return as_data(studies[0], folder)
    return {
        "contests": [contest_data(study.contest) for study in studies if study.contest],
        **_places(folder),
    }


def as_data(study: StudyResult, folder: Path) -> dict[str, Any]:
    """Return the outcome as plain data that JSON can hold.

    Args:
        folder: where the study's files lie.
    """
    verdict, found = study.verdict, study.estimate
    record = study.record
    return {
        "schema_version": record.schema_version,
        "study": record.name,
        "status": study.status,
        "sentence": study.sentence,
        "objective": study.objective.text,
        "verdict": str(verdict.kind) if verdict else None,
        **ratio_data(found),
        "p_value": found.p_value if found else None,
        "blocks": found.n if found else 0,
        "hosts": _hosts(study.hosts) if study.hosts else None,
        "objectives": [
            {
                "objective": claim.objective.text,
                "verdict": str(claim.verdict.kind),
                **ratio_data(claim.verdict.estimate),
                "adjusted_p": claim.adjusted_p,
            }
            for claim in study.objectives
        ],
        "constraints": [
            {
                "constraint": claim.constraint.text,
                "state": claim.state,
                "value": finite(claim.found.value),
                "low": finite(claim.found.low),
                "high": finite(claim.found.high),
            }
            for claim in study.constraints
        ],
        "always_valid": found.p_kind == "always-valid" if found else None,
        "finalists": [
            {
                "candidate": entry.claim.arm,
                "verdict": str(entry.verdict.kind),
                **ratio_data(entry.verdict.estimate),
                "p_value_holm": entry.adjusted_p,
            }
            for entry in study.finalists
        ],
        "beside": [_other_baseline(entry) for entry in study.others],
        "margin": verdict.margin.share if verdict else None,
        "minimum_detectable_effect": verdict.minimum_detectable_effect if verdict else None,
        "claimable_effect": verdict.claimable_effect if verdict else None,
        "baseline": record.baseline,
        "candidate": study.candidate,
        "changes": [
            {"parameter": change.name, "baseline": change.baseline, "tuned": change.tuned}
            for change in study.changes
        ],
        "minimal_changes": [
            {"parameter": change.name, "baseline": change.baseline, "tuned": change.tuned}
            for change in minimal_changes(study)
        ],
        "figures": [_figure(entry) for entry in study.figures],
        "resources": [_figure(entry) for entry in study.usage],
        "confirmation": _blocks(study),
        "replicated": study.replication.agrees if study.replication else None,
        **({"replication": _replication(study.replication)} if study.replication else {}),
        "applied": [
            {
                "host": entry.host,
                "unix_s": entry.unix_s,
                "what": entry.what,
                "files": list(entry.files),
                "owner": entry.owner,
            }
            for entry in record.applied
        ],
        "warnings": list(study.warnings),
        "server": {
            "name": record.server.name,
            "version": record.server.version,
            **({"product": record.server.product} if record.server.product else {}),
        },
        "host": record.host.hostname,
        "tuner_version": record.tuner_version,
        **_places(folder),
    }


def _places(folder: Path) -> dict[str, str]:
    return {"record": str(record_file(folder)), "report": str(folder / "report.html")}


def contest_data(result: ContestResult) -> dict[str, Any]:
    """Return a contest as plain data; unknown figures are null."""
    contest = result.contest
    return {
        "study": result.record.name,
        "title": contest.title,
        "case": contest.case,
        "mode": contest.mode,
        "rate_per_s": contest.rate_per_s if contest.mode == "open" else None,
        "blocks": len(result.blocks),
        "arms": [
            {
                "arm": arm.label,
                "configuration": result.contender(arm.label).digest,
                "capacity_per_s": contest.capacities_per_s.get(arm.label),
                "latency_us": {name: finite(value) for name, value in arm.latency_us.items()},
                "answered_per_s": finite(arm.answered_per_s),
                "error_share": finite(arm.error_share),
                "cpu_us_per_request": finite(arm.cpu_us),
                "backend_cpu_us_per_request": finite(arm.backend_cpu_us),
                "memory_mib": finite(arm.memory_mib),
                "bytes_per_answer": finite(arm.answer_bytes),
                "refused": arm.refused or None,
            }
            for arm in result.arms
        ],
        "compared": [
            {
                "first": row.claim.against,
                "second": row.claim.arm,
                "figure": row.objective.name,
                "verdict": str(row.verdict.kind),
                **ratio_data(row.verdict.estimate),
                "p_value_holm": row.adjusted_p,
            }
            for row in result.compared
        ],
        "ladder": [
            {
                "arm": climb.arm,
                "knee_per_s": climb.knee.per_s if climb.knee else None,
                "limit": contest.limit,
                "highest_within_limit_per_s": climb.holds.per_s if climb.holds else None,
                "side": climb.holds.side if climb.holds else None,
                "low_per_s": finite(climb.holds.low) if climb.holds else None,
                "high_per_s": finite(climb.holds.high) if climb.holds else None,
                "generator_limit_per_s": climb.generator_limit_per_s,
                "rungs": [
                    {
                        "rate_per_s": rung.rate_per_s,
                        "p50_us": finite(rung.p50_us),
                        "p99_us": finite(rung.p99_us),
                        "availability": finite(rung.availability),
                        "server_cpu_cores": finite(rung.cpu_cores),
                    }
                    for rung in climb.rungs
                ],
            }
            for climb in result.climbs
        ],
        "alike": [{"what": a.what, "by_server": dict(a.by_server)} for a in contest.alike],
        "scaling": list(contest.scaling),
        "not_carried": {c.label: list(c.not_carried) for c in contest.contenders if c.not_carried},
        "published": [
            {"server": row.server, "arm": row.arm, "figures": dict(row.figures)}
            for row in result.published
        ],
        "warnings": list(result.warnings),
    }


def _other_baseline(entry: Judged | Missing) -> dict[str, Any]:
    if isinstance(entry, Missing):
        claimed = {"verdict": None, **ratio_data(None), "p_value_holm": None}
        return {
            "baseline": entry.against,
            **claimed,
            "blocks_failed": entry.failed,
            "reason": entry.reason,
        }
    return {
        "baseline": entry.claim.against,
        "verdict": str(entry.verdict.kind),
        **ratio_data(entry.verdict.estimate),
        "p_value_holm": finite(entry.adjusted_p),
        "blocks_failed": 0,
        "reason": None,
    }


def _blocks(study: StudyResult) -> list[dict[str, Any]]:
    rows = []
    for block in study.confirm:
        baseline, tuned = block.values(study.objective)
        excluded = block.excluded()
        rows.append(
            {
                "block": block.index + 1,
                "started_unix_s": block.started_unix_s,
                "used": block.used,
                "reason": block.reason,
                "baseline": finite(baseline),
                "tuned": finite(tuned),
                "excluded_baseline": finite(excluded[0]),
                "excluded_tuned": finite(excluded[1]),
            }
            | ({} if block.slots is None else _slots(*block.slots))
        )
    return rows


def _slots(baseline: int, tuned: int) -> dict[str, int]:
    return {"slot_baseline": baseline, "slot_tuned": tuned}


def _figure(entry: Figure) -> dict[str, Any]:
    return {
        "figure": entry.name,
        "unit": entry.unit,
        "baseline": finite(entry.baseline),
        "tuned": finite(entry.candidate),
        **ratio_data(entry.change),
        "ratio": finite(entry.ratio),
    }


def _replication(found: Replication) -> dict[str, Any]:
    return {
        "verdict": str(found.kind),
        "sentence": found.sentence,
        "difference": finite(found.difference.ratio),
        "difference_low": finite(found.difference.low),
        "difference_high": finite(found.difference.high),
    }


def _hosts(found: HostsResult) -> dict[str, Any]:
    """Return several hosts: each one's own verdict, and what they say of hosts like them."""
    across = found.across
    spread = {host.name: host for host in across.hosts} if across else {}
    return {
        "everywhere": found.everywhere,
        "across": {
            "ratio": finite(across.ratio),
            "ratio_low": finite(across.low),
            "ratio_high": finite(across.high),
            "p_value": finite(across.p_value),
            "tau": finite(across.tau),
            "q": finite(across.q),
            "q_p_value": finite(across.q_p),
            "i_squared": finite(across.i_squared),
            "prediction": list(across.prediction) if across.prediction else None,
        }
        if across
        else None,
        "each": [
            {
                "host": host.name,
                "verdict": str(host.verdict.kind) if host.verdict else None,
                **ratio_data(host.estimate),
                "blocks": host.blocks,
                "blocks_planned": host.planned,
                "weight": finite(spread[host.name].weight) if host.name in spread else None,
                "outlier": host.outlier,
                "outlier_p_holm": finite(spread[host.name].outlier_p)
                if host.name in spread
                else None,
                "why_not": host.why,
            }
            for host in found.hosts
        ],
    }


def ratio_data(found: PairedEstimate | None) -> dict[str, float | None]:
    """Return a ratio with its interval, by the keys that every form of the data uses."""
    if found is None:
        return {"ratio": None, "ratio_low": None, "ratio_high": None}
    return {
        "ratio": finite(found.ratio),
        "ratio_low": finite(found.low),
        "ratio_high": finite(found.high),
    }


def finite(value: float) -> float | None:
    """Return a figure that JSON can hold; None for NaN and infinity."""
    return value if math.isfinite(value) else None
