"""The scripts that a server of Nginx tests for before it passes a request on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tuner.own.nginx.tree import Directive, walk
from tuner.own.scripts import scripts_in

_NAMES = ("try_files", "error_page", "rewrite", "index", "fastcgi_index", "fastcgi_param")


def scripts(server: Directive, paths: Sequence[str]) -> tuple[str, ...]:
    """Return the paths of the scripts that a server may test for.

    Args:
        server: the server that the workload reaches.
        paths: requested paths.
    """
    return scripts_in((*(path.partition("?")[0] for path in paths), *_words(server)))


def _words(server: Directive) -> Iterator[str]:
    for found in walk((server,)):
        if found.name in _NAMES:
            yield from found.args
