"""The configuration of a study for ``tuner apply``, with its claim."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.errors import DefinitionError
from tuner.export.configuration import choose
from tuner.judge.results import StudyResult
from tuner.judge.taken_apart import left_out, smaller_ratio
from tuner.record.model import ConfigurationRecord, Record
from tuner.space.kernel import is_kernels
from tuner.stats.verdict import Verdict, VerdictKind

FORCEABLE = tuple(kind.value for kind in VerdictKind if kind is not VerdictKind.BETTER)
"""Verdicts that ``--force-verdict`` may name."""


@dataclass(frozen=True, slots=True)
class Recommended:
    """The configuration of a study for hosts, with its verdict."""

    study: StudyResult
    name: str
    chosen: ConfigurationRecord
    """The configuration for the hosts."""
    baseline: ConfigurationRecord
    verdict: Verdict

    @property
    def record(self) -> Record:
        """Record of the study."""
        return self.study.record

    @property
    def is_own(self) -> bool:
        """True if the study tuned the user's files (``--config``, ``--in-place``)."""
        return bool(self.record.definition.get("config"))

    @property
    def claim(self) -> str:
        """The study's claim for the check of a host, in words."""
        gained = self.study.gained
        kept = smaller_ratio(self.study)
        if kept is not None and self.chosen.digest != self.study.candidate:
            return f"the ablation found {gained.text} at {kept:.3f} of the baseline's"
        verdicts = (each.verdict for each in self.study.objectives if each.objective == gained)
        found = next(verdicts, self.verdict).estimate
        return f"the study found {gained.text} at {found.ratio:.3f} of the baseline's"

    def statements(self) -> list[str]:
        """Return the statements that the user confirms, one sentence each.

        They include everything that needs consent before hosts are changed.
        """
        found = [f"study {self.name}: {self.study.sentence}"]
        if self.verdict.kind is not VerdictKind.BETTER:
            found.append(
                f"the verdict is {self.verdict.kind}: the configuration was not shown to be better"
            )
        if self.chosen.digest != self.study.candidate:
            found.append(
                f"not applied, because a share in the gain was not shown:"
                f" {', '.join(left_out(self.study))}; --candidate applies all changes"
            )
        if not self.is_own:
            found.append(
                "the study was made in the lab: each host keeps its own files, in which apply sets"
                " the changed settings"
            )
        kernel = sorted(name for name in self.chosen.kernel if is_kernels(name))
        if kernel:
            found.append(
                f"the gain was measured with changed kernel settings ({', '.join(kernel)});"
                f" apply does not change the kernel, `tuner export {self.name}` writes the file"
            )
        return found


def recommended(
    study: StudyResult, name: str, accepted: str | None = None, *, candidate: bool = False
) -> Recommended:
    """Return the recommended configuration of a study, if its verdict allows applying it.

    Args:
        study: the result.
        name: name of the study.
        accepted: accepted verdict instead of *better*; None for *better* only.
        candidate: whether to apply all changes, also those that an ablation left out.

    Raises:
        DefinitionError: the study has no verdict, or another one.
    """
    verdict = study.verdict
    if verdict is None:
        raise DefinitionError(
            f"{name!r} has no verdict, so nothing was shown to be better ({study.sentence});"
            f" resume it with `tuner optimize --resume --name {name}`, or begin a new study",
            path="NAME",
        )
    wanted = accepted or VerdictKind.BETTER.value
    if verdict.kind.value != wanted:
        found = verdict.estimate
        words = (
            f"the verdict of {name!r} is {verdict.kind} (ratio {found.ratio:.3f}, interval"
            f" {found.low:.3f} to {found.high:.3f})"
        )
        raise DefinitionError(_remedy(words, verdict.kind, accepted), path=_option(accepted))
    chosen = choose(study, candidate=candidate or accepted is not None)
    baseline = study.record.configurations.get(study.record.baseline)
    if chosen is None or baseline is None or study.candidate is None:
        raise DefinitionError(f"the record of {name!r} has no configuration", path="NAME")
    return Recommended(study, name, chosen, baseline, verdict)


def _option(accepted: str | None) -> str:
    return "--force-verdict" if accepted else "NAME"


def _remedy(words: str, kind: VerdictKind, accepted: str | None) -> str:
    if kind is VerdictKind.BETTER:
        return f"{words}, not {accepted}; remove the option"
    if accepted:
        return f"{words}, not {accepted}; name the verdict that you accept"
    return (
        f"{words}, and apply requires a configuration shown to be better; measure longer in a new"
        f" study (--time), or accept this verdict by name: --force-verdict {kind}"
    )
