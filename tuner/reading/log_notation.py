"""Formats of access logs in the notations of Nginx and Apache.

A format is literal text with fields between (https://nginx.org/en/docs/http/ngx_http_log_module.html,
https://httpd.apache.org/docs/2.4/mod/mod_log_config.html). Apache's fields are translated to
Nginx's names, so one pattern reads both.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from tuner.errors import DefinitionError, quoted
from tuner.reading.log_entry import LogEntry
from tuner.reading.log_fields import WANTED, entry_builder

_NGINX = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_APACHE = re.compile(
    r"%(?:!?\d{3}(?:,\d{3})*)?[<>]?(?:\{(?P<of>[^}]*)\})?(?P<what>\^[A-Z]{2}|[a-zA-Z%])"
)
_APACHE_FIELDS = {
    "r": "request",
    "s": "status",
    "b": "body_bytes_sent",
    "B": "body_bytes_sent",
    "O": "bytes_sent",
    "I": "request_length",
    "m": "request_method",
    "U": "uri",
    "q": "args",
    "H": "server_protocol",
    "h": "remote_addr",
    "a": "remote_addr",
    "D": "request_time_us",
    "T": "request_time",
}
_APACHE_HEADERS = {"content-type": "http_content_type", "content-length": "http_content_length"}
_APACHE_TIMES = {"sec": "msec", "msec": "time_ms", "usec": "time_us"}
_NUMBERS = {
    **dict.fromkeys(("status",), r"\d{3}"),
    **dict.fromkeys(
        ("body_bytes_sent", "bytes_sent", "request_length", "content_length"), r"(?:\d+|-|)"
    ),
    **dict.fromkeys(("remote_port", "connection", "connection_requests"), r"(?:\d+|-|)"),
}
_LIST = re.compile(r"upstream_|http_x_forwarded_for$|proxy_add_x_forwarded_for$")
"""Names of values that hold several texts, separated by a comma or colon with a blank."""
_LISTED = r"[^ ,]*(?:(?:, ?| : )[^ ,]+)*"
_FREE = {"remote_user", "http_user_agent", "http_referer"}
"""Names of values that may hold blanks although nothing quotes them."""
_BEFORE_STATUS = r"(?=\d{3})"
_JSON_TEXT = msgspec.json.Decoder(str)

FormatPart = tuple[str, str]
"""A literal text ("", text), or a field (name, "")."""


@dataclass(frozen=True, slots=True)
class LineFormat:
    """The format of a log's lines."""

    name: str
    """Name for messages: ``combined``, ``--format``, ``log_format main``."""
    parts: tuple[FormatPart, ...]
    json_escaped: bool = False
    """True for ``escape=json`` of Nginx."""

    @property
    def fields(self) -> list[str]:
        """Names of the fields, in their order."""
        return [name for name, _ in self.parts if name]


def nginx_format(name: str, text: str, *, json_escaped: bool = False) -> LineFormat:
    """Return the format of a text in Nginx's notation."""
    parts: list[FormatPart] = []
    at = 0
    for found in _NGINX.finditer(text):
        parts += [("", text[at : found.start()]), (found[1] or found[2], "")]
        at = found.end()
    parts.append(("", text[at:]))
    return LineFormat(name, tuple(part for part in parts if any(part)), json_escaped)


def apache_format(name: str, text: str) -> LineFormat:
    """Return the format of a text in Apache's notation, with its quotes escaped or not."""
    text = text.replace('\\"', '"').replace("\\t", "\t")
    parts: list[FormatPart] = []
    at = 0
    for found in _APACHE.finditer(text):
        parts += [("", text[at : found.start()]), *_apache_field(found["what"], found["of"])]
        at = found.end()
    parts.append(("", text[at:]))
    return LineFormat(name, tuple(part for part in parts if any(part)))


def _apache_field(what: str, of: str | None) -> list[FormatPart]:
    if what == "%":
        return [("", "%")]
    if what == "t" and of is None:
        return [("", "["), ("time_local", ""), ("", "]")]
    if what == "t" and of in _APACHE_TIMES:
        return [(_APACHE_TIMES[of], "")]
    if what == "p" and of == "remote":
        return [("remote_port", "")]
    if what == "i" and of:
        return [(_APACHE_HEADERS.get(of.lower(), "http_other"), "")]
    if what == "x" and of and of.upper() == "SSL_PROTOCOL":
        return [("ssl_protocol", "")]
    if of is not None:
        return [("http_other", "")]
    return [(_APACHE_FIELDS.get(what, f"apache_{what.strip('^')}"), "")]


