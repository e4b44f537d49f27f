"""HAProxy's configurations: tuner reads the language itself, one file of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tuner.errors import DefinitionError
from tuner.own.bound import BoundSpace
from tuner.own.files import Files
from tuner.own.haproxy import server
from tuner.own.haproxy.serving import HaproxyServing, serving
from tuner.own.haproxy.table import bind, changed
from tuner.own.haproxy.tree import CLIENT_SIDE, HaproxyTree
from tuner.own.haproxy.tree import read as read_tree
from tuner.own.home import Home
from tuner.own.patch import plain
from tuner.own.reader import Commands, FoundService, Service
from tuner.own.server import OwnConfiguration, OwnOptions
from tuner.own.target import Target
from tuner.reading.log_notation import LineFormat
from tuner.servers import haproxy
from tuner.space.configuration import Configuration
from tuner.space.space import Space
from tuner.workload.workload import Workload

reads_with_program = False
passes_grpc = False
tunes_in_place = False


@dataclass(frozen=True, slots=True)
class FoundHaproxy(FoundService):
    """The file of a service, read."""

    tree: HaproxyTree


@dataclass(frozen=True, slots=True)
class PlacedHaproxy:
    """Implement ``Placed``."""

    bound: BoundSpace
    serving: HaproxyServing

    def texts(self, configuration: Configuration) -> dict[str, str]:
        """Implement ``Placed``."""
        tree = self.serving.tree
        after = changed(self.bound, self.serving, configuration, reference=self.bound.baseline)
        return {tree.file: after.text} if after.text != tree.text else {}


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
    workload: Workload,  # noqa: ARG001 - the port's
    service: Service,  # noqa: ARG001
    program: str,  # noqa: ARG001
) -> OwnConfiguration:
    """Implement ``Reader.read_in_place``.

    Raises:
        DefinitionError: always; a running HAProxy is not reloaded yet.
    """
    raise DefinitionError(
        f"HAProxy is not tuned in place yet; leave it out: the lab serves {wishes.config} next to"
        " the service",
        path="--in-place",
    )


def read_service(
    main: str,
    files: Files,
    home: Callable[[], Home],  # noqa: ARG001 - as for ``read``
) -> FoundService:
    """Implement ``Reader.read_service``."""
    tree = read_tree(main, files)
    return FoundHaproxy(main, {main: tree.text}, plain(tree.text), tree)


def place(
    found: FoundService, space: Space, *, server_name: str, tls: bool, proxied: bool
) -> PlacedHaproxy:
    """Implement ``PlaceFinder``."""
    assert isinstance(found, FoundHaproxy)  # noqa: S101 - of ``read_service``
    reached = serving(found.tree, name=server_name, tls=tls, proxied=proxied)
    return PlacedHaproxy(bind(space, reached), reached)


def log_formats(main: str, log: str) -> tuple[LineFormat, ...]:  # noqa: ARG001 - the port's
    """Implement ``Reader.log_formats``.

    Raises:
        DefinitionError: always; HAProxy's formats are not read yet.
    """
    raise DefinitionError(
        "a format of HAProxy cannot be read yet; leave out --config and name one: --format",
        path=main,
    )


def access_logs(main: str) -> tuple[str, ...]:  # noqa: ARG001 - it logs to a service
    """Implement ``Reader.access_logs``; HAProxy writes no files."""
    return ()


def version() -> str:
    """Implement ``Reader.version``."""
    return haproxy.detect().version


def sites(main: str, files: Files) -> int:
    """Implement ``Reader.sites``."""
    tree = read_tree(main, files)
    return sum(section.serves_http for section in tree.of(*CLIENT_SIDE))


def commands(main: str, *, usual: bool) -> Commands:  # noqa: ARG001 - it has no usual file
    """Implement ``Reader.commands``."""
    return Commands((haproxy.name, "-c", "-f", main))
