"""Access logs: the recognition of their format, line by line.

A reader knows the combined format of Apache and Nginx with any further fields, JSON lines of Nginx
and Caddy, Caddy's console format, the W3C extended format (CloudFront), load balancers of AWS, and
the formats of Discourse and ingress-nginx. Other formats are given in their own notation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tuner.errors import DefinitionError
from tuner.reading import log_w3c
from tuner.reading.log_entry import LogEntry
from tuner.reading.log_json import json_keys, read_console, read_json
from tuner.reading.log_notation import LineFormat, line_reader, nginx_format, understood
from tuner.reading.printable import printable
from tuner.reading.redaction import redact_line

_SHOWN_CHARACTERS = 200
_LONGEST_LINE = 1 << 15
"""Longest line that is compared with a format, characters."""

_AWS = (
    "$request_processing_time $upstream_response_time $response_processing_time"
    ' $status $target_status $request_length $bytes_sent "$request"'
)
COMBINED = nginx_format(
    "combined",
    '$remote_addr $ident $remote_user [$time_local] "$request" $status $body_bytes_sent',
)
KNOWN = (
    # https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-access-logs.html
    nginx_format(
        "Application Load Balancer",
        f'$scheme $time_iso8601 $elb $remote_addr:$remote_port $target {_AWS} "$http_user_agent"',
    ),
    # https://docs.aws.amazon.com/elasticloadbalancing/latest/classic/access-log-collection.html
    nginx_format(
        "Classic Load Balancer", f"$time_iso8601 $elb $remote_addr:$remote_port $backend {_AWS}"
    ),
    # https://github.com/discourse/discourse/blob/main/config/nginx.sample.conf
    nginx_format(
        "Discourse",
        '[$time_local] "$http_host" $remote_addr "$request" "$http_user_agent" "$route" $status'
        ' $bytes_sent "$http_referer" $upstream_response_time $request_time',
    ),
    # https://kubernetes.github.io/ingress-nginx/user-guide/nginx-configuration/log-format/
    nginx_format(
        "ingress-nginx",
        '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent'
        ' "$http_referer" "$http_user_agent" $request_length $request_time'
        " [$proxy_upstream_name] [$proxy_alternative_upstream_name] $upstream_addr"
        " $upstream_response_length $upstream_response_time $upstream_status",
    ),
    COMBINED,
)
"""Formats that are recognised, those with more fields first."""
_NAMES = (
    "the combined format, JSON lines (Nginx, Caddy), Caddy's console, W3C extended with #Fields:,"
    " AWS load balancers, Discourse, ingress-nginx"
)

_W3C = "W3C extended format"
_FACTS = {
    "a time": re.compile(
        r"\d{1,2}/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d|\d{4}-\d\d-\d\d[T ]\d\d:\d\d"
    ),
    "a method": re.compile(r"\b(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)\b"),
    "a protocol": re.compile(r"\bHTTP/\d(?:\.\d)?\b"),
    "a status": re.compile(r"(?<![\d.:/-])[1-5]\d\d(?![\d.:/-])"),
}

_Reader = tuple[str, Callable[[str], LogEntry | None]]
"""Name of a format, and the reader of its lines."""


class LogReader:
    """A reader of the lines of one log, which recognises their format.

    The format of the last line is tried first; if a line has another one, all are tried.

    Args:
        formats: formats to try before the known ones; formats that lack a field are left out.
        only: True to try no other formats.
    """

    def __init__(self, formats: Sequence[LineFormat] = (), *, only: bool = False) -> None:
        self._given = tuple(formats)
        self._only = only
        self.used: list[str] = []
        """Names of the formats that lines had."""
        given = [pair for found in formats if (pair := _reader(found)) is not None]
        self._readers: list[_Reader] = [*given] if only else [*given, *_KNOWN_READERS]
        self._current = self._readers[0][1]

    def read(self, line: str) -> LogEntry | None:
        """Return the entry of a line; None for a directive of the W3C format.

        Raises:
            ValueError: the line has no known format, or is not a request; the message names what
                is missing and quotes nothing, because the line may hold a secret.
        """
        if len(line) > _LONGEST_LINE:
            raise ValueError(f"a line of {len(line):,} characters")
        if line.startswith(log_w3c.DIRECTIVE) and not self._only:
            self._follow(line)
            return None
        entry = self._current(line) if self.used else None
        return entry if entry is not None else self._recognise(line)

    def _follow(self, directive: str) -> None:
        try:
            reader = log_w3c.w3c_reader(directive)
        except DefinitionError as error:
            raise ValueError(error.message) from None
        if reader is not None:
            self._readers.insert(0, (_W3C, reader))
            self._current = reader

    def _recognise(self, line: str) -> LogEntry:
        for name, reader in self._readers:
            entry = reader(line)
            if entry is not None:
                self._current = reader
                if name not in self.used:
                    self.used.append(name)
                return entry
        raise ValueError("not in the given format" if self._only else "not in a known format")

    def refusal(self, line: str) -> str:
        """Return a line of a refused log and what was understood of it, for a message.

        Query values and likely secrets are replaced in it.
        """
        more = " ..." if len(line) > _SHOWN_CHARACTERS else ""
        line = line[:_LONGEST_LINE]
        shown = printable(redact_line(line[:_SHOWN_CHARACTERS]))
        parts = [f"    {shown}{more}"]
        for one in self._given:
            seen, expected = understood(one, line)
            fields = ", ".join(f"${field}" for field in seen) or "nothing"
            parts.append(
                f"{one.name}: understood {fields}" + f"; expected {expected}" * bool(expected)
            )
        if self._only:
            parts.append("correct --format, or leave it out to recognise the format")
            return "\n".join(parts)
        found = _recognisable(line)
        if found:
            parts.append(f"understood: {', '.join(found)}")
        else:
            parts.append("understood: nothing")
        parts += [
            f"known formats: {_NAMES}",
            (
                "for another one add --format '$remote_addr ...' (Nginx's or Apache's notation), or"
                " --config /etc/nginx/nginx.conf with its log_format"
            ),
        ]
        return "\n".join(parts)


def _recognisable(line: str) -> list[str]:
    """Return the names of the facts that a line of unknown format shows."""
    if line.startswith("{"):
        try:
            return [f"the key {printable(name)!r}" for name in json_keys(line)]
        except ValueError as error:
            return [str(error)]
    return [f"{name} {found[0]}" for name, facts in _FACTS.items() if (found := facts.search(line))]


def parse_line(line: str) -> LogEntry:
    """Read one line of a format that is recognised without a definition.

    Raises:
        ValueError: as for ``LogReader.read``.
    """
    entry = LogReader().read(line)
    if entry is None:
        raise ValueError("a directive")
    return entry


def begins_log(line: str) -> bool:
    """Return whether a file with this first line is an access log."""
    if line.startswith(("#Fields:", "#Version:", "#Software:")):
        return True
    try:
        parse_line(line)
    except ValueError:
        return False
    return True


def _reader(found: LineFormat) -> _Reader | None:
    try:
        return found.name, line_reader(found)
    except DefinitionError:
        return None


_KNOWN_READERS: tuple[_Reader, ...] = (
    ("JSON lines", read_json),
    ("Caddy's console format", read_console),
    *((found.name, line_reader(found)) for found in KNOWN),
)
