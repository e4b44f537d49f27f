"""The user's own Caddy in place: its files with other values, on its own ports.

Nothing is added to the files: the admin endpoint proves that the service runs with them, because it
returns the same JSON as ``caddy adapt``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tuner.errors import DefinitionError
from tuner.hosts.deployer import ServiceSpec
from tuner.machine.facts import ServerFacts
from tuner.own.caddy import server
from tuner.own.caddy.origin import InexpressibleError
from tuner.own.caddy.table import bind
from tuner.own.caddy.tree import look, written
from tuner.own.home import Home
from tuner.own.server import OwnOptions
from tuner.own.service import Socket, askable, asked_by, refuse_raised, sent, socket_of
from tuner.servers import caddy
from tuner.servers.ground import TargetGround
from tuner.space.configuration import Configuration
from tuner.space.space import Space
from tuner.workload.workload import Workload

_ASIDE: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(
        caddy.syntax.environment,
        "is in the environment of the service, which stays as it is in place",
    )
)


@dataclass(frozen=True, slots=True)
class InPlaceConfiguration(server.CaddyOwnConfiguration):
    """A configuration of a running service."""

    def adapt(self, space: Space, server: ServerFacts) -> tuple[InPlaceCaddy, tuple[str, ...]]:
        """Implement ``OwnConfiguration.adapt``: nothing differs, so nothing is tried out here.

        Raises:
            DefinitionError: it has no tunable parameter, or cannot be tuned in place.
        """
        origin, found = self.origin, self.serving
        bound = bind(space, origin, found, _ASIDE)
        made = InPlaceCaddy(self, bound, socket=_socket(self), binary=server.binary)
        refuse_raised(bound, origin.file)
        if look(origin.config, ("admin", "disabled")):
            raise DefinitionError(
                "admin off: in place, Caddy's admin endpoint proves its configuration; let it"
                " listen on a socket: admin unix//run/caddy/admin.sock",
                path=origin.file,
            )
        unsaid = made.unsaid()
        if unsaid:
            raise DefinitionError(f"cannot be changed in place: {unsaid}", path=origin.file)
        made.files(bound.baseline)
        count = len(origin.texts)
        notes = [f"own configuration: {origin.file}, {count} file{'s' * (count > 1)} of the target"]
        if found.tls:
            notes.append(f"requests to {found.words} use TLS")
        return made, tuple(notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlaceCaddy(server.OwnCaddy):
    """An ``OwnServer`` with the host's service as instances, with other files."""

    socket: Socket
    binary: str

    def instance(
        self,
        label: str,
        configuration: Configuration,
        space: Space,  # noqa: ARG002 - the port's; ``bound`` has it with the user's values
        ground: TargetGround,  # noqa: ARG002 - it stands where it always stood
        port: int,  # noqa: ARG002 - its own
    ) -> ServiceSpec:
        """Implement ``Server``, with absolute paths and the existing service."""
        validate, adapted = caddy.service_commands(self.own.origin.file, self.binary)
        return ServiceSpec(
            instance=label,
            directory="/",
            files=self.files(configuration),
            folders=(),
            validate=validate,
            start=(),
            pid_file="",
            live_url="",
            live_token=configuration.digest,
            live_adapted=adapted,
            program=self.binary,
            environment={},
            cpus=(),
        )

    def files(self, configuration: Configuration) -> dict[str, str]:
        """Return the changed files by path without the first slash.

        Raises:
            DefinitionError: a Caddyfile cannot express it, or a file is not UTF-8.
        """
        changed = self.changed(configuration)
        if isinstance(changed, InexpressibleError):
            raise DefinitionError(
                f"cannot be changed in place: {changed}", path=self.own.origin.file
            )
        return sent(changed)


def read(wishes: OwnOptions, workload: Workload, home: Home) -> InPlaceConfiguration:
    """Read the configuration of a host's service, and locate the workload's site in it.

    Args:
        wishes: options with an absolute ``config``.
        workload: workload for the service's own content.
        home: the host.

    Raises:
        DefinitionError: an error with the file, and the line if Caddy reports it.
    """
    found = server.read(wishes, workload, home, either=True)
    name = askable([wishes.server_name, found.serving.host])
    asked = asked_by(found.workload, name)
    return InPlaceConfiguration(found.wishes, found.origin, found.serving, asked)


def _socket(own: InPlaceConfiguration) -> Socket:
    """Return the site's socket: the first address that other hosts can reach.

    Raises:
        DefinitionError: there is none.
    """
    place, config = own.serving.server, own.origin.config
    wrappers = look(config, (*place, "listener_wrappers")) or ()
    why = "listens nowhere"
    if any(each.get("wrapper") == "proxy_protocol" for each in wrappers):
        why = "the load generator does not speak proxy_protocol"
    else:
        for text in look(config, (*place, "listen")) or ():
            found = _parsed(str(text))
            if isinstance(found, Socket):
                return found
            why = f"{text}: {found}"
    raise DefinitionError(
        f"{written(place)}: {why}; choose another site (--server-name)", path=own.origin.file
    )


def _parsed(text: str) -> Socket | str:
    """https://caddyserver.com/docs/conventions#network-addresses."""
    network, _, rest = text.rpartition("/")
    if network not in ("", "tcp", "tcp4"):
        return "it is asked over TCP and IPv4"
    address, _, port = rest.rpartition(":")
    if not port.isdigit():
        return "it is not a single port"
    return socket_of(address.strip("[]"), int(port))
