"""A space's parameters as Optuna's dimensions, there and back."""

from __future__ import annotations

import random

import optuna
import pytest

from tests.search.spaces import BUILT_IN, SMALL
from tuner.configuration import Configuration
from tuner.search.dimensions import dimensions_of, suggest
from tuner.space import Space
from tuner.testing.draw import draw_configuration

SPACES = pytest.mark.parametrize("space", [SMALL, *BUILT_IN], ids=lambda s: s.name)


@SPACES
def test_a_proposal_is_found_again_from_its_dimensions(space: Space) -> None:
    """Fixed to the values of a configuration, a sampler proposes exactly that configuration."""
    rng = random.Random(1)
    base = space.baseline("stock")
    study = optuna.create_study()
    for _ in range(50):
        wanted = draw_configuration(rng, space, base)
        values, _ = dimensions_of(space, (), wanted)
        study.enqueue_trial(values)
        assert suggest(study.ask(), space, (), base) == wanted


@SPACES
def test_every_dimension_holds_its_value(space: Space) -> None:
    """What is told to Optuna lies in the domain that goes with it."""
    rng = random.Random(2)
    base = space.baseline("stock")
    for _ in range(50):
        values, domains = dimensions_of(space, (), draw_configuration(rng, space, base))
        assert values.keys() == domains.keys()
        for name, domain in domains.items():
            assert domain._contains(domain.to_internal_repr(values[name])), name


def test_a_parameter_without_effect_has_no_dimension() -> None:
    """``boost`` exists only where ``fast`` is on."""
    slow, fast = SMALL.baseline("stock"), SMALL.baseline("hand")
    assert not any(name.startswith("boost") for name in dimensions_of(SMALL, (), slow)[0])
    assert any(name.startswith("boost") for name in dimensions_of(SMALL, (), fast)[0])


def test_a_special_value_is_a_choice_of_its_own() -> None:
    """Zero is not the neighbour of one: special or range, then the number, if any."""
    special = SMALL.complete({"fast": True, "boost": 0}, SMALL.baseline("stock"))
    ranged = SMALL.complete({"fast": True, "boost": 37}, SMALL.baseline("stock"))
    values, _ = dimensions_of(SMALL, (), special)
    assert (values["boost kind"], "boost" in values) == (0, False)
    values, domains = dimensions_of(SMALL, (), ranged)
    assert (values["boost kind"], values["boost"]) == ("in range", 37)
    assert domains["boost"].to_internal_repr(1) == 1


def test_what_trades_something_is_no_dimension_unless_allowed() -> None:
    """Neither proposed nor told."""
    base = SMALL.baseline("stock")
    assert "cache" not in dimensions_of(SMALL, (), base)[0]
    assert "cache" in dimensions_of(SMALL, ("cache",), base)[0]


def test_a_configuration_of_the_users_own_may_lie_outside_the_range() -> None:
    """Its dimensions are said as they are; whoever tells Optuna leaves them out."""
    values, domains = dimensions_of(SMALL, (), Configuration.of(SMALL.name, {"size": 1}))
    assert not domains["size"]._contains(domains["size"].to_internal_repr(values["size"]))
