"""A search with nothing to change is refused before anything is measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.spaces import load_space
from tuner.app.check import check_search
from tuner.errors import DefinitionError
from tuner.space.space import Space


def without(space: Space, *, trades: bool) -> Space:
    """Return a space that searches nothing by itself, with or without its trade-offs."""
    return replace(
        space,
        parameters=tuple(
            found if trades and found.trades else replace(found, role="fixed")
            for found in space.parameters
        ),
    )


def test_the_parameters_that_may_be_allowed_are_named() -> None:
    """A Caddy in place has no others, because its environment stays unchanged."""
    space = without(load_space("caddy/static"), trades=True)
    with pytest.raises(
        DefinitionError,
        match=r"nothing is left to search in caddy/static; these have a trade-off, and are searched"
        r" if you allow them: .*encode_gzip_level",
    ):
        check_search(space, ())
    check_search(space, ("encode_gzip_level",))


def test_a_space_of_single_values_says_so() -> None:
    """There is nothing to allow."""
    with pytest.raises(DefinitionError, match="every parameter has one value here, or none"):
        check_search(without(load_space("caddy/static"), trades=False), ())
