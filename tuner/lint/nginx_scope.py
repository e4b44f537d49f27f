"""Scope of directives: Nginx's blocks inherit from enclosing ones.

A directive of an inner block replaces the outer one of its name. A repeatable directive
(``proxy_set_header``) is inherited only if the inner block has none of that name.
https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_set_header
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tuner.own.nginx.tree import Directive, Tree


@dataclass(frozen=True, slots=True)
class ScopedDirective:
    """A directive with its enclosing blocks."""

    directive: Directive
    levels: tuple[tuple[Directive, ...], ...]
    """Directives of each enclosing block, outermost first; the last contains the directive."""

    def all_of(self, name: str) -> tuple[Directive, ...]:
        """Return the directives of a name in effect here, in order; empty without any."""
        for level in reversed(self.levels):
            found = tuple(one for one in level if one.name == name)
            if found:
                return found
        return ()

    def one(self, name: str) -> Directive | None:
        """Return the directive in effect here; None for the compiled-in default."""
        found = self.all_of(name)
        return found[-1] if found else None

    def has(self, name: str, *args: str) -> bool:
        """Return whether the directive in effect here has exactly these arguments."""
        found = self.one(name)
        return found is not None and found.args == args


def spots(tree: Tree, *names: str) -> Iterator[ScopedDirective]:
    """Yield all directives of these names, in any block."""
    yield from _spots((), tree.directives, names)


def inside(block: Directive, around: ScopedDirective, *names: str) -> Iterator[ScopedDirective]:
    """Yield the directives of these names below one block."""
    yield from _spots(around.levels, block.block or (), names)


def _spots(
    levels: tuple[tuple[Directive, ...], ...],
    directives: tuple[Directive, ...],
    names: tuple[str, ...],
) -> Iterator[ScopedDirective]:
    here = (*levels, directives)
    for directive in directives:
        if directive.name in names:
            yield ScopedDirective(directive, here)
        yield from _spots(here, directive.block or (), names) if directive.block else ()


def number(directive: Directive | None) -> int | None:
    """Return the only argument as an integer; None if it is not one."""
    if directive is None or len(directive.args) != 1 or not directive.args[0].isdigit():
        return None
    return int(directive.args[0])


def option(directive: Directive, name: str) -> str | None:
    """Return ``511`` of ``listen 80 backlog=511``; None without it."""
    for argument in directive.args:
        key, equals, value = argument.partition("=")
        if key == name and equals:
            return value
    return None
