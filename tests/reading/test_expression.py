"""Bounds that are computed: arithmetic and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.reading.expression import ExpressionError, evaluate, names_in

FACTS = {"server_cores": 4, "connections": 32, "memory_bytes": 8 << 30}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("2 * server_cores", 8),
        ("2 * connections + 64", 128),
        ("(server_cores - 1) * 2", 6),
        ("memory_bytes // 1048576", 8192),
        ("connections / 64", 0.5),
        ("-server_cores", -4),
        ("min(server_cores, 2)", 2),
        ("max(1, server_cores // 8, 3)", 3),
    ],
)
def test_arithmetic_over_the_facts(text: str, value: float) -> None:
    """Every expression that docs/spaces.md promises can be evaluated."""
    assert evaluate(text, FACTS) == value


@pytest.mark.parametrize(
    "text",
    [
        "server_cores ** 9",
        "__import__('os')",
        "(1).real",
        "connections[0]",
        "[1][0]",
        "True",
        "'a' * 9",
        "open(1, 2)",
        "max(*[1, 2])",
        "max(1, key=2)",
        "max(1)",
        "1 if server_cores else 2",
        "lambda: 1",
        "1 < 2",
        "1 +",
        "",
        "a\x00",
        "(" * 150,
        "1" + " + 1" * 100,
    ],
)
def test_nothing_but_arithmetic(text: str) -> None:
    """A definition file from elsewhere can compute a number and do nothing more."""
    with pytest.raises(ExpressionError):
        evaluate(text, FACTS)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    """The message helps to write it right."""
    with pytest.raises(ExpressionError, match=r"unknown name 'cores'; known: connections, mem"):
        evaluate("2 * cores", FACTS)


@pytest.mark.parametrize("text", ["1 / 0", "1 // (server_cores - 4)", "1e308 * 10"])
def test_what_is_no_number_is_an_error(text: str) -> None:
    """Division by zero and overflow do not get through as exceptions of another kind."""
    with pytest.raises(ExpressionError):
        evaluate(text, FACTS)


def test_the_names_of_an_expression() -> None:
    """The functions are not names."""
    assert names_in("max(a, 2 * b) - min(a, 1)") == {"a", "b"}


@given(st.text(max_size=60))
def test_any_text_is_a_number_or_an_expression_error(text: str) -> None:
    """No input brings the evaluator down."""
    try:
        value = evaluate(text, FACTS)
    except ExpressionError:
        return
    assert isinstance(value, int | float)
