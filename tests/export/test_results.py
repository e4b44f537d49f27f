"""A study's results as a folder that is kept."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.app.services import ablated_study
from tuner.export.configuration import archived, choose
from tuner.export.results import write_results
from tuner.judge.results import evaluate
from tuner.record.file import read_record
from tuner.testing.sample_record import sample_record


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a better study."""
    folder = tmp_path_factory.mktemp("kept")
    write_results([evaluate(sample_record("better"))], folder)
    return folder


def test_the_page_shows_charts_that_are_there(kept: Path) -> None:
    """The page has the verdict, then the ratio's chart; every chart that it names exists."""
    text = (kept / "report.md").read_text(encoding="utf-8")
    assert text.startswith("# proxy-p99\n\n**Better: p99 is ")
    named = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert named[0] == "charts/effect.svg"
    drawn = {f"charts/{path.name}" for path in (kept / "charts").iterdir()}
    assert set(named) == drawn
    assert len(named) == len(drawn)
    assert all(path.suffix == ".svg" for path in (kept / "charts").iterdir())
    assert max(path.stat().st_size for path in (kept / "charts").iterdir()) < 100_000


def test_configurations_and_record_are_kept(kept: Path) -> None:
    """The files to use, their values and the study's record are kept, in less than 2 MB."""
    assert {path.name for path in (kept / "tuned").iterdir()} == {
        "nginx.conf",
        "configuration.yaml",
        "nginx.yml",
    }
    assert not (kept / "best").exists()
    assert evaluate(read_record(kept / "record.json.gz")).sentence.startswith("Better: ")
    assert sum(path.stat().st_size for path in kept.rglob("*") if path.is_file()) < 2_000_000


def test_what_an_ablation_recommends_is_kept_too() -> None:
    """The claim is about the tuned configuration; the smaller one is the one to use."""
    study = ablated_study()
    assert set(archived(study)) == {"tuned", "best"}
    found = {}
    for folder, candidate in archived(study).items():
        chosen = choose(study, candidate=candidate)
        assert chosen is not None
        found[folder] = chosen.digest
    assert found == {"tuned": study.candidate, "best": study.recommended}
