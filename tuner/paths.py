"""Paths of files that are not Python: definitions, playbooks, and the load generator.

They stand at the top of a checkout and travel in the wheel as `tuner/_data`; the generator is
installed in the same folder as the `tuner` command.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Literal

from tuner.errors import DefinitionError, InstrumentError, StoreError

DataKind = Literal["templates", "spaces", "playbooks", "studies"]

DISTRIBUTION = "servertune"
"""Name of the package on PyPI, where `tuner` is another project."""
LOADGEN = "tuner-loadgen"
LOADGEN_VARIABLE = "TUNER_LOADGEN"

STUDIES = Path("studies")
"""Folder of results, in the current folder."""
RECORD = "record.db"
"""Name of a study's record in its folder."""

_PACKAGE = Path(__file__).resolve().parent


def checkout() -> Path | None:
    """Return the top of the checkout that this package runs from; None when installed."""
    top = _PACKAGE.parent
    return top if (top / "loadgen" / "Cargo.toml").is_file() else None


def data_dir(kind: DataKind) -> Path:
    """Return the folder that holds the shipped definitions of one kind.

    Raises:
        DefinitionError: the installation is incomplete.
    """
    top = checkout()
    folder = _PACKAGE / "_data" / kind if top is None else top / kind
    if not folder.is_dir():
        message = "missing from this installation of tuner; install it again"
        raise DefinitionError(message, path=str(folder))
    return folder


def state_dir() -> Path:
    """Return the folder of tuner's state for this user (XDG Base Directory Specification)."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "tuner"


def record_file(folder: Path) -> Path:
    """Return the path of the record in a study's folder."""
    return folder / RECORD


def has_record(folder: Path) -> bool:
    """Return whether a study's folder holds a record."""
    return record_file(folder).is_file()


def written_unix_s(folder: Path) -> float:
    """Return when the record in a study's folder was written last, Unix seconds."""
    return record_file(folder).stat().st_mtime


def recorded_studies(studies: Path = STUDIES) -> list[Path]:
    """Return the folders below ``studies`` that hold a record, in the order of their names."""
    return [record.parent for record in sorted(studies.glob(f"*/{RECORD}"))]


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that readers see the old content or the new, and nothing between.

    It holds for a failure of the power or of the disk too: without a flush the new name may come to
    the disk before the content, and the file is empty then.

    Raises:
        OSError: it cannot be written; the old file is as it was.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def synchronise(folder: Path) -> None:
    """Write a folder to the disk, so that new names in it survive a power failure.

    Raises:
        OSError: the disk does not take it.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def inside(folder: Path, name: str) -> Path:
    """Return the path of a file below a folder, by a name that comes from outside.

    Args:
        folder: the folder above it; may itself be reached through a link.
        name: relative, with ``/`` between its parts.

    Raises:
        StoreError: the name is absolute, leaves the folder, or leads out of it by a link.
    """
    parts = name.split("/")
    if not {"", ".", ".."}.isdisjoint(parts) or any(not part.isprintable() for part in parts):
        raise StoreError(
            f"{name!r} is not the name of a file in a folder; nothing was written to {folder}"
        )
    path = folder.joinpath(*parts)
    # This includes the file itself: writing to a link changes its target.
    for place in (path, *path.parents[: len(parts) - 1]):
        if place.is_symlink():
            raise StoreError(
                f"{place} is a link, and {name!r} would be written to where it leads; nothing was"
                " written; remove the link"
            )
    return path


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> list[Path]:
    """Write files by their names below a folder, all or none; return their paths.

    Raises:
        StoreError: see `inside`.
    """
    paths = {name: inside(folder, name) for name in files}
    for name, path in paths.items():
        content = files[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(paths.values())


@contextlib.contextmanager
def temporary(what: str) -> Iterator[str]:
    """Yield a new folder, which is removed at the end.

    The folder lies in that of `temporaries_in` if one is set. Otherwise its name holds the
    process id, and a later process removes the folders that killed ones left.

    Args:
        what: short name of its purpose.
    """
    folder = _TEMPORARIES.get()
    if folder is None:
        _sweep(Path(tempfile.gettempdir()))
    prefix = f"tuner-{what}-{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=folder) as name:
        yield name


@contextlib.contextmanager
def temporaries_in(folder: Path) -> Iterator[None]:
    """Create `temporary` folders in this one, which the caller removes as a whole."""
    folder.mkdir(parents=True, exist_ok=True)
    token = _TEMPORARIES.set(folder)
    try:
        yield
    finally:
        _TEMPORARIES.reset(token)


_TEMPORARIES: ContextVar[Path | None] = ContextVar("temporaries", default=None)
_NAME = re.compile(r"tuner-(?!ssh-)[a-z0-9]+-(\d+)-\w+")
"""Name of a temporary folder. Sockets of SSH (`tuner.hosts.remote`) are swept by their own rule."""


def _sweep(folder: Path) -> None:
    """Remove temporary folders that dead processes of this account left."""
    for found in folder.glob("tuner-*"):
        named = _NAME.fullmatch(found.name)
        if named and not Path("/proc", named[1]).exists():
            with contextlib.suppress(OSError):
                if found.lstat().st_uid == os.geteuid() and not found.is_symlink():
                    shutil.rmtree(found, ignore_errors=True)


def loadgen_binary() -> Path:
    """Return the path of the load generator.

    The search order is: the environment variable TUNER_LOADGEN, the installed package, the
    environment's scripts, the PATH, and cargo's output in the checkout.

    Raises:
        InstrumentError: the generator was not found, or TUNER_LOADGEN is not an executable file.
    """
    named = os.environ.get(LOADGEN_VARIABLE)
    if named:
        # The user's choice is used or refused, never silently replaced.
        if not _is_program(Path(named)):
            raise InstrumentError(f"{LOADGEN_VARIABLE}={named} is not an executable file")
        return Path(named).resolve()
    places = [*_installed(), Path(sysconfig.get_path("scripts"), LOADGEN)]
    on_path = shutil.which(LOADGEN)
    if on_path is not None:
        places.append(Path(on_path))
    top = checkout()
    if top is not None:
        places.append(top / "loadgen" / "target" / "release" / LOADGEN)
    for place in places:
        if _is_program(place):
            # The path in the package's metadata contains `..`.
            return place.resolve()
    remedy = (
        "install tuner again"
        if top is None
        else f"run: cargo build --release --locked --manifest-path {top}/loadgen/Cargo.toml"
    )
    raise InstrumentError(
        f"the load generator {LOADGEN} was not found; {remedy} "
        f"(or set {LOADGEN_VARIABLE} to its path)"
    )


def _installed() -> list[Path]:
    # Imported here: it costs tens of milliseconds that `tuner --help` need not pay.
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        package = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        return []
    return [Path(str(file.locate())) for file in package.files or () if file.name == LOADGEN]


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
