"""Optuna storages by URL, with retries while they do not answer.

``sqlite:///FILE`` is for one host. Several share ``postgresql+psycopg://…``, directly or through
Optuna's proxy, ``grpc://HOST:PORT``. A password in a URL is passed only to the database.
"""

from __future__ import annotations

import contextlib
import functools
import mmap
import os
import random
import re
import sqlite3
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar
from urllib.parse import urlsplit

from tuner.errors import DefinitionError, LeaseLostError, StoreError
from tuner.store.attributes import read_attributes
from tuner.store.database_file import check_file, connector, settled

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

_T = TypeVar("_T")
_P = ParamSpec("_P")
Storage: TypeAlias = "str | BaseStorage"
"""URL of an Optuna storage, or the storage itself (one in memory, a gRPC proxy)."""
Say = Callable[[str], None]

PATIENCE_S = 600.0
"""Total time of retries for a storage that does not answer; a restart takes seconds."""
DEFAULT_PROXY_PORT = 13_000
"""Optuna's default."""
_THREADS_BYTES = 128 << 20
"""Address space of gRPC's threads, with stacks of 8 MiB."""
_FILES = 12
"""Files that gRPC opens at once for a channel, with some to spare: events, pollers, a socket."""
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 15.0
_OPENING_ATTEMPTS = 5
_STARTING_S = 60.0
"""Time for a database to start or to recover from a crash, while it is opened."""
_STARTING = (
    "the database system is starting up",
    "the database system is not yet accepting connections",
    "the database system is in recovery mode",
    "the database system is shutting down",
)
"""PostgreSQL's messages of cannot_connect_now; the driver has no code of a refused connection."""
_COMPATIBLE: set[str] = set()
"""Versions of tables that Optuna's check has accepted in this process.

The check reads all of Optuna's migrations, which takes longer than all else in opening a record.
"""
_PASSWORDS = (
    re.compile(r"(?<=://)(?P<user>[^\s:/@]*):[^\s@/]+@"),
    re.compile(r"(?P<key>[?&][a-z]*password=)[^\s&@]+"),
)


def no_message(_: str) -> None:
    """Ignore messages about retries."""


def open_storage(url: Storage, say: Say = no_message, *, writing: bool = True) -> Any:
    """Open a storage; return a storage object unchanged.

    Args:
        url: value of ``--storage``.
        say: called with messages about retries.
        writing: False to create and change nothing, not even tables of an empty database.

    Raises:
        StoreError: it cannot be opened, or its file cannot hold a record. Messages omit its
            password.
    """
    if not isinstance(url, str):
        return url
    if url.startswith("grpc://"):
        return _RetryingStorage(_proxy(url), say)
    path = _file_of(url)
    if writing and path is not None and not path.exists():
        _create_file(url, path)
    if path is None or (writing and not _has_content(path)):
        opened = _started(
            functools.partial(_database, url, _options(url, writing=writing), writing=writing), say
        )
    elif writing:
        check_file(path, writing=True)
        opened = _database(url, {"creator": connector(path, writing=True)}, writing=True)
    else:
        # A temporary copy lives as long as the storage.
        with contextlib.ExitStack() as stack:
            readable = stack.enter_context(settled(path))
            check_file(readable, writing=False)
            opened = _database(url, {"creator": connector(readable, writing=False)}, writing=False)
            weakref.finalize(opened, stack.pop_all().close)
    return opened if is_sqlite(url) else _RetryingStorage(opened, say)


def is_sqlite(url: Storage) -> bool:
    """Return whether a storage is SQLite's: a file on one host, or in memory."""
    return isinstance(url, str) and url.startswith("sqlite")


def refuse_unshared(url: str | None) -> None:
    """Raise DefinitionError if several hosts cannot share this storage.

    Raises:
        DefinitionError: it is SQLite, or none.
    """
    if url is not None and not is_sqlite(url):
        return
    what = "no storage is named, and the default is a file" if url is None else "SQLite is a file"
    raise DefinitionError(
        f"{what} on one host: others cannot lock it (network file systems lose locks, and with them"
        " windows), so several workers cannot share it. Name a PostgreSQL database:"
        " --storage postgresql+psycopg://USER@HOST/DATABASE (its password in ~/.pgpass or"
        " PGPASSWORD), or a proxy in front of one: --storage grpc://HOST:PORT (tuner proxy)",
        path="--storage",
    )


def refuse_secret(url: str) -> None:
    """Raise DefinitionError for a password on the command line.

    Raises:
        DefinitionError: the URL holds one.
    """
    if scrubbed(url) == url:
        return
    raise DefinitionError(
        f"{scrubbed(url)} holds a password, and a command line is shown to everybody on this"
        " machine (ps): put the whole URL into the environment variable TUNER_STORAGE, or leave the"
        " password out and keep it in ~/.pgpass (PGPASSFILE), a service file"
        " (postgresql+psycopg:///?service=NAME) or PGPASSWORD",
        path="--storage",
    )


