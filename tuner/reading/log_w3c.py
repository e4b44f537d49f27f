"""Logs in the W3C extended format: CloudFront's, IIS's, and others with a line ``#Fields:``.

See https://www.w3.org/TR/WD-logfile.html and
https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/standard-logs-reference.html.
"""

from __future__ import annotations

from collections.abc import Callable

from tuner.reading.log_entry import LogEntry
from tuner.reading.log_fields import entry_builder

DIRECTIVE = "#"
"""First character of a line that is not a request."""
_FIELDS = "#Fields:"
_NAMES = {
    "cs-method": "request_method",
    "cs-uri": "request_uri",
    "cs-uri-stem": "uri",
    "cs-uri-query": "args",
    "sc-status": "status",
    "sc-content-len": "body_bytes_sent",
    "sc-bytes": "bytes_sent",
    "cs-bytes": "request_length",
    "cs-protocol": "scheme",
    "cs-protocol-version": "server_protocol",
    "cs-version": "server_protocol",
    "ssl-protocol": "ssl_protocol",
    "c-ip": "remote_addr",
    "c-port": "remote_port",
    "timestamp": "msec",
}


def w3c_reader(directive: str) -> Callable[[str], LogEntry | None] | None:
    """Return the reader of the lines below a directive ``#Fields:``; None for another directive.

    Raises:
        DefinitionError: the fields lack one that a request needs.
    """
    if not directive.startswith(_FIELDS):
        return None
    fields = directive.removeprefix(_FIELDS).split()
    names = [_NAMES.get(name, name) for name in fields]
    dated = "date" in fields and "time" in fields
    at_date, at_time = (fields.index(name) if dated else 0 for name in ("date", "time"))
    if dated:
        names[at_time] = "time_of_day"
        names.append("time_iso8601")
    build = entry_builder(names)
    count = len(fields)

    def read(line: str) -> LogEntry | None:
        # Values of CloudFront are separated by tabs, those of others by blanks.
        values = line.split("\t") if "\t" in line else line.split()
        if len(values) != count:
            return None
        if dated:
            values.append(f"{values[at_date]}T{values[at_time]}+00:00")
        return build(values)

    return read
