"""A study is applied if its verdict is better, or if the user accepts its verdict by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.app.services import ablated_study, given, lab_study, own_study
from tuner.app.recommended import FORCEABLE
from tuner.errors import DefinitionError


def test_a_better_configuration_is_recommended() -> None:
    """The candidate, not the baseline."""
    found = given(own_study())
    assert found.chosen.digest == found.study.candidate
    assert found.claim.startswith("the study found p99 at 0.")
    assert found.statements() == [f"study mine: {found.study.sentence}"]


def test_after_an_ablation_only_what_keeps_the_gain_is_applied() -> None:
    """The user reads which changes are left out, and how to apply all, before confirming."""
    study = ablated_study()
    found = given(study)
    assert found.chosen.digest == study.recommended != study.candidate
    assert any(
        "a share in the gain was not shown: proxy_http_version; --candidate" in statement
        for statement in found.statements()
    )
    assert found.claim == "the ablation found p99 at 0.500 of the baseline's"
    every = given(study, candidate=True)
    assert every.chosen.digest == study.candidate
    assert not any("--candidate" in statement for statement in every.statements())


@pytest.mark.parametrize("outcome", FORCEABLE)
def test_any_other_verdict_is_refused_and_can_be_accepted_by_its_name(outcome: str) -> None:
    """The message names verdict, ratio and option; another name is refused as well."""
    with pytest.raises(DefinitionError, match=f"is {outcome} .ratio [0-9.]+, .*") as refused:
        given(lab_study(outcome))
    assert f"--force-verdict {outcome}" in str(refused.value)
    for other in set(FORCEABLE) - {outcome}:
        with pytest.raises(DefinitionError, match=f"is {outcome} .*, not {other}"):
            given(lab_study(outcome), other)
    found = given(lab_study(outcome), outcome)
    assert found.chosen.digest == found.study.candidate
    assert any("was not shown to be better" in statement for statement in found.statements())


def test_a_verdict_that_is_better_is_not_accepted_as_another() -> None:
    """A user who expected another verdict is looking at the wrong study."""
    with pytest.raises(DefinitionError, match=r"is better .*; remove the option"):
        given(lab_study(), "equivalent")


@pytest.mark.parametrize("accepted", [None, *FORCEABLE])
def test_a_study_without_a_verdict_is_never_applied(accepted: str | None) -> None:
    """Accepting a verdict by name does not help; the message names the command that resumes."""
    study = replace(lab_study(), verdict=None)
    with pytest.raises(DefinitionError, match=r"has no verdict.*tuner optimize --resume"):
        given(study, accepted)
