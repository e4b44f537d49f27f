"""A finished or unfinished study as plain, frozen data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tuner.api.frame import Frame
from tuner.app.matches import open_match, verdicts_on_last
from tuner.app.session import open_record
from tuner.judge.results import StudyResult, evaluate
from tuner.record.check import reading
from tuner.report import tidy
from tuner.space.configuration import Value


@dataclass(frozen=True, slots=True)
class StudyVerdict:
    """The verdict on a study's tuned configuration, or on B of a comparison."""

    kind: str
    """``better``, ``worse``, ``equivalent``, ``inconclusive`` or ``violated``."""
    sentence: str
    """The verdict in words."""
    ratio: float
    """Figure of the tuned configuration / figure of the baseline, in the typical block."""
    low: float
    """Lower end of the interval of the ratio; 0 if it is not bounded."""
    high: float
    """Upper end of the interval; infinity if it is not bounded."""
    confidence: float
    """Confidence of the interval, such as 0.95."""
    p_value: float
    """Two-sided p of no difference."""
    blocks: int
    """Number of blocks."""
    margin: float
    """Smallest difference worth having, as a share."""


@dataclass(frozen=True, slots=True)
class StudyConfiguration:
    """A configuration of a study."""

    digest: str
    """Hash of its values, 12 hex digits."""
    file_name: str
    """Name of the file, such as ``nginx.conf``."""
    text: str
    """The server's own configuration file."""
    values: Mapping[str, Value]
    """Values by parameter."""


@dataclass(frozen=True)
class Study:
    """A study, as its record has it."""

    _result: StudyResult

    @property
    def name(self) -> str:
        """Name of the study."""
        return self._result.record.name

    @property
    def definition(self) -> Mapping[str, object]:
        """Every option of the study with its value, by the keys of a study file."""
        return dict(self._result.record.definition)

    @property
    def objective(self) -> str:
        """Compared figure, in words; the first of two."""
        return self._result.objective.words

    @property
    def status(self) -> str:
        """State of the study, such as ``confirmed`` or ``incomplete``."""
        return str(self._result.status)

    @property
    def sentence(self) -> str:
        """The outcome in one sentence: the verdict, or the reason why there is none."""
        return self._result.sentence

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of the study's report."""
        return self._result.warnings

    @property
    def verdict(self) -> StudyVerdict | None:
        """Verdict on the tuned configuration, or on B; None before the confirmation ends."""
        verdicts = verdicts_on_last(self._result)
        if len(verdicts) != 1:
            return None
        (found,) = verdicts
        estimate = found.estimate
        return StudyVerdict(
            kind=str(found.kind),
            sentence=found.sentence,
            ratio=estimate.ratio,
            low=estimate.low,
            high=estimate.high,
            confidence=estimate.confidence,
            p_value=estimate.p_value,
            blocks=estimate.n,
            margin=found.margin.share,
        )

    @property
    def baseline(self) -> StudyConfiguration | None:
        """Configuration that all others are compared with; None if the record lacks it."""
        return self._configuration(self._result.record.baseline)

    @property
    def tuned(self) -> StudyConfiguration | None:
        """Confirmed configuration, or the best one of the search so far; None without one."""
        return self._configuration(self._result.candidate)

    @property
    def recommended(self) -> StudyConfiguration | None:
        """Configuration that the study recommends; the baseline if none is shown to be better."""
        return self._configuration(self._result.recommended)

    @cached_property
    def windows(self) -> Frame:
        """All windows, valid or not, in the order of measurement."""
        return Frame(tidy.windows(self._result.record))

    @cached_property
    def blocks(self) -> Frame:
        """All arms of all blocks, in order of time."""
        return Frame(tidy.blocks(self._result.record))

    @cached_property
    def trials(self) -> Frame:
        """All trials of the search, with a column for each parameter."""
        return Frame(tidy.trials(self._result.record))

    def __repr__(self) -> str:
        """Return the name and the outcome."""
        return f"<Study {self.name}: {self.sentence}>"

    def _configuration(self, digest: str | None) -> StudyConfiguration | None:
        kept = self._result.record.configurations.get(digest or "")
        if kept is None:
            return None
        return StudyConfiguration(kept.digest, kept.file_name, kept.text, dict(kept.values))


def load(name: str | Path, *, storage: str | None = None) -> Study:
    """Return a study by name, or from an exported record.

    A comparison of servers is a study too.

    Args:
        name: name of a study in ``studies/`` of the current folder, or the path of a
            ``record.json.gz``.
        storage: URL of its Optuna storage; None for SQLite in the study's folder.

    Raises:
        DefinitionError: there is none of this name.
        StoreError: the record cannot be read.
    """
    record = open_match(str(name)) if storage is None else None
    record = record or open_record(str(name), storage)
    with reading(f"the record of {record.name!r}"):
        return Study(evaluate(record))
