"""The requests of a log to a site of files: which files there are, and who asks for them how.

Answers follow the log by means that every file server has: a range for 206, a condition that is
true for 304, a missing file for 404, and a folder without its slash for a redirect.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from tuner.reading.log_paths import example, has_examples
from tuner.reading.log_tally import KindKey, RequestKind
from tuner.workload.answers import REDIRECTS
from tuner.workload.mix_request import MixRequest, label
from tuner.workload.workload import INDEX
from tuner.workload.workload_keys import LARGEST_SITE

READING = ("GET", "HEAD")
_UNPLAIN = re.compile(r"[^A-Za-z0-9._-]+")
_VARIANTS = 4
_WHOLE_OF_RANGE = 4
"""Assumed size of a file that is only asked for ranges, relative to the range."""
_USUAL_SIZE = 1_024


@dataclass
class LogSite:
    """The files of a site, and the requests for them."""

    files: dict[str, int] = field(default_factory=dict)
    """Size in bytes by path."""
    folders: set[str] = field(default_factory=set)
    requests: list[MixRequest] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    """Number of requests by reason."""

    def put(self, file: str, size: int) -> None:
        """Add a file, or change its size."""
        self.files[file] = size
        self.folders.update(_folders(file))

    def collides(self, file: str) -> bool:
        """Return whether a path is taken, or would be both a file and a folder."""
        return self.exists(file) or any(folder in self.files for folder in _folders(file))

    def exists(self, path: str) -> bool:
        """Return whether a path is a file or a folder."""
        return path in self.files or path in self.folders


def unfit_for_site(key: KindKey) -> str:
    """Return why files cannot answer a request; empty if they can."""
    method, _, status = key
    if method not in READING:
        return "methods that no file answers (--as backend keeps them)"
    if status in (200, 206, 304, *REDIRECTS) or (400 <= status < 500 and status != 499):
        return ""
    return "statuses that no file answers with"


def log_site(kinds: Mapping[KindKey, RequestKind]) -> LogSite:
    """Return the site of these kinds of requests, none of which is unfit."""
    made = LogSite()
    full = [value for key, kind in kinds.items() if key[2] == 200 for value in kind.sizes.values]
    usual = int(statistics.median_low(full)) if full else _USUAL_SIZE
    ranked = sorted(kinds, key=lambda key: (key[2] != 200, key[0] != "GET", -kinds[key].count, key))
    found: dict[str, list[tuple[str, str]]] = {}
    for key in ranked:
        _, of, status = key
        kind = kinds[key]
        if status >= 300 and status != 304:
            made.requests.append(_without_file(made, key, kind))
            continue
        if of not in found:
            found[of] = _add_files(made, of, _sizes(key, kind, usual), kind)
        if found[of]:
            made.requests += _asking(made, key, kind, found[of])
    return made


def _sizes(key: KindKey, kind: RequestKind, usual: int) -> list[int]:
    """Return the sizes of the files of a shape, of equal shares."""
    method, of, status = key
    if method == "HEAD" or status == 304:
        return [usual]
    factor = _WHOLE_OF_RANGE if status == 206 else 1
    # One path is one file.
    number = _VARIANTS if has_examples(of) else 1
    sizes = [int(value) * factor for value in kind.sizes.quantiles(number)]
    return sizes if len(set(sizes)) > 1 else sizes[:1]


def _add_files(
    made: LogSite, of: str, sizes: Sequence[int], kind: RequestKind
) -> list[tuple[str, str]]:
    """Add the files of a shape; return the target and the file of each."""
    found = []
    for number, size in enumerate(sizes):
        if sum(made.files.values()) + size > LARGEST_SITE:
            reason = f"files beyond {LARGEST_SITE >> 20} MB in all"
            made.left_out[reason] += round(kind.count / len(sizes))
            continue
        target, file = _plain(example(of, number))
        if made.collides(file):
            target, file = _free(target, made)
        made.put(file, size)
        found.append((target, file))
    return found


def _asking(
    made: LogSite, key: KindKey, kind: RequestKind, files: Sequence[tuple[str, str]]
) -> list[MixRequest]:
    """Return the requests of a kind for the files of its shape."""
    method, _, status = key
    ranges = kind.sizes.quantiles(len(files)) if status == 206 else []
    asked = []
    for number, (target, file) in enumerate(files):
        headers: dict[str, str] = {}
        expect: dict[str, str | int] = {}
        if status == 304:
            # RFC 9110, 13.1.2: "*" is true for every file that exists.
            headers, expect = {"If-None-Match": "*"}, {"status": 304}
        elif ranges:
            length = max(int(ranges[number]), 1)
            made.put(file, max(made.files[file], length))
            headers = {"Range": f"bytes=0-{length - 1}"}
            expect = {"status": 206, "length": length}
        asked.append(
            MixRequest(label(key), method, target, kind.count / len(files), headers, expect)
        )
    return asked


def _without_file(made: LogSite, key: KindKey, kind: RequestKind) -> MixRequest:
    """Return the request of a kind that gets a redirect or an error."""
    method, of, status = key
    target, file = _plain(example(of, 0))
    if status in REDIRECTS:
        folder = file.removesuffix(f"/{INDEX}") or "/moved"
        _, index = _plain(f"{folder}/")
        if made.exists(folder) or made.collides(index):
            _, index = _plain(f"{folder}-moved/")
        made.put(index, 1)
        # Nginx answers 301, Caddy 308.
        folder = index.removesuffix(f"/{INDEX}")
        return MixRequest(label(key), method, folder, kind.count, expect={"status": "any"})
    if made.exists(file):
        target = f"{file}-missing"
    return MixRequest(label(key), method, target, kind.count, expect={"status": 404})


def _plain(target: str) -> tuple[str, str]:
    """Return a target with a plain file name as its path, and the path of the file."""
    path, mark, query = target.partition("?")
    parts = [_UNPLAIN.sub("_", unquote(part)) for part in path.split("/") if part]
    parts = ["_" + part[1:] if part.startswith(".") else part for part in parts]
    plain = "/" + "/".join(parts)
    if not path.endswith("/") and parts:
        return plain + mark + query, plain
    folder = plain if plain == "/" else f"{plain}/"
    return folder + mark + query, folder + INDEX


def _folders(file: str) -> list[str]:
    """Return the folders that a file is in."""
    parts = file.split("/")
    return ["/".join(parts[:size]) for size in range(2, len(parts))]


def _free(target: str, made: LogSite) -> tuple[str, str]:
    """Return a target next to the given one, with a file that collides with none."""
    path, mark, query = target.partition("?")
    number = 2
    flat = "/" + path.strip("/").replace("/", "-")
    while made.collides(f"{flat}-{number}"):
        number += 1
    return f"{flat}-{number}{mark}{query}", f"{flat}-{number}"
