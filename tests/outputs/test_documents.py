"""Documents for other tools: kept texts, and what hostile records make of them."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.outputs.conftest import HOSTILE
from tuner.errors import DefinitionError, StoreError
from tuner.judge.results import StudyResult, evaluate
from tuner.outputs.documents import check_document, render_document
from tuner.outputs.formats import DOCUMENT_FORMATS, DocumentChoice, DocumentFormat, document_choice
from tuner.record.contenders import Contender, Contest
from tuner.record.model import Record
from tuner.record.small import small
from tuner.report.junit import render_junit
from tuner.report.tidy_columns import TableName

Golden = Callable[[str, str], None]


def document(study: StudyResult, name: DocumentFormat, **options: str) -> str:
    """Return the document of one study."""
    choice = DocumentChoice(name, **options)  # type: ignore[arg-type]
    check_document(choice, [study])
    return render_document(choice, [study], [Path("studies/x")])


@pytest.mark.parametrize("table", ["windows", "blocks", "trials"])
def test_csv_is_the_kept_one(shortened: StudyResult, golden: Golden, table: TableName) -> None:
    """Each table as it was looked at and accepted."""
    golden(f"{table}.csv", document(shortened, "csv", table=table))


@pytest.mark.parametrize("name", ["benchstat", "bencher", "openmetrics"])
def test_texts_are_the_kept_ones(
    shortened: StudyResult, golden: Golden, name: DocumentFormat
) -> None:
    """Each format as it was looked at and accepted."""
    golden(f"{name}.txt", document(shortened, name))


def test_histograms_are_the_kept_ones(shortened: StudyResult, golden: Golden) -> None:
    """The log without its payloads, which depend on the version of zlib."""
    golden("tuned.hgrm", document(shortened, "hgrm", arm="tuned"))
    log = document(shortened, "hlog")
    assert log.count("HISTFAAA") == 2 * sum(len(b.windows) for b in shortened.record.blocks)
    golden("arms.hlog", re.sub("HISTFAAA[^\n]*", "…", log))


def test_junit_and_json_are_those_of_the_report(sample: StudyResult) -> None:
    """The formats that the report has anyway are the same by this name."""
    assert document(sample, "junit") == render_junit([sample])
    assert json.loads(document(sample, "json"))["report"] == "studies/x/report.html"


@pytest.mark.parametrize("name", DOCUMENT_FORMATS)
def test_no_text_of_a_record_makes_a_line(
    sample: StudyResult, hostile: StudyResult, name: DocumentFormat
) -> None:
    """A hostile record has the same number of lines, without a control character."""
    arm = {"arm": "tuned"} if name == "hgrm" else {}
    plain, wild = document(sample, name, **arm), document(hostile, name, **arm)
    # The words of the report break where the name of the host is longer.
    assert name in ("junit", "json") or wild.count("\n") == plain.count("\n")
    assert "\x1b" not in wild


@pytest.mark.parametrize("table", ["windows", "blocks", "trials"])
def test_no_cell_of_csv_is_a_formula(hostile: StudyResult, table: TableName) -> None:
    """A text that a spreadsheet would evaluate begins with an apostrophe, in every column."""
    rows = list(csv.DictReader(io.StringIO(document(hostile, "csv", table=table))))
    assert rows[0]["study"].startswith("'=cmd")
    for row in rows:
        for cell in row.values():
            number = re.fullmatch(r"-?[0-9.]+(e[+-][0-9]+)?", cell)
            assert number or not re.match(r"\s*[=+\-@]", cell)


def test_csv_keeps_numbers_and_plain_texts(sample: StudyResult) -> None:
    """A negative number is a number; a formula after a separator is text too."""
    record = sample.record
    messages = ("-5", "a-b", "x;=1+1", "ok")
    trials = tuple(
        replace(trial, message=text) for trial, text in zip(record.trials, messages, strict=False)
    )
    found = evaluate(replace(record, trials=trials))
    rows = csv.DictReader(io.StringIO(document(found, "csv", table="trials")))
    assert [row["message"] for row in rows] == ["-5", "a-b", "x;'=1+1", "ok"]


def test_several_studies_are_one_document(sample: StudyResult) -> None:
    """Tables follow each other under one head, and arms have the names of their studies."""
    other = evaluate(replace(sample.record, name="other"))
    both, folders = [sample, other], [Path("a"), Path("b")]
    text = render_document(DocumentChoice("csv", "trials"), both, folders)
    assert text.count("study,trial") == 1
    assert {row["study"] for row in csv.DictReader(io.StringIO(text))} == {"proxy-p99", "other"}
    tags = set(re.findall("Tag=([^,]+)", render_document(DocumentChoice("hlog"), both, folders)))
    assert tags >= {"proxy-p99/tuned", "other/baseline.raw"}
    assert len(json.loads(render_document(DocumentChoice("json"), both, folders))) == 2


def contest_of(record: Record) -> StudyResult:
    """Return the confirmation's blocks as those of a contest of two servers."""
    labels = {"baseline": "nginx-stock-2", "candidate": "caddy-stock"}
    blocks = tuple(
        replace(
            block,
            phase="contest",
            instances=tuple(replace(i, instance=labels[i.instance]) for i in block.instances),
            windows=tuple(replace(w, instance=labels[w.instance]) for w in block.windows),
        )
        for block in record.blocks
        if block.phase == "confirm"
    )
    digests = {i.instance: i.digest for i in blocks[0].instances}
    contest = Contest(
        title="nginx against caddy",
        case="static",
        summary="",
        workload="static files",
        mode="open",
        contenders=tuple(
            Contender(label, label.partition("-")[0], "stock", digest)
            for label, digest in digests.items()
        ),
        servers=(record.server,),
        capacities_per_s=dict.fromkeys(digests, 7_000.0),
        generator_bound=(),
        rate_per_s=5_000.0,
        rate_source="--rate",
        blocks=len(blocks),
        rounds=4,
        window_s=2.2,
        limit="p99 <= 5ms",
        within_s=0.005,
    )
    return evaluate(replace(record, blocks=blocks, trials=(), protocol=None, contest=contest))


