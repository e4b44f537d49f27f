"""A workload with its requests below another path."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from tuner.workload.site import content
from tuner.workload.workload import Request, Workload


def below(prefix: str, path: str) -> str:
    """Return a path below a prefix: ``/app/`` and ``/x`` give ``/app/x``."""
    return f"{prefix.rstrip('/')}{path}"


def moved_below(prefix: str, workload: Workload) -> Workload:
    """Return a workload with its requests and its files below a path."""
    if not prefix.rstrip("/"):
        return workload
    site = tuple(replace(one, path=below(prefix, one.path)) for one in workload.site)
    # A file's content follows from its path, so it has another hash at another one.
    hashes = {
        hashlib.sha256(content(old)).hexdigest(): hashlib.sha256(content(new)).hexdigest()
        for old, new in zip(workload.site, site, strict=True)
    }
    requests = tuple(_moved(one, prefix, hashes) for one in workload.requests)
    return replace(workload, requests=requests, site=site)


def _moved(request: Request, prefix: str, hashes: Mapping[str, str]) -> Request:
    expected = request.expect_sha256 or ""
    return replace(
        request,
        path=below(prefix, request.path),
        expect_sha256=hashes.get(expected, expected) or None,
    )
