"""The files of a host's service, and plans for applying a study to them.

Nothing here changes a host: plans are data.
"""

from __future__ import annotations

import difflib
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from tuner.app.recommended import Recommended
from tuner.errors import DefinitionError
from tuner.own.merge import Conflict, merge
from tuner.own.patch import APPLIED, PATCH, before_patch, folder_of, lines_of, plain
from tuner.own.reader import FoundService
from tuner.servers.usual_place import UsualPlace


class UnfitError(Exception):
    """A study that cannot be applied to a host's files; the message has file and line."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """The user's files that a study changed, before and after."""

    before: Mapping[str, str]
    """By path on the hosts."""
    after: Mapping[str, str]
    resolved: str
    """The whole tuned configuration with inlined includes."""


def tuned_files(
    given: Recommended,
    config: str,
    main: str,
    place: UsualPlace,
) -> Tuned:
    """Return the files that a study of the user's own configuration changed.

    Args:
        given: the recommendation of a study of the user's own configuration.
        config: the tuned main file.
        main: main file on the hosts.
        place: usual place of the server.

    Raises:
        DefinitionError: none of the user's files changed, or not by a patch, or a file is outside
            of the main file's folder.
    """
    chosen, name = given.chosen, given.name
    prefix, text = f"{APPLIED}/", chosen.more.get(PATCH, "")
    known = (PATCH, place.environment)
    others = [key for key in chosen.more if key not in known and not key.startswith(prefix)]
    if others:
        raise DefinitionError(
            f"{name!r} recommends the file {others[0]} instead of a change of your {place.file};"
            f" see `tuner export {name}`",
            path="NAME",
        )
    after = {
        key.removeprefix(prefix): value
        for key, value in chosen.more.items()
        if key.startswith(prefix)
    }
    if not after and place.environment not in chosen.more:
        raise DefinitionError(
            f"{name!r} recommends the unchanged configuration: nothing to apply", path="NAME"
        )
    try:
        before = before_patch(text, after)
    except ValueError as error:
        raise DefinitionError(f"the record of {name!r} is damaged: {error}", path="NAME") from None
    paths = _paths_on_hosts(after, folder_of(text), config, main, name) if after else {}
    return Tuned(
        {paths[key]: value for key, value in before.items()},
        {paths[key]: value for key, value in after.items()},
        given.baseline.text,
    )


def _paths_on_hosts(
    names: Iterable[str], folder: Path, config: str, main: str, study: str
) -> dict[str, str]:
    """Return the paths on the hosts of a patch's files, by their names in it.

    Args:
        names: names of the files.
        folder: base folder of the names: that of the main file, or one above it.
        config: the tuned main file.
        main: main file on the hosts.
        study: name of the study.

    Raises:
        DefinitionError: the patch has another base folder, or a file is outside of the main file's
            folder, where nothing is changed.
    """
    tuned = Path(os.path.normpath(Path(config).absolute().parent))
    if not folder.is_absolute() or not tuned.is_relative_to(os.path.normpath(folder)):
        raise DefinitionError(
            f"the record of {study!r} is damaged: its patch is relative to {str(folder)!r}, which"
            f" is neither the folder of {config} nor above it",
            path="NAME",
        )
    found, home = {}, PurePath(main).parent
    for name in names:
        there = os.path.normpath(home / os.path.relpath(folder / name, tuned))
        if not PurePath(there).is_relative_to(home):
            raise DefinitionError(
                f"{study!r} changed {folder / name}, which lies outside the folder of the main"
                f" file; apply changes files below {home} only. Change it by hand (tuner export"
                f" {study} --diff)",
                path="NAME",
            )
        found[name] = there
    return found


def merged(tuned: Tuned, found: FoundService) -> dict[str, str]:
    """Apply a study's changes to the files of a host, which may differ from the tuned ones.

    Each file is merged three ways by lines: the change from the original to the tuned file is
    applied to the host's. That needs only the record, and is the same for Nginx and Caddy. The
    result is validated on the host, and shown.

    Raises:
        UnfitError: the host lacks a file, or has changed the same lines.
    """
    made = {}
    for path, after in tuned.after.items():
        if path not in found.texts:
            raise UnfitError(
                f"{path}: the study changed it, but {found.main} does not include it here"
            )
        result = merge(tuned.before[path], found.texts[path], after)
        if result.conflicts:
            raise UnfitError("; ".join(_words(path, each) for each in result.conflicts))
        _check_utf8(path, result.text)
        made[path] = result.text
    return made


def _words(path: str, conflict: Conflict) -> str:
    ours, base, theirs = map(_quoted, (conflict.ours, conflict.base, conflict.theirs))
    return f"{path}:{conflict.line}: has {ours}; the study changed {base} to {theirs}"


def _quoted(lines: Sequence[str]) -> str:
    return repr(" ".join(line.strip() for line in lines)) if lines else "nothing"


def _check_utf8(path: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UnfitError(
            f"{path}: has bytes that are not UTF-8; convert the file to UTF-8 first"
        ) from None


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """The changes that applying a study makes to the files of one host."""

    found: FoundService
    files: Mapping[str, str]
    """New texts by path, including unchanged files."""
    unlike: str
    """Unified difference from the tuned configuration's original to the host's."""
    notes: tuple[str, ...] = ()

    @property
    def changed(self) -> Mapping[str, str]:
        """The changed files."""
        return {path: t for path, t in self.files.items() if self.found.texts.get(path) != t}

    @property
    def difference(self) -> str:
        """Unified difference of the changed files."""
        return "".join(
            unified(plain(self.found.texts.get(path, "")), text, path)
            for path, text in self.changed.items()
        )

    @property
    def expected(self) -> Mapping[str, str]:
        """SHA-256 of the original files to write, by path."""
        return {
            path: hashlib.sha256(
                self.found.texts[path].encode("utf-8", "surrogateescape")
            ).hexdigest()
            for path in self.files
        }


def plan_of_own(tuned: Tuned, found: FoundService) -> ChangePlan:
    """Return the plan for a host, from a study of the user's own files.

    Raises:
        UnfitError: see ``merged``.
    """
    unlike = ""
    # The record has only the main file of a configuration that cannot be inlined.
    if tuned.resolved not in (found.resolved, plain(found.texts[found.main])):
        unlike = unified(tuned.resolved, found.resolved, "as tuned", "on this host")
    return ChangePlan(found, merged(tuned, found), unlike)


def unified(before: str, after: str, name: str, new_name: str = "") -> str:
    """Return the unified difference of two texts; empty if they are equal."""
    rows = difflib.unified_diff(
        lines_of(before), lines_of(after), name, new_name or name, n=2 if new_name else 3
    )
    return "".join(row if row.endswith("\n") else f"{row}\n" for row in rows)
