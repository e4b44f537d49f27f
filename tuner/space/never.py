"""Settings that are never searched, in any space.

A search over them finds "gains" that no server should have. ``--force NAME`` still enables one, and
the record notes it. Each server's list is stored with its spaces (``tuner.space.never_list``).
Entries about the host apply to all servers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from tuner.reading.statement import Statement
from tuner.space.never_list import never_list

_VARIABLE = re.compile(r"\$\{?(\w+)|\(\?P?<(\w+)>")
"""A variable that is read or set, or named in a regular expression."""
_HOST = "kernel"


def refusal(server: str, name: str) -> str:
    """Return why a setting is never searched; empty if it may be.

    Args:
        server: ``nginx``.
        name: name of a parameter or a directive (``NeverList.entry``).
    """
    for each in (server, _HOST):
        found = never_list(each).entry(name)
        if found is not None and not found.searched:
            return found.why
    return ""


def text_refusal(server: str, name: str) -> str:
    """Return why no searched value may reach a directive of a template; empty if one may.

    In addition to settings that are never searched, these are directives of which a parameter can
    set a part (``ssl_conf_command Options KTLS``), and those that include other text.
    """
    found = never_list(server).entry(name)
    return refusal(server, name) or (found.why if found else "")


def guarded(server: str, statements: Iterable[Statement]) -> list[tuple[str, Statement]]:
    """Return the statements that no searched value may change, in order.

    Returns:
        Statements of directives that are never searched, the content of their blocks, and the
        statements that set their variables; each with the directive's name.
    """
    every = list(statements)
    found: dict[int, tuple[str, Statement]] = {}
    for at, statement in enumerate(every):
        for words in (*statement.within, statement.words):
            name = words[0] if words else ""
            if text_refusal(server, name) and not _is_parameter(server, words, statement):
                found[at] = name, _without_options(server, statement)
                break
    readers = {**never_list(server).variables, **_read(server, found.values())}
    while readers:
        # A variable may be defined by other variables.
        more: dict[int, tuple[str, Statement]] = {}
        for at, statement in enumerate(every):
            asked = [readers[each] for each in _mentioned(statement) if each in readers]
            if asked and at not in found:
                more[at] = asked[0], statement
        found |= more
        readers = _read(server, more.values())
    return [found[at] for at in sorted(found)]


def reached(
    server: str, statements: Iterable[Statement], others: Iterable[Statement]
) -> tuple[str, ...]:
    """Return the protected directives that differ between two texts."""
    one, other = guarded(server, statements), guarded(server, others)
    apart = (Counter(one) - Counter(other)) + (Counter(other) - Counter(one))
    # If only the order differs, name the first one out of order.
    moved = [here for here, there in zip(one, other, strict=False) if here != there][:1]
    return tuple(sorted({name for name, _ in apart or moved}))


def _is_parameter(server: str, words: tuple[str, ...], statement: Statement) -> bool:
    """Return whether a directive sets only what parameters may set."""
    found = never_list(server).entry(words[0])
    if found is None:
        return False
    inside = (*statement.within, statement.words)
    return words[1:] in found.unless or any((block,) in inside for block in found.unless_inside)


def _without_options(server: str, statement: Statement) -> Statement:
    """Return a directive without options that parameters may set, such as a log's buffer."""
    found = never_list(server).entry(statement.name)
    if found is None or not found.options:
        return statement
    kept = tuple(word for word in statement.words if not word.startswith(found.options))
    return Statement(kept, statement.within)


def _read(server: str, found: Iterable[tuple[str, Statement]]) -> dict[str, str]:
    """Return the variables in some statements, with the directive that uses each."""
    if not never_list(server).has_variables:
        return {}
    return {each: name for name, statement in found for each in _mentioned(statement)}


def _mentioned(statement: Statement) -> Iterator[str]:
    """Yield variables that a statement or its enclosing blocks read or set."""
    for words in (*statement.within, statement.words):
        for found in _VARIABLE.finditer(" ".join(words[1:])):
            yield found[1] or found[2]


def names(server: str) -> Collection[str]:
    """Return all names on the list of one server."""
    every = (never_list(each).listed.items() for each in (server, _HOST))
    return tuple(sorted({name for found in every for name, it in found if not it.searched}))
