"""A workload's YAML from the tally of an access log: its most frequent requests.

The lab does not have the log's site. It serves files of the same sizes or, behind a proxy, one body
of the typical size. Requests that neither can answer are left out and counted.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from tuner.reading.access_log import LogTally, RequestKind
from tuner.reading.printable import comment_line
from tuner.reading.redaction import redaction_summary
from tuner.workload.workload import INDEX, LARGEST_BACKEND_BODY, LARGEST_SITE, SITE_PATH, TARGET

Serve = Literal["site", "backend"]
_SERVED_AS_200 = (200, 206, 304)
"""Statuses of an existing file, including ranges and revalidations."""
_PLACEHOLDER = "{}"


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


def make_mix(tally: LogTally, *, name: str, source: str, serve: Serve | None, top: int) -> Mix:
    """Return a workload of the most frequent requests of the log.

    Args:
        tally: counts of the log.
        name: name of the workload.
        source: origin of the log, for the file's comment.
        serve: kind of server; None for a site if GET and HEAD prevail.
        top: limit for kinds of requests.
    """
    ranked = sorted(tally.kinds.items(), key=lambda item: (-item[1].count, item[0]))
    reading = sum(kind.count for (method, _), kind in ranked if method in {"GET", "HEAD"})
    chosen: Serve = serve or ("site" if reading >= 0.95 * tally.good else "backend")
    left_out: Counter[str] = Counter()
    if tally.forgotten:
        left_out["too rare to be counted"] += tally.forgotten
    files: dict[str, int] = {}
    kept: list[tuple[str, str, RequestKind]] = []
    for (method, target), kind in ranked:
        reason = "beyond the most frequent" if len(kept) >= top else ""
        reason = reason or _unfit(method, target, kind, chosen, files)
        if reason:
            left_out[reason] += kind.count
        else:
            kept.append((method, target, kind))
    covered = sum(kind.count for _, _, kind in kept)
    reasons = tuple(left_out.most_common())
    lines = [
        *_comments(tally, source, covered, reasons),
        f"workload: {json.dumps(name)}",
        f"summary: {json.dumps(f'The {len(kept)} most frequent requests of {source}')}",
        "",
        *(_site(files) if chosen == "site" else _backend(kept)),
        "",
        "requests:",
        *(_request(method, target, kind, chosen) for method, target, kind in kept),
    ]
    return Mix("\n".join(lines) + "\n", len(kept), covered, reasons)


def _unfit(method: str, target: str, kind: RequestKind, serve: Serve, files: dict[str, int]) -> str:
    """Return why the lab cannot serve a request, or ""; add a file to the site if it needs one."""
    if not TARGET.fullmatch(target):
        return "targets with characters that need escaping"
    if serve == "backend":
        return "" if kind.status < 400 else "answers with an error, which the backend does not give"
    if method not in {"GET", "HEAD"}:
        return "methods that no file answers (--as backend keeps them)"
    if kind.status == 404:
        return "" if _file(target) not in files else "files that existed only part of the time"
    if kind.status not in _SERVED_AS_200:
        return "statuses that no file answers with"
    path = _file(target)
    if path in files:
        return ""
    if not SITE_PATH.fullmatch(path):
        return "paths that are not plain file names"
    if any(p.startswith(path + "/") or path.startswith(p + "/") for p in files):
        return "paths that are both a file and a folder"
    if sum(files.values()) + kind.size_bytes > LARGEST_SITE:
        return f"files beyond {LARGEST_SITE >> 20} MB in all"
    files[path] = kind.size_bytes
    return ""


def _file(target: str) -> str:
    path = target.partition("?")[0]
    return path + INDEX if path.endswith("/") else path


def _comments(
    tally: LogTally, source: str, covered: int, left_out: tuple[tuple[str, int], ...]
) -> list[str]:
    begun, ended = (
        datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        for at in (tally.first_unix_s, tally.last_unix_s)
    )
    lines = [
        f"# From {source}: {tally.good:,} requests, {begun} to {ended},",
        f"# {tally.rate_per_s:,.1f}/s on average, at most {tally.peak_per_s:,} in one second.",
        f"# The requests below are {covered / tally.good:.1%} of them.",
    ]
    if tally.redacted:
        lines.append(f"# Not kept: {redaction_summary(tally.redacted)}.")
    lines += [f"# Left out, {count / tally.good:.1%}: {reason}." for reason, count in left_out]
    return [comment_line(line.removeprefix("# ")) for line in lines]


def _site(files: dict[str, int]) -> list[str]:
    if not files:
        return [f"site:\n  - {{path: /{INDEX}, size: 1k}}"]
    return ["site:", *(f"  - {{path: {path}, size: {size}}}" for path, size in files.items())]


def _backend(kept: list[tuple[str, str, RequestKind]]) -> list[str]:
    sizes = [kind.size_bytes for _, _, kind in kept for _ in range(min(kind.count, 1_000))]
    size = min(int(statistics.median_low(sizes)) if sizes else 0, LARGEST_BACKEND_BODY)
    return ["backend:", f"  body: '{_PLACEHOLDER}'", f"  size: {max(size, len(_PLACEHOLDER))}"]


def _request(method: str, target: str, kind: RequestKind, serve: Serve) -> str:
    words = [f"path: {json.dumps(target)}", f"weight: {kind.count}"]
    if method != "GET":
        words.append(f"method: {method}")
    if serve == "site" and kind.status == 404:
        words.append("expect: {status: 404}")
    return f"  - {{{', '.join(words)}}}"
