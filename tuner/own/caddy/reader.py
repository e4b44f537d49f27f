"""Caddy's configurations: the JSON that a Caddy makes of them, where and as it finds them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tuner.errors import DefinitionError
from tuner.own.caddy import caddyfile, in_place, server
from tuner.own.copies import guessed, named
from tuner.own.files import HERE, Files
from tuner.own.home import Home, LocalHome
from tuner.own.missing import refuse
from tuner.own.patch import plain
from tuner.own.reader import Commands, FoundService, Service
from tuner.own.server import OwnConfiguration, OwnOptions
from tuner.own.target import Target
from tuner.reading.caddyfile_text import statements
from tuner.reading.env_file import read_env_file
from tuner.reading.log_notation import LineFormat
from tuner.reading.statement import Statement
from tuner.servers import caddy
from tuner.workload.workload import Workload

reads_with_program = True
passes_grpc = False
tunes_in_place = True
place = None


def read(wishes: OwnOptions, workload: Workload, target: Target, program: str) -> OwnConfiguration:
    """Implement ``Reader.read``."""
    return replace(server.read(wishes, workload, _home(wishes, program)), target=target)


def sites_of(wishes: OwnOptions, workload: Workload, program: str) -> tuple[str, ...]:
    """Implement ``Reader.sites_of``."""
    return tuple(server.sites_of(wishes, workload, _home(wishes, program)))


def _home(wishes: OwnOptions, program: str) -> LocalHome:
    """Return this machine, with the folders that stand for paths of a copied configuration."""
    added = read_env_file(wishes.env_file) if wishes.env_file else {}
    return with_copies(wishes.config, LocalHome(program, added, named(wishes.prefix)))


def with_copies(config: str, home: LocalHome) -> LocalHome:
    """Return a home with the path for which the folder of a main file stands, if it is a copy.

    Raises:
        DefinitionError: the copy lacks a file, or one cannot be read.
    """
    main = str(Path(config).absolute())
    if main.endswith(".json"):
        return home
    with contextlib.suppress(OSError, DefinitionError):  # Reading the configuration reports them.
        text = home.read(main).decode("utf-8", "surrogateescape")
        imports = caddyfile.absolute_imports(text, main, home)
        home = replace(home, copies=guessed(main, imports, home, home.copies))
    if home.is_copy:
        refuse(caddyfile.missing(main, home), home.copies, main, home)
    return home


def read_in_place(
    wishes: OwnOptions, workload: Workload, service: Service, program: str
) -> OwnConfiguration:
    """Implement ``Reader.read_in_place``."""
    return in_place.read(wishes, workload, service.home(program))


def read_service(main: str, files: Files, home: Callable[[], Home]) -> FoundService:
    """Implement ``Reader.read_service``: a Caddyfile with its imports, or Caddy's JSON."""
    if main.endswith(".json"):
        try:
            text = files.read(main).decode("utf-8", "surrogateescape")
        except OSError as error:
            raise DefinitionError(f"cannot be read: {error.strerror}", path=main) from None
        return FoundService(main, {main: text}, plain(text))
    here = home()
    texts = caddyfile.read(main, here)
    return FoundService(main, texts, plain(caddyfile.inlined(texts, main, here)))


def log_formats(main: str, log: str) -> tuple[LineFormat, ...]:  # noqa: ARG001 - it defines none
    """Implement ``Reader.log_formats``."""
    raise DefinitionError(
        "a configuration of Caddy defines no format; leave out --config: Caddy's JSON and console"
        " formats are recognised",
        path=main,
    )


def access_logs(main: str) -> tuple[str, ...]:
    """Implement ``Reader.access_logs``; those of JSON are unknown."""
    if main.endswith(".json"):
        return ()
    texts = caddyfile.read(main, with_copies(main, LocalHome("")))
    found = [statement for text in texts.values() for statement in statements(text)]
    paths = [one.words[2] for one in found if _is_access_log(one) and len(one.words) > 2]
    return tuple(path for path in paths if path.startswith("/") and "{" not in path)


def _is_access_log(one: Statement) -> bool:
    """Return True for the file of a site's log; the block of the global options has no address."""
    in_log = bool(one.within) and one.within[-1][:1] == ("log",)
    return one.words[:2] == ("output", "file") and in_log and one.within[0] != ()


def version() -> str:
    """Implement ``Reader.version``."""
    return caddy.installed_version()


def sites(main: str, files: Files) -> int:
    """Implement ``Reader.sites``; those of JSON are unknown.

    Raises:
        DefinitionError: the configuration is JSON, or cannot be read.
    """
    if main.endswith(".json"):
        raise DefinitionError("has routes instead of sites", path=main)
    home = _FilesHome("", files=files)
    return caddyfile.count_sites(caddyfile.read(main, home), main, home)


@dataclass(frozen=True, slots=True)
class _FilesHome(LocalHome):
    """A home with other files and without a program."""

    files: Files = HERE

    def read(self, path: str) -> bytes:
        """Implement ``Files``."""
        return self.files.read(path)

    def matches(self, pattern: str) -> list[str]:
        """Implement ``Files``."""
        return self.files.matches(pattern)


def commands(main: str, *, usual: bool) -> Commands:  # noqa: ARG001 - the command has the file
    """Implement ``Reader.commands``.

    Validating opens log files, so it runs as the service's process. A reload that fails keeps what
    ran, so Caddy's administration proves the change.
    """
    validate, adapted = caddy.service_commands(main)
    return Commands(validate, adapted, caddy.name)
