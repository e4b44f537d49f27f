"""A configuration is its values; its digest is its identity everywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.space.configuration import Configuration, Value

VALUES = st.dictionaries(
    st.text(min_size=1, max_size=8),
    st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    max_size=6,
)


@given(VALUES, st.randoms())
def test_the_order_of_the_values_does_not_matter(values: dict[str, Value], random: object) -> None:
    """The same choice is the same configuration, however it was written down."""
    names = list(values)
    random.shuffle(names)  # type: ignore[attr-defined]
    shuffled = {name: values[name] for name in names}
    assert Configuration.of("s", shuffled) == Configuration.of("s", values)
    assert Configuration.of("s", shuffled).digest == Configuration.of("s", values).digest


@given(VALUES)
def test_values_come_back_as_they_went_in(values: dict[str, Value]) -> None:
    """A configuration loses nothing, and what it hands out is a copy."""
    configuration = Configuration.of("s", values)
    assert configuration.values == values
    configuration.values["another"] = 1
    assert configuration.values == values


def test_the_digest_is_part_of_every_record_and_never_changes() -> None:
    """Records of earlier versions stay readable: the identity is a fixed function."""
    configuration = Configuration.of("nginx/static", {"sendfile": True, "backlog": 511})
    assert configuration.digest == "03fd065ba605"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"a": "1"}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": 0}, {}),
        ({"a": "é"}, {"a": "e"}),
    ],
)
def test_different_choices_have_different_digests(
    one: dict[str, Value], other: dict[str, Value]
) -> None:
    """True is not 1, and a parameter at zero is not one that is inactive."""
    assert Configuration.of("s", one).digest != Configuration.of("s", other).digest


def test_the_same_values_in_another_space_are_another_configuration() -> None:
    """The digest depends on the space, since a value's meaning does."""
    assert Configuration.of("s", {"a": 1}).digest != Configuration.of("t", {"a": 1}).digest


def test_differences_name_what_differs_with_both_values() -> None:
    """None stands for a parameter that is inactive on one side."""
    here = Configuration.of("s", {"same": 1, "other": 1, "gone": 0})
    there = Configuration.of("s", {"same": 1, "other": 2, "new": False})
    assert here.differences(there) == {
        "gone": (0, None),
        "new": (None, False),
        "other": (1, 2),
    }
