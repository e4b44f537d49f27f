"""The answers of a backend, one for each request: status, size, and how long it takes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tuner.reading.located import Node
from tuner.reading.shape import ByteSize, Keys, ListOf, TimeSpan, Whole
from tuner.workload.site import SiteFile, content

ANSWER_HEADER = "Tuner-Answer"
"""Header of a request that names its answer by number; proxies pass it on even if they
change the path."""
LARGEST_ANSWER = 256 << 10
REDIRECTS = (301, 302, 303, 307, 308)
_EMPTY = (204, 304)
_LONGEST_S = 60.0
_MOST_MESSAGES = 10_000

_STATUS = Whole(200, 599, "Status of the answer [200].")
_SIZE = ByteSize(0, LARGEST_ANSWER, "Bytes of its body [1k].")
_TIME = TimeSpan(0, _LONGEST_S)
_MESSAGES = Whole(1, _MOST_MESSAGES, "Messages of a gRPC stream, each of that size [1].")
_EVERY = TimeSpan(0, _LONGEST_S, "Time from one message to the next [0].")
ANSWER = Keys(
    optional={
        "status": _STATUS,
        "size": _SIZE,
        "times": ListOf(_TIME, "Times until the answer, each for an equal share of the requests."),
        "messages": _MESSAGES,
        "every": _EVERY,
    },
    about="Answer of a backend that serves answers.",
)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of the backend to one kind of request."""

    status: int = 200
    size_bytes: int = 1_024
    times_s: tuple[float, ...] = ()
    """Times until the answer, each for an equal share of the requests, seconds; empty: at once."""
    messages: int = 1
    """Messages of the answer over gRPC, each with the body."""
    every_s: float = 0.0
    """Time from one message to the next, seconds; 0: all together."""

    @property
    def lasts_s(self) -> float:
        """The longest time until the last message, seconds."""
        return max(self.times_s, default=0.0) + (self.messages - 1) * self.every_s

    @property
    def body(self) -> bytes | None:
        """The body; None where the server writes one of its own."""
        if self.status in REDIRECTS:
            return None
        return b"" if self.status in _EMPTY else answer_text()[: self.size_bytes]


@lru_cache(maxsize=1)
def answer_text() -> bytes:
    """Return the text that every body is the beginning of: words, which compress like a page."""
    return content(SiteFile("/answer", LARGEST_ANSWER, "text"))


def read_answer(node: Node) -> Answer:
    """Return the answer of ``{status: 201, size: 2k, times: [1ms, 5ms]}``.

    A stream of gRPC has ``{messages: 20, every: 1ms}`` too.

    Raises:
        DefinitionError: at the line of the workload.
    """
    keys = ANSWER.read(node)
    times = keys["times"].sequence() if "times" in keys else ()
    return Answer(
        _STATUS.read(keys["status"]) if "status" in keys else 200,
        _SIZE.read(keys["size"]) if "size" in keys else 1_024,
        tuple(map(_TIME.read, times)),
        _MESSAGES.read(keys["messages"]) if "messages" in keys else 1,
        _EVERY.read(keys["every"]) if "every" in keys else 0.0,
    )
