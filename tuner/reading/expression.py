"""Arithmetic in definition files: ``2 * connections + 64``.

Bounds depend on the host (cores, memory) and on the workload. Python's own parser reads the text,
and only a short list of node types is evaluated, so a definition file from elsewhere can compute
a number and do nothing more.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping

from tuner.errors import quoted

Number = int | float

_BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
_FUNCTIONS: dict[str, Callable[..., Number]] = {"min": min, "max": max}
_ALLOWED = "allowed: numbers, + - * / //, parentheses, min(), max()"
_LONGEST = 200


class ExpressionError(ValueError):
    """A text that is not arithmetic, or that uses an unknown name."""


def evaluate(text: str, names: Mapping[str, Number]) -> Number:
    """Return the value of an expression.

    Args:
        text: arithmetic over numbers and ``names``.
        names: values of the names.

    Raises:
        ExpressionError: the text is not allowed; the message quotes the bad part.
    """
    try:
        value = _value(_parse(text), names)
    except (ZeroDivisionError, OverflowError) as error:
        raise ExpressionError(f"{quoted(text)}: {error}") from None
    if not math.isfinite(value):
        raise ExpressionError(f"{quoted(text)} is not a finite number")
    return value


def names_in(text: str) -> frozenset[str]:
    """Return the names in ``text``, without ``min`` and ``max``.

    Raises:
        ExpressionError: the text is not arithmetic.
    """
    names = {node.id for node in ast.walk(_parse(text)) if isinstance(node, ast.Name)}
    return frozenset(names - _FUNCTIONS.keys())


def _parse(text: str) -> ast.expr:
    # The parser's own recursion is bounded by the length.
    if len(text) > _LONGEST:
        raise ExpressionError(f"an expression has at most {_LONGEST} characters")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise ExpressionError(f"{quoted(text)} is not arithmetic; {_ALLOWED}") from None


def _value(node: ast.expr, names: Mapping[str, Number]) -> Number:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.Name(id=name):
            if name not in names:
                known = ", ".join(sorted(names)) or "none here"
                raise ExpressionError(f"unknown name {quoted(name)}; known: {known}")
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_value(left, names), _value(right, names))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if (
            name in _FUNCTIONS and len(args) >= 2
        ):
            return _FUNCTIONS[name](*(_value(arg, names) for arg in args))
        case _:
            raise ExpressionError(f"{quoted(ast.unparse(node))} is not allowed; {_ALLOWED}")
