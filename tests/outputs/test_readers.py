"""Other tools read the documents: HdrHistogram's reader, Prometheus's parser, benchstat."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.go_tools import go_tool, ran
from tests.outputs.conftest import HOSTILE
from tuner.judge.results import StudyResult
from tuner.outputs.documents import render_document
from tuner.outputs.formats import DocumentChoice
from tuner.reading.printable import printable

BENCHSTAT = "golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da"
_LEVEL = re.compile(r"\s*([\d.]+)\s+([\d.]+)\s+(\d+)\s+([\d.]+|inf)")


def document(study: StudyResult, choice: DocumentChoice) -> str:
    """Return the document of one study."""
    return render_document(choice, [study], [Path("studies/x")])


def test_hdrhistogram_reads_the_interval_log(sample: StudyResult, tmp_path: Path) -> None:
    """Every interval has its tag, its time, its length, and the percentiles of its window."""
    path = tmp_path / "study.hlog"
    path.write_text(document(sample, DocumentChoice("hlog")), encoding="utf-8")
    reader = HistogramLogReader(str(path), HdrHistogram(1, 3_600_000_000_000, 3))
    found = []
    while (interval := reader.get_next_interval_histogram()) is not None:
        found.append(interval)
    reader.close()
    windows = [w for block in sample.used for w in (*block.baseline, *block.candidate)]
    assert len(found) == 2 * len(windows)
    assert {each.get_tag() for each in found} == {
        "baseline", "baseline.raw", "tuned", "tuned.raw",
    }  # fmt: skip
    by_start = {round(w.started_unix_s * 1e3): w for w in windows}
    for each in found:
        window = by_start[round(each.get_start_time_stamp())]
        latency = window.raw if each.get_tag().endswith(".raw") else window.stall_free
        # Near its rank, because HdrHistogram for Python rounds ranks to the nearest.
        value_us = latency.value_us("p80")
        assert each.get_value_at_percentile(80) == pytest.approx(value_us * 1e3, rel=2e-3)
        length_ms = each.get_end_time_stamp() - each.get_start_time_stamp()
        assert length_ms == pytest.approx(window.duration_s * 1e3, abs=1)


def test_the_percentile_text_is_that_of_hdrhistogram(sample: StudyResult) -> None:
    """Values and counts are HdrHistogram's for the same windows, at its standard levels."""
    whole = HdrHistogram(1, 3_600_000_000_000, 3)
    for block in sample.used:
        for window in block.candidate:
            whole.add(HdrHistogram.decode(window.stall_free.hdr))
    counts = {
        step.value_iterated_to: step.total_count_to_this_value
        for step in whole.get_recorded_iterator()
    }
    text = document(sample, DocumentChoice("hgrm", arm="tuned"))
    rows = [tuple(map(float, row)) for row in _LEVEL.findall(text)]
    assert [level for _, level, _, _ in rows[:9]] == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65]
    for value, level, count, _ in rows:
        assert counts[round(value * 1e6)] == count >= level * whole.get_total_count() - 1
    (mean, deviation) = re.findall(r"Mean    = +([\d.]+), StdDeviation   = +([\d.]+)", text)[0]
    assert float(mean) * 1e6 == pytest.approx(whole.get_mean_value(), rel=1e-5)
    assert float(deviation) * 1e6 == pytest.approx(whole.get_stddev(), abs=0.5)


@pytest.mark.parametrize("which", ["sample", "hostile"])
def test_prometheus_reads_the_exposition(which: str, request: pytest.FixtureRequest) -> None:
    """Every family is one by OpenMetrics, and a hostile name remains one label."""
    study: StudyResult = request.getfixturevalue(which)
    text = document(study, DocumentChoice("openmetrics"))
    families = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    found = {family.name: family for family in families}
    assert {"tuner_study", "tuner_verdict", "tuner_figure_seconds", "tuner_change_ratio"} <= set(
        found
    )
    names = {sample.labels["study"] for family in found.values() for sample in family.samples}
    assert names == {printable(study.record.name)}
    verdict = {s.labels["tuner_verdict"]: s.value for s in found["tuner_verdict"].samples}
    assert study.verdict is not None
    assert verdict[str(study.verdict.kind)] == 1
    assert sum(verdict.values()) == 1
    (p99,) = (
        sample.value
        for sample in found["tuner_figure_seconds"].samples
        if (sample.labels["arm"], sample.labels["figure"]) == ("tuned", "p99")
    )
    assert p99 == pytest.approx(study.figures[0].candidate / 1e6)


def test_benchstat_compares_the_arms(
    shortened: StudyResult, hostile: StudyResult, tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    """Benchstat itself reads the text and prints the kept comparison, without a complaint."""
    command = go_tool(BENCHSTAT, os.devnull)
    if command is None:
        pytest.skip(f"no benchstat on the PATH, and Go did not run {BENCHSTAT} here")
    for name, study in (("benchstat", shortened), ("hostile", hostile)):
        (tmp_path / name).write_text(document(study, DocumentChoice("benchstat")), encoding="utf-8")
    compared = ran([*command, "-col", "/arm", str(tmp_path / "benchstat")])
    assert (compared.returncode, compared.stderr) == (0, "")
    golden("benchstat-compared.txt", compared.stdout)
    wild = ran([*command, "-col", "/arm", str(tmp_path / "hostile")])
    assert (wild.returncode, wild.stderr) == (0, "")
    assert printable(HOSTILE) in wild.stdout