def given_format(text: str) -> LineFormat:
    """Return the format that a user gives: in either notation, or a line that defines one.

    Raises:
        DefinitionError: it holds no field, or lacks one that a request needs.
    """
    text = text.strip()
    name = "--format"
    if text.startswith("log_format "):
        # Imported here because configurations are not part of logs.
        from tuner.reading.nginx_text import statements

        words = next((found.words for found in statements(text.rstrip(";") + ";")), ())
        made = log_format(words[1:])
    elif text.startswith("LogFormat "):
        made = apache_format(name, re.sub(r'^LogFormat\s+"(.*)".*$', r"\1", text, flags=re.DOTALL))
    elif _NGINX.search(text):
        made = nginx_format(name, text)
    else:
        made = apache_format(name, text)
    if not made.fields:
        raise DefinitionError(
            f"{quoted(text[:80])} has no fields; give Nginx's notation ('$remote_addr - ...') or"
            " Apache's ('%h %l ...')",
            path="--format",
        )
    try:
        entry_builder(made.fields)
    except DefinitionError as error:
        raise DefinitionError(error.message, path="--format") from None
    return made


def log_format(arguments: Sequence[str]) -> LineFormat:
    """Return the format of the arguments of Nginx's directive ``log_format``."""
    name, *texts = arguments or ("",)
    escape = next((text for text in texts if text.startswith("escape=")), "")
    return nginx_format(
        f"log_format {name}",
        "".join(text for text in texts if not text.startswith("escape=")),
        json_escaped=escape == "escape=json",
    )


def pattern_of(parts: Sequence[FormatPart], *, capture: bool = True) -> str:
    """Return the regular expression of a format's parts."""
    written: list[str] = []
    captured: set[str] = set()
    for place, (name, text) in enumerate(parts):
        if not name:
            written.append(re.escape(text))
            continue
        rest = parts[place + 1 :]
        before_status = bool(rest) and rest[0][0] == "status"
        literal = next((text for _, text in rest if text), "")
        value = _value(name, literal, before_status=before_status)
        if capture and name in WANTED and name not in captured:
            captured.add(name)
            value = f"({value})"
        written.append(value)
    return "".join(written)


def _value(name: str, literal: str, *, before_status: bool) -> str:
    """Return the expression of a field.

    It is an atomic group, which gives nothing back, so that a hostile line takes linear time. Of
    fields without a text between them the first has all, except for the digits of a status.

    Args:
        name: name of the field.
        literal: the next literal text of the format; empty if there is none.
        before_status: whether a status follows directly.
    """
    return f"(?>{_text(name, literal)}{_BEFORE_STATUS if before_status else ''})"


def _text(name: str, literal: str) -> str:
    end = literal[:1]
    if name in _NUMBERS:
        return _NUMBERS[name]
    if end == '"':
        return r'[^"\\]*(?:\\.[^"\\]*)*'
    if not end:
        return r"\S*"
    if _LIST.match(name) and end == " " and not literal.startswith(" : "):
        return _LISTED
    if name in _FREE and len(literal) > 1:
        return f"(?:(?!{re.escape(literal)}).)*"
    return f"[^{re.escape(end)}]*"


def line_reader(of: LineFormat) -> Callable[[str], LogEntry | None]:
    """Return a reader of lines; it returns None for a line of another format.

    The reader raises ValueError if a line has the format and is not a request.

    Raises:
        DefinitionError: the format lacks a field that a request needs.
    """
    names = list(dict.fromkeys(name for name in of.fields if name in WANTED))
    build = entry_builder(names)
    match = re.compile(pattern_of(of.parts)).match
    escaped = of.json_escaped

    def read(line: str) -> LogEntry | None:
        found = match(line)
        if found is None:
            return None
        values = found.groups()
        if escaped and "\\" in line:
            values = tuple(map(_unescaped, values))
        return build(values)

    return read


def _unescaped(text: str) -> str:
    try:
        return _JSON_TEXT.decode(f'"{text}"') if "\\" in text else text
    except msgspec.DecodeError:
        return text


def understood(of: LineFormat, line: str) -> tuple[list[str], str]:
    """Return the fields of a line up to where it leaves the format, and what is missing there."""

    def leaves(length: int) -> bool:
        return not re.match(pattern_of(of.parts[:length], capture=False), line)

    # A line that has the first parts of a format has fewer of them too.
    known = bisect_left(range(1, len(of.parts) + 1), x=True, key=leaves)
    name, text = of.parts[known] if known < len(of.parts) else ("", "")
    seen = [found for found, _ in of.parts[:known] if found]
    return seen, f"${name}" if name else quoted(text) if text else ""
