"""The content of a report in any form, of a study or of a run's contests.

The headline comes first, then the results, which carry the verdicts; the page shows whichever
further parts have data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.judge.results import StudyResult
from tuner.report.contest_sections import case_sections, common_sections
from tuner.report.embed import Spec
from tuner.report.facts import servers_in_words
from tuner.report.section import Section
from tuner.report.study_sections import study_sections
from tuner.words.figures import moment

_CONTEST_DETAIL = (
    "All configurations side by side in randomised blocks; any two are compared by an exact paired"
    " test, and all claims of a case are one family (Holm). A verdict holds for this host, load and"
    " rate."
)


@dataclass(frozen=True, slots=True)
class ReportView:
    """A report before it takes a form."""

    study: StudyResult
    """The study; of a run the first contest, which stands for the host and the method."""
    name: str
    """Title of the page."""
    where: str
    """Subject, server, host and time."""
    kind: str
    """The verdict in one word; empty for contests, which have one for each claim."""
    headline: str
    """The outcome in one sentence, without ``kind``."""
    details: tuple[str, ...]
    """Sentences below the headline."""
    results: tuple[Section, ...]
    """Sections that carry verdicts."""
    further: tuple[Section, ...]
    """Sections that explain them."""
    warnings: tuple[str, ...]

    @property
    def command_name(self) -> str:
        """Name in commands: the study's, or the run's of a contest."""
        name = self.study.record.name
        return name.rpartition(".")[0] or name if self.study.contest else name

    @property
    def title(self) -> str:
        """Title of the browser's window."""
        return f"{self.name}: {self.kind}" if self.kind else self.name


def view_of(
    studies: Sequence[StudyResult],
    specs: Mapping[str, Spec] | None = None,
    further: Sequence[Section] = (),
) -> ReportView:
    """Return the view of a report.

    Args:
        studies: a study, or a run's contests.
        specs: charts by the ids of their places in the page; the view has none without.
        further: further sections.
    """
    study = studies[0]
    contests = [each.contest for each in studies if each.contest is not None]
    record = study.record
    if contests:
        first, host = contests[0].contest, record.host
        machine = f"{host.hostname} ({host.cpu_model}, {len(host.cpus)} cores)"
        return ReportView(
            study=study,
            name=first.title,
            where=(
                f"{servers_in_words(record)} on {machine}, {moment(record.started_unix_s)},"
                f" tuner {record.tuner_version}"
            ),
            kind="",
            headline=first.summary,
            details=(_CONTEST_DETAIL,),
            results=tuple(case_sections(contests, specs or {})),
            further=(*common_sections(contests), *further),
            warnings=tuple(dict.fromkeys(text for each in contests for text in each.warnings)),
        )
    kind, _, statement = study.sentence.partition(": ")
    # The figures in brackets follow in smaller type.
    headline, bracket, detail = statement.partition(" (ratio ")
    details = [f"Ratio {detail.replace(')', '', 1)}"] if bracket else []
    details += [study.replication.sentence] if study.replication else []
    return ReportView(
        study=study,
        name=record.name,
        where=(
            f"{study.goals.words} of {servers_in_words(record)} on {record.host.hostname},"
            f" {moment(record.started_unix_s)}"
        ),
        kind=kind,
        headline=headline,
        details=tuple(details),
        results=tuple(study_sections(study)),
        further=tuple(further),
        warnings=study.warnings,
    )
