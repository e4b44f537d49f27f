"""The outcome for scripts, as ``tuner report --json`` prints it.

``page/report.schema.json`` is its JSON schema. Figures that are not there are null, never NaN.
"""

from __future__ import annotations

import json
import math
from importlib.resources import files
from pathlib import Path
from typing import Any

from tuner.judge.across_hosts import HostsResult
from tuner.judge.arms import Figure
from tuner.judge.comparison import Judged
from tuner.judge.confirmation import Missing
from tuner.judge.results import StudyResult
from tuner.judge.taken_apart import minimal_changes
from tuner.stats.paired import PairedEstimate


def schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of ``as_data``."""
    text = files("tuner.report").joinpath("page", "report.schema.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


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
        **_ratio(found),
        "p_value": found.p_value if found else None,
        "blocks": found.n if found else 0,
        "hosts": _hosts(study.hosts) if study.hosts else None,
        "objectives": [
            {
                "objective": claim.objective.text,
                "verdict": str(claim.verdict.kind),
                **_ratio(claim.verdict.estimate),
                "adjusted_p": claim.adjusted_p,
            }
            for claim in study.objectives
        ],
        "constraints": [
            {
                "constraint": claim.constraint.text,
                "state": claim.state,
                "value": _finite(claim.found.value),
                "low": _finite(claim.found.low),
                "high": _finite(claim.found.high),
            }
            for claim in study.constraints
        ],
        "always_valid": found.always_valid if found else None,
        "finalists": [
            {
                "candidate": entry.claim.arm,
                "verdict": str(entry.verdict.kind),
                **_ratio(entry.verdict.estimate),
                "p_value_holm": entry.adjusted_p,
            }
            for entry in study.finalists
        ],
        "beside": [_beside(entry) for entry in study.beside],
        "margin": verdict.margin if verdict else None,
        "minimum_detectable_effect": verdict.minimum_detectable_effect if verdict else None,
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
        "server": {"name": record.server.name, "version": record.server.version},
        "host": record.host.hostname,
        "tuner_version": record.tuner_version,
        "record": str(folder / "record.db"),
        "report": str(folder / "report.html"),
    }


def _beside(entry: Judged | Missing) -> dict[str, Any]:
    if isinstance(entry, Missing):
        claimed = {"verdict": None, **_ratio(None), "p_value_holm": None}
        return {
            "baseline": entry.against,
            **claimed,
            "blocks_failed": entry.failed,
            "reason": entry.reason,
        }
    return {
        "baseline": entry.claim.against,
        "verdict": str(entry.verdict.kind),
        **_ratio(entry.verdict.estimate),
        "p_value_holm": _finite(entry.adjusted_p),
        "blocks_failed": 0,
        "reason": None,
    }


def _blocks(study: StudyResult) -> list[dict[str, Any]]:
    rows = []
    for block in study.confirm:
        baseline, tuned = block.values(study.objective.arm_ln)
        excluded = block.excluded()
        rows.append(
            {
                "block": block.index + 1,
                "started_unix_s": block.started_unix_s,
                "used": block.used,
                "reason": block.reason,
                "baseline": _finite(baseline),
                "tuned": _finite(tuned),
                "excluded_baseline": _finite(excluded[0]),
                "excluded_tuned": _finite(excluded[1]),
            }
        )
    return rows


def _figure(entry: Figure) -> dict[str, Any]:
    return {
        "figure": entry.name,
        "unit": entry.unit,
        "baseline": _finite(entry.baseline),
        "tuned": _finite(entry.candidate),
        **_ratio(entry.change),
    }


def _hosts(found: HostsResult) -> dict[str, Any]:
    """Return several hosts: each one's own verdict, and what they say of hosts like them."""
    across = found.across
    spread = {host.name: host for host in across.hosts} if across else {}
    return {
        "everywhere": found.everywhere,
        "across": {
            "ratio": _finite(across.ratio),
            "ratio_low": _finite(across.low),
            "ratio_high": _finite(across.high),
            "p_value": _finite(across.p_value),
            "tau": _finite(across.tau),
            "q": _finite(across.q),
            "q_p_value": _finite(across.q_p),
            "i_squared": _finite(across.i_squared),
            "prediction": list(across.prediction) if across.prediction else None,
        }
        if across
        else None,
        "each": [
            {
                "host": host.name,
                "verdict": str(host.verdict.kind) if host.verdict else None,
                **_ratio(host.estimate),
                "blocks": host.blocks,
                "blocks_planned": host.planned,
                "weight": _finite(spread[host.name].weight) if host.name in spread else None,
                "outlier": host.outlier,
                "outlier_p_holm": _finite(spread[host.name].outlier_p)
                if host.name in spread
                else None,
                "why_not": host.why,
            }
            for host in found.hosts
        ],
    }


def _ratio(found: PairedEstimate | None) -> dict[str, float | None]:
    if found is None:
        return {"ratio": None, "ratio_low": None, "ratio_high": None}
    return {
        "ratio": _finite(found.ratio),
        "ratio_low": _finite(found.low),
        "ratio_high": _finite(found.high),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
