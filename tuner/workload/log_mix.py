"""A workload's YAML from the tally of an access log: its kinds of requests.

The lab does not have the log's site. It serves files of the same sizes or, behind a proxy, a
backend. Requests that neither can answer are left out and counted. Rare kinds join wider ones
(``tuner.reading.log_paths``), so that few requests stand for nearly the whole log.
"""

from __future__ import annotations

import json
import random
import textwrap
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from tuner.reading.log_tally import KindKey, LogTally, RequestKind, widened
from tuner.reading.printable import comment_line
from tuner.reading.redaction import redaction_summary
from tuner.workload.log_arrival import burstiness
from tuner.workload.log_backend import (
    USUAL_BODY,
    WITH_BODY,
    backend_requests,
    unfit_for_backend,
)
from tuner.workload.log_site import READING, log_site, unfit_for_site
from tuner.workload.log_wire import log_wire
from tuner.workload.mix_request import MixRequest, label
from tuner.workload.workload import INDEX

Serve = Literal["site", "backend"]
_MOSTLY = 0.95
"""Least share of GET and HEAD in the log of a site."""
_WIDTH = 98
"""Width of comments, characters."""


@dataclass(frozen=True, slots=True)
class Mix:
    """A workload from a log, with counts of the omitted requests."""

    text: str
    """The YAML."""
    requests: int
    """Kinds of requests in it."""
    covered: int
    """Number of requests in the log that they represent."""
    left_out: tuple[tuple[str, int], ...]
    """Reasons for omitted requests, with their counts."""
    notes: tuple[str, ...] = ()
    """Facts of the log that the workload follows, or does not have."""
    kinds: tuple[str, ...] = ()
    """The kind of each request of the workload, in its order: ``GET /product/{id} 200``."""


def make_mix(
    tally: LogTally,
    *,
    name: str,
    source: str,
    serve: Serve | None,
    top: int,
    arrival: str = "",
    without: Container[str] = (),
) -> Mix:
    """Return a workload of the kinds of requests of the log.

    Args:
        tally: counts of the log.
        name: name of the workload.
        source: origin of the log, for the file's comment.
        serve: kind of server; None for a site if GET and HEAD prevail.
        top: limit for kinds of requests; the rarest join wider ones.
        arrival: line about the arrivals; empty: independent ones.
        without: kinds that another part of the server's configuration answers.
    """
    chosen = serve or _served(tally)
    unfit = unfit_for_site if chosen == "site" else unfit_for_backend
    left_out: Counter[str] = Counter()
    if tally.forgotten:
        left_out["too rare to be counted"] += tally.forgotten
    fit: dict[KindKey, RequestKind] = {}
    for key, kind in tally.kinds.items():
        reason = unfit(key)
        if reason:
            left_out[reason] += kind.count
        else:
            fit[key] = kind
    kept = widened(fit, top, random.Random(1))  # noqa: S311 - samples of sizes
    left_out["beyond the most frequent"] += _count(fit) - _count(kept)
    elsewhere = {key: kind for key, kind in kept.items() if label(key) in without}
    kept = {key: kind for key, kind in kept.items() if key not in elsewhere}
    if elsewhere:
        most = label(max(elsewhere, key=lambda key: (elsewhere[key].count, key)))
        why = f"answered by another part of the configuration, such as {most}"
        left_out[why] += _count(elsewhere)
    if chosen == "site":
        site = log_site(kept)
        left_out += site.left_out
        requests, served = site.requests, _site(site.files)
    else:
        requests, served = backend_requests(kept), ["backend:", "  serves: answers"]
    covered = tally.good - left_out.total()
    reasons = tuple((reason, count) for reason, count in left_out.most_common() if count)
    wire = log_wire(tally)
    notes = (*wire.notes, burstiness(tally.arrivals))
    if chosen == "backend":
        notes += tuple(_notes(kept))
    grouped = _grouped(requests, tally.good)
    lines = [
        *_comments(tally, source, covered, reasons, notes),
        f"workload: {json.dumps(name)}",
        f"summary: {json.dumps(f'The {len(kept)} most frequent kinds of requests of {source}')}",
        *wire.lines,
        *([arrival] if arrival else []),
        "",
        *served,
        "",
        "requests:",
        *grouped.lines,
    ]
    text = "\n".join(lines) + "\n"
    return Mix(text, len(kept), covered, reasons, notes, grouped.kinds)


def _served(tally: LogTally) -> Serve:
    timed = sum(kind.times.count for kind in tally.kinds.values() if kind.times)
    reading = sum(kind.count for key, kind in tally.kinds.items() if key[0] in READING)
    return "site" if timed < tally.good / 2 and reading >= _MOSTLY * tally.good else "backend"


def _count(kinds: Mapping[KindKey, RequestKind]) -> int:
    return sum(kind.count for kind in kinds.values())


def _notes(kept: Mapping[KindKey, RequestKind]) -> list[str]:
    """Return what the log has of the backend's times and of bodies of requests."""
    timed = sum(kind.times.count for kind in kept.values() if kind.times)
    notes = [
        f"Backend: the log has its times for {timed / _count(kept):.1%} of the requests."
        if timed
        else "Backend: the log does not have its times ($upstream_response_time), so it answers at"
        " once."
    ]
    sending = [kind for key, kind in kept.items() if key[0] in WITH_BODY]
    if sending and not any(kind.bodies or kind.requests for kind in sending):
        notes.append(
            f"Bodies: the log does not have their sizes ($content_length, $request_length);"
            f" they have {USUAL_BODY} bytes."
        )
    return notes


def _comments(
    tally: LogTally,
    source: str,
    covered: int,
    left_out: tuple[tuple[str, int], ...],
    notes: tuple[str, ...],
) -> list[str]:
    begun, ended = (
        datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        for at in (tally.first_unix_s, tally.last_unix_s)
    )
    lines = [
        f"From {source}: {tally.good:,} requests, {begun} to {ended},",
        f"{tally.rate_per_s:,.1f}/s on average, at most {tally.peak_per_s:,} in one second.",
        f"The requests below are {covered / tally.good:.1%} of them.",
    ]
    if tally.redacted:
        lines.append(f"Not kept: {redaction_summary(tally.redacted)}.")
    lines += [f"Left out, {count / tally.good:.1%}: {reason}." for reason, count in left_out]
    return [comment_line(part) for line in (*lines, *notes) for part in textwrap.wrap(line, _WIDTH)]


def _site(files: Mapping[str, int]) -> list[str]:
    if not files:
        return [f"site:\n  - {{path: /{INDEX}, size: 1k}}"]
    return ["site:", *(f"  - {{path: {path}, size: {size}}}" for path, size in files.items())]


@dataclass(frozen=True, slots=True)
class _Grouped:
    """The lines of the requests, and the kind of each request."""

    lines: tuple[str, ...]
    kinds: tuple[str, ...]


def _grouped(requests: Sequence[MixRequest], total: int) -> _Grouped:
    """Return the requests, the most frequent kind first, each kind with its share."""
    groups: dict[str, list[MixRequest]] = {}
    for request in requests:
        groups.setdefault(request.kind, []).append(request)
    weights = {kind: sum(each.weight for each in group) for kind, group in groups.items()}
    lines: list[str] = []
    kinds: list[str] = []
    for kind in sorted(groups, key=lambda kind: (-weights[kind], kind)):
        lines.append(f"  {comment_line(f'{weights[kind] / total:.1%}: {kind}')}")
        lines += [request.line for request in groups[kind]]
        kinds += [kind] * len(groups[kind])
    return _Grouped(tuple(lines), tuple(kinds))