def without_secret(url: Storage) -> str:
    """Return a storage's name for messages, without its password."""
    return scrubbed(url) if isinstance(url, str) else "this storage"


def scrubbed(text: str) -> str:
    """Return text with ``***`` for the password of every URL."""
    in_front, as_option = _PASSWORDS
    return as_option.sub(r"\g<key>***", in_front.sub(r"\g<user>:***@", text))


def _file_of(url: str) -> Path | None:
    """Return the file of a SQLite storage; None for others, and for SQLite's special URLs."""
    import sqlalchemy

    try:
        parts = sqlalchemy.make_url(url)
    except sqlalchemy.exc.ArgumentError:
        return None
    if parts.get_backend_name() != "sqlite" or parts.query or not parts.database:
        return None
    return None if parts.database == ":memory:" else Path(parts.database)


def _has_content(path: Path) -> bool:
    """Return whether a file has content; SQLite creates a database in an empty one."""
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _create_file(url: str, path: Path) -> None:
    """Create a database with Optuna's tables atomically.

    Other processes find either no file or a complete one. Of several processes that create the same
    file, the first wins and the others open its file.

    Raises:
        StoreError: the database cannot be created.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        _database(f"sqlite:///{draft}", {}, writing=True)  # Dropped, and with it its connections.
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    except OSError as error:
        raise _cannot_open(url, error) from None
    finally:
        for left in (draft, draft.with_name(f"{draft.name}-journal")):
            left.unlink(missing_ok=True)


def _options(url: str, *, writing: bool) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if not is_sqlite(url):
        # The pool replaces connections that died while idle, as after a restart.
        options = {"pool_pre_ping": True}
    if url.startswith("postgresql"):
        options["connect_args"] = {"application_name": "tuner", "connect_timeout": 10}
        if not writing:
            options["execution_options"] = {"postgresql_readonly": True}
    return options


class _StartingError(StoreError):
    """A database that says that it will answer soon."""


def _started(open_: Callable[[], Any], say: Say) -> Any:
    """Open a database, and wait while it says that it is about to start.

    Raises:
        StoreError: it cannot be opened, or does not start in time.
    """
    deadline = time.monotonic() + _STARTING_S
    while True:
        try:
            return open_()
        except _StartingError as error:
            if time.monotonic() > deadline:
                raise
            say(f"{error}; retrying for up to {deadline - time.monotonic():.0f} s")
            time.sleep(_FIRST_WAIT_S)


def _database(url: str, options: dict[str, Any], *, writing: bool) -> Any:
    import optuna
    import sqlalchemy

    # Optuna formats the URL; a brace in a password is not a field.
    template = url.replace("{", "{{").replace("}", "}}")
    rdb = functools.partial(
        optuna.storages.RDBStorage,
        template,
        engine_kwargs=options,
        skip_table_creation=not writing,
    )
    for attempt in range(1, _OPENING_ATTEMPTS + 1):
        try:
            made = rdb(skip_compatibility_check=bool(_COMPATIBLE))
            if made.get_current_version() not in _COMPATIBLE:
                if _COMPATIBLE:
                    rdb()  # Its check decides.
                _COMPATIBLE.add(made.get_current_version())
        except (sqlalchemy.exc.IntegrityError, sqlalchemy.exc.ProgrammingError) as error:
            # Of several workers that create the tables at once, all but one fail.
            if attempt == _OPENING_ATTEMPTS:
                raise _cannot_open(url, error) from None
            time.sleep(random.uniform(0.1, 0.5) * attempt)  # noqa: S311 - no secret
        except (
            *(sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError),
            *(ImportError, RuntimeError, ValueError, TypeError),
        ) as error:
            raise _cannot_open(url, error) from None
        else:
            # Dropping a storage also drops its pooled connections.
            weakref.finalize(made, made.engine.dispose)
            opened: Any = optuna.storages.get_storage(made)
            opened.read_attributes = functools.partial(read_attributes, made.engine)
            return opened
    raise AssertionError  # pragma: no cover - the loop returns or raises


def _cannot_open(url: str, error: Exception) -> StoreError:
    cause = error.__cause__ or error
    # The database's message in one line, without the failed statement.
    own = getattr(cause, "orig", None) or getattr(error, "orig", None) or error
    words = scrubbed(" ".join(str(own).split()))
    try:
        password = urlsplit(url).password
    except ValueError:
        password = None
    if password:
        words = words.replace(password, "***")
    if isinstance(error, TypeError):
        words = f"{words} (its encoding must be UTF8: CREATE DATABASE … ENCODING 'UTF8')"
    if isinstance(error, ImportError) and url.startswith("postgresql"):
        words = f"{words} (pip install 'servertune[postgresql]' brings the driver psycopg)"
    kind = _StartingError if any(text in words for text in _STARTING) else StoreError
    return kind(f"the storage {without_secret(url)} cannot be opened: {words}")


def _proxy(url: str) -> Any:
    import warnings

    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port or DEFAULT_PROXY_PORT
    except ValueError:
        host, port = None, 0
    if not host or parts.path not in {"", "/"}:
        raise StoreError(f"{without_secret(url)} is not a proxy's address; write grpc://HOST:PORT")
    import optuna

    _check_room()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            proxy = optuna.storages.GrpcStorageProxy(host=host, port=port)
            proxy.wait_server_ready(timeout=5)
    except ImportError as error:
        raise StoreError(
            f"{without_secret(url)} needs grpcio: pip install 'servertune[grpc]' ({error})"
        ) from None
    except ConnectionError:
        raise StoreError(
            f"no proxy answers at {host}:{port}; start one there with"
            " 'tuner proxy --storage postgresql+psycopg://…'"
        ) from None
    return proxy


def _check_room() -> None:
    """Raise unless gRPC has room for its threads and files.

    Without it gRPC aborts the process (https://github.com/grpc/grpc/issues/31117).

    Raises:
        MemoryError: the address space is used up.
        OSError: too many files are open.
    """
    with contextlib.ExitStack() as opened:
        for _ in range(_FILES):
            opened.enter_context(Path(os.devnull).open("rb"))
    try:
        mmap.mmap(-1, _THREADS_BYTES).close()
    except OSError as error:
        raise MemoryError from error


class _RetryingStorage:
    """A storage that retries requests with growing pauses while it does not answer.

    All of Optuna's requests can be repeated except the creation of a trial: its creator marks a
    trial and finds duplicates by the mark (see ``tuner.store.store``).
    """

    def __init__(self, storage: Any, say: Say) -> None:
        self._storage = storage
        self._say = say

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._storage, name)
        if name.startswith("_") or not callable(found):
            return found
        return functools.partial(self._ask, found)

    def _ask(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        began, wait_s, reported = time.monotonic(), _FIRST_WAIT_S, False
        while True:
            try:
                found = method(*args, **kwargs)
            except Exception as error:
                waited_s = time.monotonic() - began
                if not may_answer_again(error) or waited_s > PATIENCE_S:
                    raise
                self._say(
                    f"the storage does not answer ({_first_line(error)}); retrying in"
                    f" {wait_s:.1f} s, for up to {(PATIENCE_S - waited_s) / 60:.0f} min"
                )
                reported = True
                # Random, so that a thousand workers do not all retry at the same instant.
                time.sleep(wait_s * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
            else:
                if reported:
                    self._say("the storage answers again")
                return found


def may_answer_again(error: BaseException) -> bool:
    """Return whether a storage failed temporarily, so that a retry may succeed."""
    import sqlalchemy

    cause = error.__cause__ or error
    if isinstance(cause, sqlalchemy.exc.OperationalError | sqlalchemy.exc.InterfaceError):
        return True
    if isinstance(cause, sqlalchemy.exc.TimeoutError):
        return True
    if isinstance(cause, sqlalchemy.exc.PendingRollbackError):
        # Optuna itself retries a failed read of trials in the failed transaction.
        return True
    if isinstance(cause, sqlalchemy.exc.DBAPIError):
        return cause.connection_invalidated
    code = getattr(error, "code", None)
    name = getattr(code(), "name", "") if callable(code) else ""
    return name in {"UNAVAILABLE", "RESOURCE_EXHAUSTED"}


def _first_line(error: BaseException) -> str:
    cause = error.__cause__ or error
    text = str(getattr(cause, "orig", None) or cause).strip() or type(cause).__name__
    return scrubbed(text.splitlines()[0])[:160]


def failed(error: BaseException) -> bool:
    """Return whether an exception comes from a storage, of any kind."""
    import optuna
    import sqlalchemy

    kinds = (optuna.exceptions.StorageInternalError, sqlalchemy.exc.SQLAlchemyError)
    return isinstance(error, kinds) or callable(getattr(error, "code", None))


def failed_file(error: BaseException) -> str:
    """Return SQLite's words about a file that it cannot use; empty for other errors."""
    for cause in (error, error.__cause__):
        original = getattr(cause, "orig", None)
        if isinstance(original, sqlite3.OperationalError):
            return str(original)
    return ""


def writes(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """Turn errors of the storage in a write into a `StoreError`, such as for a full disk.

    A write to a block that another worker ended raises `LeaseLostError`.
    """

    @functools.wraps(method)
    def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        import optuna

        try:
            return method(*args, **kwargs)
        except optuna.exceptions.UpdateFinishedTrialError as error:
            raise LeaseLostError(
                "the lease ran out and another worker has ended the block; what was written is"
                " kept, what comes later is discarded"
            ) from error
        except Exception as error:
            if not failed(error):
                raise
            cause = error.__cause__ or error
            # The database's message, without the statement and its values.
            words = scrubbed(str(getattr(cause, "orig", None) or cause))
            raise StoreError(
                f"the record cannot be written: {words}; what was written so far is kept, and the"
                " command can go on once the storage has room and answers"
            ) from error

    return guarded
