"""Files that a configuration includes and that are not there, with a way to provide them.

A copy never takes a file from elsewhere by itself. Files that every Nginx comes with are the same
elsewhere, so the message has the options that read this machine's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from tuner.errors import DefinitionError
from tuner.own.copies import Copies
from tuner.own.files import Files

_SHIPPED = frozenset(
    {
        *("mime.types", "fastcgi_params", "fastcgi.conf", "uwsgi_params", "scgi_params"),
        *("proxy_params", "koi-utf", "koi-win", "win-utf"),
    }
)
"""Files that packages of Nginx install next to ``nginx.conf``."""
_HERE = PurePosixPath("/etc/nginx")
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class MissingFile:
    """A file that an include names and that is not there."""

    include: str
    """The words that include it."""
    wanted: str
    """Absolute path as the configuration names it."""
    place: str
    """Path at which the file was looked for."""
    file: str
    """File with the include."""
    line: int


def refuse(missing: Sequence[MissingFile], copies: Copies, main: str, files: Files) -> None:
    """Raise DefinitionError if files are missing.

    Args:
        missing: the missing files, in the order of their includes.
        copies: folders that stand for others.
        main: absolute path of the main file.
        files: files of the host.

    Raises:
        DefinitionError: files are missing; with their names, and ways to provide them.
    """
    if not missing:
        return
    first = missing[0]
    places = list(dict.fromkeys(each.place for each in missing))
    more = f" and {len(places) - _MOST_NAMED} more" if len(places) > _MOST_NAMED else ""
    said = "the copy has no" if copies.is_copy else "there is no"
    options = {
        f"--prefix {each.wanted}={_HERE / name}": None
        for each in missing
        for name in (PurePosixPath(each.wanted).name,)
        if name in _SHIPPED and files.matches(str(_HERE / name))
    }
    others = [each for each in missing if f"--prefix {each.wanted}=" not in " ".join(options)]
    ways = [f"read those of this machine's Nginx with {' '.join(options)}"] if options else []
    ways += [_remedy(others[0], copies, main)] if others else []
    raise DefinitionError(
        f"{first.include}: {said} {', '.join(places[:_MOST_NAMED])}{more}; {', and '.join(ways)}",
        path=first.file,
        line=first.line,
    )


def _remedy(missing: MissingFile, copies: Copies, main: str) -> str:
    """Return how to provide a file."""
    folder = PurePosixPath(missing.wanted).parent
    if copies.is_copy and not folder.is_relative_to(PurePosixPath(main).parent):
        at = next((path for path, _ in copies.folders if folder.is_relative_to(path)), str(folder))
        return (
            f"put it there, or name the folder that has it: --prefix {at}=FOLDER ({at}={at} for"
            " this machine's own)"
        )
    if copies.is_copy:
        return "put it there"
    name = PurePosixPath(main).name
    return f"put it there, or give a copy of the whole folder with --config COPY/{name}"
