"""Syntax of a server's configuration: how values are written and quoted.

A template says where a value stands; the syntax says how it is written there, so that no value
and no path can end a directive and begin another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tuner.errors import DefinitionError
from tuner.reading.nginx_text import statements
from tuner.reading.statement import Statement
from tuner.space.configuration import Value
from tuner.space.parameter import Parameter

_NGINX_PLAIN = re.compile(r"[A-Za-z0-9_./:=,+@%*-]+")


@dataclass(frozen=True, slots=True)
class Syntax:
    """One server's language."""

    server: str
    """Name of the server, as in the ``server`` of a space."""
    suffix: str
    """Suffix of the templates: ``conf`` for ``templates/nginx/static.conf.j2``."""
    quote: Callable[[object], str]
    """One value as one token. Raises DefinitionError for what cannot be written."""
    write: Callable[[Parameter, Value], str]
    """A parameter's value with its unit, before quoting: ``64k``, ``75s``."""
    read: Callable[[str], Iterable[Statement]]
    """Reader of a file's statements; raises DefinitionError for text it does not understand."""
    environment: tuple[str, ...] = ()
    """Parameters that no file holds: variables of the process, of the same name in capitals."""


def quote_nginx(value: object) -> str:
    r"""Write one value as one token of Nginx's configuration.

    Only plain characters stay bare. All else goes between double quotes, where Nginx's reader
    knows two escapes that matter, ``\"`` and ``\\`` (ngx_conf_read_token).

    Raises:
        DefinitionError: a dollar sign would begin a variable, for which there is no escape; a
            control character has no business in a value.
    """
    text = plain_text(value)
    if _NGINX_PLAIN.fullmatch(text):
        return text
    if "$" in text:
        raise DefinitionError(f"{value!r} holds '$', which Nginx would take for a variable")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def plain_text(value: object, *, on: str = "on", off: str = "off") -> str:
    """Return a value as text, not yet quoted: switches by their words, numbers as they are.

    Raises:
        DefinitionError: it holds a control character, or is not a value at all.
    """
    match value:
        case bool():
            return on if value else off
        case int():
            return str(value)
        case float() if value - value == 0:
            return repr(value)
        case str() if any(not char.isprintable() for char in value):
            raise DefinitionError(f"{value!r} holds a control character")
        case str():
            return value
        case _:
            raise DefinitionError(f"{value!r} cannot be written into a configuration")


NGINX = Syntax("nginx", "conf", quote_nginx, Parameter.format, statements)
