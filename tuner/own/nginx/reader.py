"""Nginx's configurations: tuner reads the language itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tuner.own.bound import BoundSpace
from tuner.own.files import Files
from tuner.own.home import Home
from tuner.own.nginx import in_place, server
from tuner.own.nginx.edits import change_texts
from tuner.own.nginx.serving import NginxServing, count_sites, serving
from tuner.own.nginx.table import bind, changes
from tuner.own.nginx.tree import Tree, parse, write
from tuner.own.patch import plain
from tuner.own.reader import Commands, FoundService, Service
from tuner.own.server import OwnConfiguration, OwnOptions
from tuner.own.target import Target
from tuner.reading.log_notation import LineFormat, log_format
from tuner.servers import nginx
from tuner.space.configuration import Configuration
from tuner.space.space import Space
from tuner.workload.workload import Workload

reads_with_program = False
passes_grpc = True
tunes_in_place = True

_PATHS = ("/",)
"""The paths that a host is asked for: those of the lab's files say nothing of its own."""


@dataclass(frozen=True, slots=True)
class FoundNginx(FoundService):
    """The files of a service, read."""

    tree: Tree


@dataclass(frozen=True, slots=True)
class PlacedNginx:
    """Implement ``Placed``."""

    bound: BoundSpace
    serving: NginxServing

    def texts(self, configuration: Configuration) -> dict[str, str]:
        """Implement ``Placed``."""
        edits = changes(self.bound, self.serving, configuration, reference=self.bound.baseline)
        return change_texts(self.serving.tree, edits)


def read(
    wishes: OwnOptions,
    workload: Workload,
    target: Target,
    program: str,  # noqa: ARG001 - the port's, for servers whose program reads the files
) -> OwnConfiguration:
    """Implement ``Reader.read``."""
    return replace(server.read(wishes, workload), target=target)


def sites_of(
    wishes: OwnOptions,
    workload: Workload,
    program: str,  # noqa: ARG001 - as for ``read``
) -> tuple[str, ...]:
    """Implement ``Reader.sites_of``."""
    return tuple(server.sites_of(wishes, workload))


def read_in_place(
    wishes: OwnOptions,
    workload: Workload,
    service: Service,
    program: str,  # noqa: ARG001 - as for ``read``
) -> OwnConfiguration:
    """Implement ``Reader.read_in_place``."""
    return in_place.read(wishes, workload, service.files())


def read_service(
    main: str,
    files: Files,
    home: Callable[[], Home],  # noqa: ARG001 - as for ``read``
) -> FoundService:
    """Implement ``Reader.read_service``."""
    tree = parse(main, files)
    return FoundNginx(main, tree.texts, plain(write(tree.directives)), tree)


def place(
    found: FoundService, space: Space, *, server_name: str, tls: bool, proxied: bool
) -> PlacedNginx:
    """Implement ``PlaceFinder``."""
    assert isinstance(found, FoundNginx)  # noqa: S101 - of ``read_service``
    reached = serving(found.tree, _PATHS, server_name=server_name, tls=tls, proxied=proxied)
    return PlacedNginx(bind(space, reached), reached)


def log_formats(main: str, log: str) -> tuple[LineFormat, ...]:
    """Implement ``Reader.log_formats``."""
    found = list(parse(main).walk())
    formats = [log_format(one.args) for one in found if one.name == "log_format" and one.args]
    used = {
        f"log_format {one.args[1]}"
        for one in found
        if one.name == "access_log" and len(one.args) > 1 and Path(one.args[0]).name == log
    }
    # A format with more fields is the more specific one.
    return tuple(sorted(formats, key=lambda one: (one.name not in used, -len(one.fields))))


def access_logs(main: str) -> tuple[str, ...]:
    """Implement ``Reader.access_logs``."""
    named = [one.args[0] for one in parse(main).walk() if one.name == "access_log" and one.args]
    return tuple(path for path in named if path.startswith("/") and "$" not in path)


def version() -> str:
    """Implement ``Reader.version``."""
    return nginx.detect().version


def sites(main: str, files: Files) -> int:
    """Implement ``Reader.sites``."""
    return count_sites(parse(main, files).http())


def commands(main: str, *, usual: bool) -> Commands:
    """Implement ``Reader.commands``."""
    return Commands((nginx.name, "-t", *(() if usual else ("-c", main))))
