"""A record kept as one small file: the same report, less to keep."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tuner.errors import StoreError
from tuner.judge.results import evaluate
from tuner.measurement.core_wait import foreign_wait_s
from tuner.record import file
from tuner.record.file import read_record, write_record
from tuner.record.model import Record
from tuner.record.small import small
from tuner.report.markdown import render_markdown
from tuner.testing.sample_record import sample_record


@pytest.fixture(scope="module")
def record() -> Record:
    """A whole study."""
    return sample_record("better")


def test_the_same_report_comes_from_it(record: Record, tmp_path: Path) -> None:
    """Verdict, figures and spectra are what they were; the same record gives the same bytes."""
    path = tmp_path / "kept" / "record.json.gz"
    write_record(record, path)
    first = path.read_bytes()
    again = read_record(path)
    assert render_markdown(evaluate(again)) == render_markdown(evaluate(record))
    assert evaluate(again).spectra == evaluate(record).spectra
    write_record(record, path)
    assert path.read_bytes() == first
    assert len(first) < 1_000_000


def test_a_record_that_could_not_be_read_again_is_not_written(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A study of more than five hours; its database has no such limit."""
    monkeypatch.setattr(file, "MOST_VALUES", 1_000)
    path = tmp_path / "kept" / "record.json.gz"
    with pytest.raises(StoreError, match=r"too long .* 1,000 values .* record\.db"):
        write_record(record, path)
    assert not path.parent.exists()


def test_what_no_report_needs_is_left_out(record: Record) -> None:
    """Stalls and the search's histograms go, unless the objective is read from histograms."""
    kept = small(record)
    assert not any(window.generator_spans for block in kept.blocks for window in block.windows)
    search = [block for block in kept.blocks if block.phase == "search"]
    assert not any(window.stall_free.hdr for block in search for window in block.windows)
    odd = small(replace(record, definition={**record.definition, "objective": "p99.5"}))
    search = [block for block in odd.blocks if block.phase == "search"]
    assert all(window.stall_free.hdr for block in search for window in block.windows)


def test_a_wait_beyond_the_stalls_stays_the_same(record: Record) -> None:
    """Something else ran for 0.4 s of a second, 0.3 s of it as a known stall."""
    block = record.blocks[-1]
    first = block.windows[0]
    assert first.resources is not None
    assert first.resources.server is not None
    server = replace(first.resources.server, foreign_s=0.4)
    window = replace(
        first,
        steal_s=0.0,
        server_spans=((0, 300_000_000),),
        resources=replace(first.resources, server=server, backend=None, loaded_s=1.0),
    )
    assert foreign_wait_s(window) == pytest.approx(0.1)
    whole = replace(record, blocks=(replace(block, windows=(window,)),))
    (kept,) = small(whole).blocks[0].windows
    assert foreign_wait_s(kept) == foreign_wait_s(window)


def test_what_is_no_record_is_refused(tmp_path: Path) -> None:
    """A damaged file, another version, and a file that is not there, each by its name."""
    path = tmp_path / "record.json.gz"
    with pytest.raises(StoreError, match="not a readable record"):
        read_record(path)
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(StoreError, match=r"record\.json\.gz"):
        read_record(path)
    plain = tmp_path / "record.json"
    plain.write_text("{}", encoding="utf-8")
    with pytest.raises(StoreError, match="not a readable record"):
        read_record(plain)
