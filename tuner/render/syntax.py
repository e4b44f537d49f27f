"""Syntax of a server's configuration: notation and quoting of values.

A template places a value, and the syntax formats it, so that no value and no path can end a
directive and begin another.
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
    """Suffix of templates: ``conf`` for ``templates/nginx/static.conf.j2``."""
    quote: Callable[[object], str]
    """Formats a value as one token; raises DefinitionError if that is impossible."""
    write: Callable[[Parameter, Value], str]
    """Formats a parameter's value with its unit, before quoting: ``64k``, ``75s``."""
    read: Callable[[str], Iterable[Statement]]
    """Parses a file into statements; raises DefinitionError for invalid text."""
    environment: tuple[str, ...] = ()
    """Parameters that are environment variables, with the same name in capitals."""


def quote_nginx(value: object) -> str:
    r"""Write one value as one token of Nginx's configuration.

    Plain characters need no quotes. Others are quoted with double quotes, where Nginx's reader
    has two relevant escapes, ``\"`` and ``\\`` (ngx_conf_read_token).

    Raises:
        DefinitionError: the value has a dollar sign, which begins a variable and has no escape, or
            a control character.
    """
    text = plain_text(value)
    if _NGINX_PLAIN.fullmatch(text):
        return text
    if "$" in text:
        raise DefinitionError(f"{value!r} holds '$', which Nginx would take for a variable")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def plain_text(value: object, *, on: str = "on", off: str = "off") -> str:
    """Return a value as unquoted text, with words for switches.

    Raises:
        DefinitionError: it has a control character, or is not a value.
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
