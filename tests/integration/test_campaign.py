"""A few cases of the campaign on real servers, with the real generator.

Real time decides what most of these faults meet; what must hold afterwards holds in any case.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator

import pytest

from tests.campaign.cases import Case, Choice, cases
from tests.campaign.labs import Labs
from tests.campaign.machine import Campaign
from tests.campaign.scenarios import HERE
from tuner.testing.faults import FAULTS

pytestmark = [
    pytest.mark.integration,
    # Half a minute each, which is too long for every run but for one.
    pytest.mark.fleet,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a network namespace"),
    pytest.mark.skipif(shutil.which("nginx") is None, reason="no nginx on this machine"),
]
SEED = 22
NAMES = ("kill", "generator: SIGKILL", "server master: SIGKILL", "port taken")
CHOICE = Choice(HERE[:1], [FAULTS[name] for name in NAMES])


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Campaign, list[Case]]]:
    """Yield the campaign and its cases."""
    with Labs() as labs:
        campaign = Campaign(tmp_path_factory.mktemp("campaign"), labs)
        known = campaign.lengths(CHOICE.struck())
        yield campaign, list(cases(len(NAMES), SEED, known, CHOICE))


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(
            number,
            id=name.replace(" ", "-"),
            marks=[pytest.mark.every_run] if name == "server master: SIGKILL" else [],
        )
        for number, name in enumerate(NAMES)
    ],
)
def test_a_fault_on_a_real_nginx_breaks_nothing(
    number: int, played: tuple[Campaign, list[Case]]
) -> None:
    """No process, file or claim is left, and the command can be given again."""
    campaign, chosen = played
    outcome = campaign.play(chosen[number])
    assert not outcome.broken, json.dumps([outcome.case.words, *outcome.broken], indent=1)
