"""The own answers of a backend in the language of Nginx.

A request names its answer in a header. Nginx has no directive for a delay, but it waits for the
name of an upstream: ``resolver_timeout`` has milliseconds, and no name server answers, so the
request goes on to its answer after exactly that time. Times are rounded to steps of a tenth, so
that few locations serve many distributions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from tuner.workload.answers import REDIRECTS, answer_text
from tuner.workload.workload import Request

_STEP = 1.1
_PIECE = 3_000
"""Length of a piece of the text, bytes; Nginx limits a parameter to 4096."""


@dataclass(frozen=True, slots=True)
class RenderedAnswer:
    """One answer, ready for the template."""

    number: int
    status: int
    body: Markup | None
    wait: Markup | None
    """Variable with the delay of a request, milliseconds; None: none."""


def answering(requests: Sequence[Request]) -> Mapping[str, object]:
    """Return the variables of the template for requests that have answers of their own."""
    text = answer_text().decode("ascii")
    waits: dict[tuple[float, ...], Markup] = {}
    answers = []
    longest = 0
    for number, request in enumerate(requests):
        answer = request.answer
        if answer is None:
            continue
        wait = None
        if any(_milliseconds(time_s) for time_s in answer.times_s):
            wait = waits.setdefault(answer.times_s, _raw(f"$tuner_wait_{len(waits)}"))
        body = None
        if answer.status in REDIRECTS:
            body = _raw("/")
        elif answer.body:
            longest = max(longest, len(answer.body))
            whole, rest = divmod(len(answer.body), _PIECE)
            names = "".join(f"${{tuner_text_{at}}}" for at in range(whole))
            body = _raw(f'"{names}{text[whole * _PIECE :][:rest]}"')
        answers.append(RenderedAnswer(number, answer.status, body, wait))
    pieces = [
        (_raw(f"$tuner_text_{at}"), _raw(f'"{text[at * _PIECE :][:_PIECE]}"'))
        for at in range(longest // _PIECE)
    ]
    delays = {_milliseconds(time_s) for times_s in waits for time_s in times_s} - {0}
    return {
        "answers": answers,
        "pieces": pieces,
        "waits": [(name, _shares(times_s)) for times_s, name in waits.items()],
        "delays": sorted(delays),
    }


def _raw(text: str) -> Markup:
    # Words, numbers and names of variables; nothing of a user's file.
    return Markup(text)  # noqa: S704


def _shares(times_s: Sequence[float]) -> list[tuple[Markup, int]]:
    """Return the delays with their shares, as ``split_clients`` reads them."""
    share = math.floor(10_000 / len(times_s)) / 100
    percents = [f"{share}%"] * (len(times_s) - 1) + ["*"]
    return [
        (_raw(percent), _milliseconds(time_s))
        for percent, time_s in zip(percents, times_s, strict=True)
    ]


def _milliseconds(time_s: float) -> int:
    """Return a time rounded to a step of a tenth, and to milliseconds."""
    if time_s < 0.000_5:
        return 0
    step = round(math.log(time_s * 1e3, _STEP))
    return max(round(_STEP**step), 1)
