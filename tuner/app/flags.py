"""Flags that a command keeps in its context, for the application below it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])


def kept_flag(name: str, help_text: str) -> Callable[[_F], _F]:
    """Return a decorator that adds a flag to a command, without an argument of its function.

    Args:
        name: of the flag, such as ``--wait``.
        help_text: what the flag does.
    """

    def keep(context: click.Context, _parameter: click.Parameter, value: object) -> None:
        context.meta[_key(name)] = value

    return click.option(name, is_flag=True, expose_value=False, callback=keep, help=help_text)


def is_given(name: str) -> bool:
    """Return whether the running command was given a flag; False where it has none of the name."""
    return bool(click.get_current_context().meta.get(_key(name), False))


def _key(name: str) -> str:
    return f"tuner.flag{name}"