def test_a_contest_has_its_own_arms(sample: StudyResult) -> None:
    """Every contender is an arm with its server, and each claim of the family has a ratio."""
    found = contest_of(sample.record)
    rows = list(csv.DictReader(io.StringIO(document(found, "csv", table="blocks"))))
    servers = {(row["server"], row["arm"]) for row in rows}
    assert servers == {("nginx", "nginx-stock-2"), ("caddy", "caddy-stock")}
    exposition = document(found, "openmetrics")
    assert 'arm="caddy-stock",figure="p99"' in exposition
    assert 'arm="caddy-stock",against="nginx-stock-2",figure="p99"' in exposition
    assert "BenchmarkTuner/case=static/arm=nginx-stock-2/loop=open" in document(found, "benchstat")
    with pytest.raises(DefinitionError, match="name one of several arms; the arms: nginx-stock-2"):
        document(found, "hgrm")
    with pytest.raises(DefinitionError, match="a run makes no claim"):
        document(found, "junit")


def test_an_unknown_arm_is_refused(sample: StudyResult) -> None:
    """The message lists the known ones."""
    with pytest.raises(
        DefinitionError, match=r"unknown arm 'x'; the arms: baseline, baseline\.raw, tun"
    ):
        document(sample, "hlog", arm="x")


def test_a_record_without_histograms_is_refused(sample: StudyResult) -> None:
    """An exported record keeps those of the confirmation only."""
    calibrated = replace(sample.record, protocol=None, trials=())
    blocks = tuple(b for b in calibrated.blocks if b.phase == "aa")
    kept = evaluate(small(replace(calibrated, blocks=blocks)))
    with pytest.raises(StoreError, match="has no histograms of 'baseline'"):
        document(kept, "hgrm")


def test_a_name_of_benchstat_has_no_number_at_its_end(hostile: StudyResult) -> None:
    """Benchstat would take it for GOMAXPROCS; every line has pairs of value and unit."""
    lines = document(hostile, "benchstat").splitlines()
    results = [line.split() for line in lines if line.startswith("Benchmark")]
    assert results
    for name, answered, *pairs in results:
        assert re.fullmatch(r"BenchmarkTuner/arm=[a-z]+/loop=(open|closed)", name)
        assert int(answered) > 0
        assert all(float(value) > 0 for value in pairs[::2])
    assert not any(HOSTILE in line for line in lines)


def test_options_need_their_format() -> None:
    """An option that would have no effect is refused; without --format there is no document."""
    assert document_choice(None, None, None, None) is None
    assert document_choice("csv", "trials", None, None) == DocumentChoice("csv", "trials")
    for given in (
        (None, "trials", None, None),
        ("json", "trials", None, None),
        ("csv", None, "tuned", None),
        (None, None, None, Path("x")),
    ):
        with pytest.raises(DefinitionError, match="needs --format"):
            document_choice(*given)
