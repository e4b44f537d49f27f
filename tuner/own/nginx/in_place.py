"""The user's own Nginx in place: its files with other values, on its own ports.

There is no lab. A configuration is the host's own files with changed parameters and an additional
location that proves the running configuration; the baseline is the files with only that location.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from tuner.errors import DefinitionError
from tuner.hosts.deployer import ServiceSpec
from tuner.machine.facts import ServerFacts
from tuner.own.files import Files
from tuner.own.nginx import server as nginx
from tuner.own.nginx.edits import Insert, change_texts
from tuner.own.nginx.serving import names
from tuner.own.nginx.table import bind, changes
from tuner.own.nginx.tree import Directive, parse
from tuner.own.server import OwnOptions
from tuner.own.service import Socket, askable, asked_by, refuse_raised, sent, socket_of
from tuner.servers.ground import LIVE_PATH, TargetGround
from tuner.space.configuration import Configuration
from tuner.space.space import Space
from tuner.workload.workload import Workload


@dataclass(frozen=True, slots=True)
class InPlaceNginxConfiguration(nginx.NginxOwnConfiguration):
    """A configuration of a running service."""

    def adapt(self, space: Space, server: ServerFacts) -> tuple[InPlaceNginx, tuple[str, ...]]:
        """Implement ``OwnConfiguration.adapt``: nothing differs, so nothing is tried out here.

        Raises:
            DefinitionError: it has no tunable parameter, or cannot be tuned in place.
        """
        prefix = re.search(r"--prefix=(\S+)", server.build)
        where = prefix.group(1) if prefix else "/usr/local/nginx"
        made = InPlaceNginx(
            self,
            bind(space, self.serving),
            where,
            socket=_socket(self.serving.listen, self.serving.server),
            pid_file=_pid_file(self, server, where),
            binary=server.binary,
        )
        refuse_raised(made.bound, self.tree.file)
        made.files(made.bound.baseline)
        notes = [f"own configuration: {self.tree.file}, {len(self.tree.texts)} files of the target"]
        if self.serving.tls:
            notes.append(f"requests to {self.serving.server.where} use TLS")
        return made, (*notes, *self.tree.notes, *self.serving.notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlaceNginx(nginx.OwnNginx):
    """An ``OwnServer`` with the host's service as instances, with other files."""

    socket: Socket
    pid_file: str
    binary: str

    def instance(
        self,
        label: str,
        configuration: Configuration,
        space: Space,  # noqa: ARG002 - the port's; ``bound`` has it with the user's values
        ground: TargetGround,  # noqa: ARG002 - it stands where it always stood
        port: int,
    ) -> ServiceSpec:
        """Implement ``Server``, with absolute paths and the existing service."""
        scheme = "https" if self.own.serving.tls else "http"
        # As the host itself reaches it.
        address = self.socket.address or "127.0.0.1"
        return ServiceSpec(
            instance=label,
            directory="/",
            files=self.files(configuration),
            folders=(),
            validate=(self.binary, "-t", "-c", self.own.tree.file),
            start=(),
            pid_file=self.pid_file,
            live_url=f"{scheme}://{address}:{port}{LIVE_PATH}",
            live_token=configuration.digest,
            live_host=name_of(self.own) or address,
            environment={},
            cpus=(),
        )

    def files(self, configuration: Configuration) -> dict[str, str]:
        """Return the changed files by path without the first slash.

        Raises:
            DefinitionError: one of them is not UTF-8 and cannot be sent unchanged.
        """
        own = self.own
        proof = Insert(
            own.serving.server,
            "location",
            ("=", LIVE_PATH),
            (("access_log", "off"), ("return", "200", configuration.digest)),
        )
        edits = (*changes(self.bound, own.serving, configuration), proof)
        return sent(change_texts(own.tree, edits))


def read(wishes: OwnOptions, workload: Workload, files: Files) -> InPlaceNginxConfiguration:
    """Read the configuration of a host's service, and locate the workload's server in it.

    Args:
        wishes: options with an absolute ``config``.
        workload: workload for the service's own content.
        files: files of the host.

    Raises:
        DefinitionError: at file and line.
    """
    found = nginx.locate(wishes, workload, parse(wishes.config, files))
    asked = asked_by(found.workload, name_of(found))
    return InPlaceNginxConfiguration(found.wishes, found.serving, asked)


def name_of(own: nginx.NginxOwnConfiguration) -> str:
    """Return a name for requests to the server; empty if it has none."""
    return askable([own.wishes.server_name, *names(own.serving.server)])


def _socket(listen: Directive | None, server: Directive) -> Socket:
    """Return the server's socket.

    Raises:
        DefinitionError: other hosts cannot reach it.
    """
    text = listen.args[0] if listen else "80"
    where = listen or server

    def wrong(why: str) -> DefinitionError:
        return DefinitionError(
            f"listen {text}: {why}; choose another server (--server-name)",
            path=where.file,
            line=where.line,
        )

    if listen and "proxy_protocol" in listen.args:
        raise wrong("the load generator does not speak proxy_protocol")
    if text.startswith("["):
        raise wrong("a server with IPv6 only cannot be tuned in place")
    address, _, port = ("", "", text) if text.isdigit() else text.partition(":")
    found = socket_of(address, int(port or 80))
    if isinstance(found, str):
        raise wrong(found)
    return found


def _pid_file(own: nginx.NginxOwnConfiguration, server: ServerFacts, prefix: str) -> str:
    """Return the pid file: as configured, or as compiled in."""
    said = [found.args[0] for found in own.tree.children("pid")]
    compiled = re.search(r"--pid-path=(\S+)", server.build)
    path = said[-1] if said else compiled.group(1) if compiled else "logs/nginx.pid"
    return str(PurePosixPath(prefix) / path)
