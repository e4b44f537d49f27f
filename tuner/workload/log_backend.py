"""The requests of a log to a backend: what they send, and what the backend answers when."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from tuner.reading.log_paths import example, has_examples
from tuner.reading.log_tally import KindKey, RequestKind, Sample
from tuner.workload.answers import LARGEST_ANSWER
from tuner.workload.bodies import BodyKind, kind_of_type
from tuner.workload.mix_request import MixRequest, label

_VARIANTS = 4
_TIMES = 16
_OWN = {101: "connections that change their protocol (101)", 444: "closed without an answer (444)"}
_FAILED = {499: "given up by the client (499)", 502: "", 504: ""}
WITH_BODY = ("POST", "PUT", "PATCH")
USUAL_BODY = 512
"""Assumed size of a body if the log has none, bytes."""
_LARGEST_BODY = 1 << 20
"""Limit for invented bodies, which is that of Nginx's client_max_body_size."""


def unfit_for_backend(key: KindKey) -> str:
    """Return why a backend cannot give an answer; empty if it can."""
    method, _, status = key
    if status in _OWN:
        return _OWN[status]
    if status in _FAILED:
        return _FAILED[status] or "failures of the backend (502, 504)"
    if not 200 <= status <= 599:
        return "statuses that no server gives"
    if method == "CONNECT":
        return "methods that no backend answers"
    return ""


def backend_requests(kinds: Mapping[KindKey, RequestKind]) -> list[MixRequest]:
    """Return the requests of these kinds, none of which is unfit."""
    reading = Sample.of(kind.requests for key, kind in kinds.items() if key[0] == "GET")
    head = reading.quantiles(1)
    # A request's size includes its header, which is about that of a request without a body.
    head_bytes = int(head[0]) if head else 0
    made = []
    for key, kind in kinds.items():
        method, of, status = key
        # A cache in the proxy may answer GET and HEAD of one path with one size only.
        count = _VARIANTS if has_examples(of) or method not in {"GET", "HEAD"} else 1
        sizes = kind.sizes.quantiles(count)
        bodies = _bodies(method, kind, head_bytes, count)
        if len(set(sizes)) <= 1 and len(set(bodies)) <= 1:
            count = 1
        times = _times(kind)
        for number in range(count):
            answer: dict[str, object] = {"status": status} if status != 200 else {}
            answer["size"] = min(int(sizes[number]), LARGEST_ANSWER) if sizes else 0
            if times:
                answer["times"] = times
            headers = {"If-None-Match": "*"} if status == 304 else {}
            body: dict[str, str | int] = {}
            if bodies:
                body = {"like": _body_kind(kind, of), "size": bodies[number]}
            target = quote(example(of, number), safe="/%?&=+,;:@!$*'()[]{}~#|^\\\"<>`")
            weight = kind.count / count
            made.append(MixRequest(label(key), method, target, weight, headers, {}, body, answer))
    return made


def _bodies(method: str, kind: RequestKind, head_bytes: int, count: int) -> list[int]:
    """Return the sizes of the bodies of a kind's requests; empty if they have none."""
    if method not in WITH_BODY:
        return []
    if kind.bodies:
        sizes = kind.bodies.quantiles(count)
    elif kind.requests:
        sizes = [size - head_bytes for size in kind.requests.quantiles(count)]
    else:
        sizes = [USUAL_BODY] * count
    return [min(max(int(size), 0), _LARGEST_BODY) for size in sizes]


def _times(kind: RequestKind) -> list[str]:
    """Return the times of a kind's answers; empty if the log has none."""
    if kind.times is None:
        return []
    times = [f"{max(time, 0.0) * 1e3:.0f}ms" for time in kind.times.quantiles(_TIMES)]
    return times if len(set(times)) > 1 else times[:1]


def _body_kind(kind: RequestKind, of: str) -> BodyKind:
    known = kind.content_types.most_common(1)[0][0] if kind.content_types else ""
    found = kind_of_type(known)
    if found is not None or known:
        return found or "text"
    # Without a type: programs send JSON, and pages send forms.
    return "json" if any(word in of for word in ("api", "json", "graphql", "rpc")) else "form"
