"""Go's benchmark text, which benchstat compares (golang.org/design/14313-benchmark-format).

A line is one block of one arm, because blocks are the independent observations. Study, host and
rate are in comments: benchstat never compares lines with different keys.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from urllib.parse import quote

from tuner.judge.results import StudyResult
from tuner.measurement.window import Measurement
from tuner.outputs.number_text import number_text
from tuner.outputs.observed import ObservedArm, observed_arms
from tuner.reading.printable import comment_line, printable
from tuner.report.tidy import TYPICAL, typical

_UNITS = {
    "p50_us": ("p50-ns", 1e3),
    "p90_us": ("p90-ns", 1e3),
    "p99_us": ("p99-ns", 1e3),
    "p999_us": ("p99.9-ns", 1e3),
    "completed_per_s": ("req/s", 1.0),
    "server_cpu_us_per_request": ("cpu-ns/req", 1e3),
    "server_memory_mib": ("rss-B", 2.0**20),
}
"""Unit and factor by the column of the tidy tables; benchstat scales ns and B itself."""
_CAPACITY = "capacity-req/s"
_HIGHER = ("req/s", _CAPACITY)


def render_benchstat(studies: Sequence[StudyResult]) -> str:
    """Return a line for every block of every arm."""
    units = [*(unit for unit, _ in _UNITS.values()), _CAPACITY]
    lines = [f"Unit {unit} better={'higher' if unit in _HIGHER else 'lower'}" for unit in units]
    for study in studies:
        record = study.record
        lines += [
            "",
            comment_line(f"study {record.name}"),
            comment_line(f"host {record.host.hostname}"),
            comment_line(f"version {record.server.name} {record.server.version}"),
        ]
        for arm in observed_arms(study):
            lines += _lines(study, arm)
    return "\n".join(lines) + "\n"


def _lines(study: StudyResult, arm: ObservedArm) -> Iterator[str]:
    yield f"server: {printable(arm.server)}"
    yield f"workload: {printable(arm.workload)}"
    for windows in arm.blocks:
        figures = [f"{number_text(value)} {unit}" for value, unit in _values(study, windows)]
        if figures:
            answered = max(1, sum(window.completed for window in windows))
            yield " ".join([_name(arm, windows), str(answered), *figures])


def _name(arm: ObservedArm, windows: Sequence[Measurement]) -> str:
    # benchstat takes a number at the end of a name for GOMAXPROCS, so a word is the last part.
    parts = [*(["case=" + _plain(arm.case)] if arm.case else []), f"arm={_plain(arm.label)}"]
    return "/".join(["BenchmarkTuner", *parts, f"loop={windows[0].mode}"])


def _plain(text: str) -> str:
    return quote(text, safe="@:+,.")


def _values(study: StudyResult, windows: Sequence[Measurement]) -> Iterator[tuple[float, str]]:
    if study.contest is None and study.objective.slo:
        # Windows at several rates: their latencies cannot be compared, the capacity can.
        capacity = math.exp(study.objective.arm_ln(windows))
        yield from [(capacity, _CAPACITY)] if math.isfinite(capacity) else []
        return
    for figure in TYPICAL:
        value, (unit, factor) = typical(windows, figure), _UNITS[figure.column]
        if math.isfinite(value):
            yield value * factor, unit
