"""Each setting that a finding offers to measure can be measured."""

from __future__ import annotations

import pytest

from tests.spaces import load_space
from tuner.lint import caddy_rules, nginx_rules
from tuner.lint.check import RULES
from tuner.lint.finding import Measurable

NAMES = {
    "nginx": {rule.id for rule in nginx_rules.RULES},
    "caddy": {rule.id for rule in caddy_rules.RULES},
}


@pytest.mark.parametrize(
    ("server", "rule", "found"),
    [
        (server, rule, found)
        for server, rules in RULES.items()
        for rule, found in rules.measurable.items()
    ],
)
def test_a_study_can_search_it(server: str, rule: str, found: Measurable) -> None:
    """A rule's parameter is searched in the proxy's space, with ``--allow`` if it is a trade."""
    assert rule in NAMES[server]
    parameter = load_space(f"{server}/proxy").parameter(found.name)
    assert parameter.searchable
    assert bool(parameter.trades) is found.trade
