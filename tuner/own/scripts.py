"""The protocols in which a configuration asks applications, and the scripts that it looks for.

``try_files $fastcgi_script_name =404`` of Nginx, ``php_fastcgi`` of Caddy and their like look for a
file below the document root, although the server behind runs it. In the lab the files are empty.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import replace

from tuner.workload.site import SiteFile
from tuner.workload.workload import BACKEND_PROTOCOLS, Workload

_SCRIPT = re.compile(r"/(?:[\w.-]+/)*[\w-][\w.-]*?\.(?:php|phtml|fcgi|cgi|pl|py)(?![\w.-])")


def scripts_in(words: Iterable[str]) -> tuple[str, ...]:
    """Return the paths of the scripts that words name, each once.

    Args:
        words: requested paths, and arguments of directives; a name without a slash is below the
            document root.
    """
    whole = (word if "/" in word else f"/{word}" for word in words)
    found = (match.group() for word in whole for match in [_SCRIPT.search(word)] if match)
    return tuple(path for path in dict.fromkeys(found) if "/../" not in path)


def asked_by(workload: Workload, spoken: Container[str], scripts: Iterable[str]) -> Workload:
    """Return the workload with a backend that speaks these protocols, and the scripts as files.

    Args:
        workload: the workload; unchanged without a backend.
        spoken: protocols in which the configuration asks what is behind it.
        scripts: paths that it looks for; needed for other protocols than HTTP only.
    """
    if workload.backend is None:
        return workload
    protocols = tuple(one for one in BACKEND_PROTOCOLS if one in spoken) or ("http",)
    backend = replace(workload.backend, protocols=protocols)
    if protocols == ("http",):
        return replace(workload, backend=backend)
    known = {file.path for file in workload.site}
    made = (SiteFile(path, 0, "text") for path in scripts if path not in known)
    return replace(workload, backend=backend, site=(*workload.site, *made))
