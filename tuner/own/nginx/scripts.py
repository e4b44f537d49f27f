"""The scripts that a configuration tests for before it passes a request on.

``try_files $fastcgi_script_name =404`` and its like need a file below the document root, although
the server behind Nginx runs it. In the lab the files are empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tuner.own.nginx.tree import Directive, walk

_SCRIPT = re.compile(r"/(?:[\w.-]+/)*[\w-][\w.-]*?\.(?:php|phtml|fcgi|cgi|pl|py)(?![\w.-])")
_NAMES = ("try_files", "error_page", "rewrite", "index", "fastcgi_index", "fastcgi_param")


def scripts(server: Directive, paths: Sequence[str]) -> tuple[str, ...]:
    """Return the paths of the scripts that a server may test for.

    Args:
        server: the server that the workload reaches.
        paths: requested paths.
    """
    words = (*(path.partition("?")[0] for path in paths), *_words(server))
    found = (match.group() for word in words for match in [_SCRIPT.search(word)] if match)
    return tuple(path for path in dict.fromkeys(found) if "/../" not in path)


def _words(server: Directive) -> Iterator[str]:
    for found in walk((server,)):
        if found.name in _NAMES:
            # `index index.php` has no slash.
            yield from (word if "/" in word else f"/{word}" for word in found.args)
