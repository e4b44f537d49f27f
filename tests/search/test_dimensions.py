"""A space's parameters as Optuna's dimensions, there and back."""

from __future__ import annotations

import random

import optuna
import pytest

from tests.search.spaces import BUILT_IN, SMALL
from tuner.search.dimensions import dimensions_of, distances, suggest
from tuner.space.configuration import Configuration, Value
from tuner.space.space import Space
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
    """Each value of a drawn configuration lies in its dimension's domain."""
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
    """A parameter with a trade-off is a dimension only if it is allowed."""
    base = SMALL.baseline("stock")
    assert "cache" not in dimensions_of(SMALL, (), base)[0]
    assert "cache" in dimensions_of(SMALL, ("cache",), base)[0]


def test_a_configuration_of_the_users_own_may_lie_outside_the_range() -> None:
    """A value outside its range keeps its dimension; the domain does not contain it."""
    values, domains = dimensions_of(SMALL, (), Configuration.of(SMALL.name, {"size": 1}))
    assert not domains["size"]._contains(domains["size"].to_internal_repr(values["size"]))


def test_distances_are_by_parameter_on_the_scale_that_is_searched() -> None:
    """A special value, another choice and no value at all are as far as a range is long."""
    base = SMALL.baseline("stock")
    names = [parameter.name for parameter in SMALL.searched()]

    def apart(some: Configuration, other: Configuration) -> dict[str, float]:
        return dict(zip(names, distances(SMALL, (), [some], [other])[0, 0].tolist(), strict=True))

    def made(**values: Value) -> Configuration:
        return SMALL.complete(values, base)

    assert set(apart(base, base).values()) == {0.0}
    assert apart(base, made(size=4096))["size"] == pytest.approx(0.5), "512 is halfway"
    assert apart(base, made(mode="b"))["mode"] == 1.0
    off, one, most = made(fast=True), made(fast=True, boost=1), made(fast=True, boost=1000)
    assert apart(base, off)["boost"] == 1.0, "none and 0"
    assert apart(off, one)["boost"] == 1.0, "0 is not a number of the range"
    assert apart(one, most)["boost"] == pytest.approx(1.0)
    assert apart(one, made(fast=True, boost=32))["boost"] == pytest.approx(0.5, abs=0.01)
    assert distances(SMALL, (), [base, off], [base, off, one]).shape == (2, 3, len(names))
