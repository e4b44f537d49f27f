"""The keys of a workload's file: one shape for the reader and for the JSON schema of editors."""

from __future__ import annotations

import re
from typing import Literal, get_args

from tuner.reading.shape import (
    AnyText,
    ByteSize,
    Decimal,
    Either,
    Entries,
    Keys,
    ListOf,
    OneWord,
    TimeSpan,
    Whole,
)
from tuner.workload.answers import ANSWER
from tuner.workload.arrivals import ARRIVAL
from tuner.workload.bodies import BODY
from tuner.workload.site import FILE_KINDS
from tuner.workload.wire import WIRE

Checked = Literal["sample", "all"]
CHECKED: tuple[Checked, ...] = get_args(Checked)
Serves = Literal["site", "answers"]

TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
TARGET = re.compile(r"/[!-~]*")
SITE_PATH = re.compile(r"(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+")
MEDIA_TYPE = re.compile(r"[A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+(; ?charset=[A-Za-z0-9-]+)?")
SHA256 = re.compile(r"[0-9a-fA-F]{64}")
LARGEST_SITE = 64 << 20
LARGEST_BACKEND_BODY = 256 << 10
MOST_BACKENDS = 16
OWN_SITE = "own"
ANY = "any"

FILE_SIZE = ByteSize(0, LARGEST_SITE, "Bytes, such as 8k.")
FILE_KIND = OneWord(FILE_KINDS, "Content [by the path's ending].")
FILE = Keys(
    {"path": AnyText("Path, such as /css/site.css.", SITE_PATH), "size": FILE_SIZE},
    {"kind": FILE_KIND},
    about="A file of the site.",
)

COUNT = Whole(1, MOST_BACKENDS, "Number of identical servers [1].")
SERVES: OneWord[Serves] = OneWord(
    get_args(Serves), "Answer with the site's files, or as each request says."
)
PADDED = ByteSize(0, LARGEST_BACKEND_BODY, "Bytes to pad the body to.")
BACKEND = Keys(
    optional={
        "body": AnyText("Body of every answer."),
        "content_type": AnyText("Media type of the answers [application/json].", MEDIA_TYPE),
        "size": PADDED,
        "count": COUNT,
        "serves": SERVES,
    },
    about="Servers behind the proxy under test.",
)

STATUS = Whole(200, 599)
LENGTH = Whole(0, 1 << 40, "Bytes of the body.")
CHECK = OneWord(CHECKED, "Answers with a check of the hash [sample].")
BODY_CHECK = OneWord((ANY,), "Accept any body.")
EXPECT = Keys(
    optional={
        "status": Either((STATUS, OneWord((ANY,))), "Expected status [200]."),
        "length": LENGTH,
        "sha256": AnyText("SHA-256 of the body, 64 hex digits.", SHA256),
        "check": CHECK,
        "body": BODY_CHECK,
    },
    about="The right answer.",
)

MESSAGES = Whole(1, 10_000, "Messages of a gRPC stream, each with the body [1].")
WEIGHT = Decimal(0, 1e9, "Share of the mix, relative to the other requests' [1].")
_HEADERS = Entries(AnyText(), "Headers of the request.", TOKEN)
REQUEST = Keys(
    {"path": AnyText("Path with query, such as /search?q=a.", TARGET)},
    {
        "weight": WEIGHT,
        "method": AnyText("Method [GET].", TOKEN),
        "headers": _HEADERS,
        "body": Either((AnyText(), BODY), "Body of the request."),
        "body_file": AnyText("File with the body."),
        "messages": MESSAGES,
        "answer": ANSWER,
        "expect": EXPECT,
    },
    about="A request of the mix.",
)
URLS = Keys(
    {"urls": AnyText("File of URLs; they share the weight.")},
    {"weight": WEIGHT, "headers": _HEADERS, "expect": EXPECT},
    about="Requests of a file of URLs.",
)

CONNECTIONS = Whole(1, 100_000, "Connections that stay open [32].")
TIMEOUT = TimeSpan(0.01, 300, "A later answer is an error [5s].")
WORKLOAD = Keys(
    {
        "workload": AnyText("Name of the workload."),
        "requests": ListOf(Either((REQUEST, URLS)), "The mix of requests.", at_least=1),
    },
    {
        **WIRE,
        "summary": AnyText("One line for lists."),
        "connections": CONNECTIONS,
        "arrival": ARRIVAL,
        "timeout": TIMEOUT,
        "site": Either(
            (OneWord((OWN_SITE,)), ListOf(FILE)),
            "Files to ask for, or 'own' for those of your own server.",
        ),
        "backend": BACKEND,
    },
    about="A workload of tuner: the requests to a server, and the right answers.",
)
"""A workload's file."""
