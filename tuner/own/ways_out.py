"""Requests that work instead of those that a configuration does not answer, in words."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

_MOST_NAMED = 3


def ways_out(
    *,
    locations: Iterable[str],
    servers: Iterable[str],
    workloads: Iterable[str],
    own_site: bool,
    upstreams: bool,
) -> str:
    """Return the ways out of a refusal, those of the same server first.

    Args:
        locations: options for other paths.
        servers: options for other servers of the files.
        workloads: built-in workloads, in words with their options.
        own_site: whether the workload already requests the server's own content.
        upstreams: whether the application itself needs the upstreams of the files.
    """
    own = "" if own_site else "a workload with `site: own`"
    if upstreams:
        own += f"{' and ' if own else ''}--keep-upstreams"
    return ", or ".join(
        [
            *_joined("ask another location", locations),
            *_joined("ask another server", servers),
            *workloads,
            f"ask the application itself: {own}",
        ]
    )


def _joined(words: str, options: Iterable[str]) -> list[str]:
    found = list(islice(options, _MOST_NAMED))
    return [f"{words}: {', '.join(found)}"] if found else []
