"""The user's own HAProxy behind the port for servers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tuner.errors import DefinitionError
from tuner.hosts.deployer import InstanceSpec
from tuner.machine.facts import ServerFacts
from tuner.own.bound import BoundSpace
from tuner.own.haproxy.lab import HaproxyLabConfiguration, HaproxyLabSlot, carry
from tuner.own.haproxy.line_options import option_value
from tuner.own.haproxy.serving import HaproxyServing, is_quic, serving
from tuner.own.haproxy.table import bind, changed
from tuner.own.haproxy.tree import HaproxyTree
from tuner.own.haproxy.tree import read as read_tree
from tuner.own.kind import OfKind
from tuner.own.patch import exported, plain
from tuner.own.server import OwnOptions, answered_by, over_tls
from tuner.own.target import THIS_MACHINE, Target
from tuner.own.tryout import wrong_baseline
from tuner.render.render import EXPORT, Placement
from tuner.servers import haproxy
from tuner.servers.ground import LIVE_PATH, TLS_FOLDER, TargetGround
from tuner.servers.server import Server
from tuner.servers.trial import refusal, trial_ground
from tuner.space.configuration import Configuration
from tuner.space.space import Space
from tuner.workload.wire import Wire
from tuner.workload.workload import Request, Workload

_PORT = 18_080
"""Port for ``haproxy -c``, which opens no socket."""
_HTTP2_BY_DEFAULT = (2, 8)
"""First version that offers HTTP/2 over TLS without ``alpn``."""
_LINE = re.compile(r"^config *: *(?:parsing )?\[(\S+):(\d+)\] *:? *")


@dataclass(frozen=True, slots=True)
class HaproxyOwnConfiguration:
    """A configuration of HAProxy, with the part that a workload reaches."""

    wishes: OwnOptions
    serving: HaproxyServing
    workload: Workload
    """The workload for this frontend, over TLS if it requires it."""
    target: Target = THIS_MACHINE
    """Host of the server."""

    def adapt(self, space: Space, server: ServerFacts) -> tuple[OwnHaproxy, tuple[str, ...]]:
        """Implement ``OwnConfiguration``."""
        return adapt(self, space, server)


def read(wishes: OwnOptions, workload: Workload) -> HaproxyOwnConfiguration:
    """Read a configuration, and locate the workload's frontend in it.

    Raises:
        DefinitionError: at file and line; also if the lab cannot answer the workload.
    """
    if wishes.prefix:
        raise DefinitionError("a configuration of HAProxy names no other files", path="--prefix")
    return locate(wishes, workload, read_tree(wishes.config))


def locate(wishes: OwnOptions, workload: Workload, tree: HaproxyTree) -> HaproxyOwnConfiguration:
    """Locate the workload's frontend in a configuration.

    Raises:
        DefinitionError: there is none.
    """
    found = serving(
        tree,
        name=wishes.server_name,
        tls=workload.wire.tls is not None,
        proxied=workload.backend is not None,
    )
    workload = over_tls(workload, served=found.tls)
    return HaproxyOwnConfiguration(wishes, found, workload)


def sites_of(wishes: OwnOptions, workload: Workload) -> Iterator[str]:
    """Return the frontend that answers each request of a workload; "" where the lab cannot.

    Raises:
        DefinitionError: the configuration cannot be read.
    """
    tree = read_tree(wishes.config)
    return answered_by(workload, lambda one: locate(wishes, one, tree).serving.where)


def _check_protocol(found: HaproxyServing, wire: Wire, version: tuple[int, ...]) -> None:
    """Raise DefinitionError if the frontend does not speak the workload's protocol.

    Raises:
        DefinitionError: it does not.
    """
    line = next(iter(found.bindings), None)
    if line is None:
        raise DefinitionError(
            f"{found.frontend.label} has no address over TCP",
            path=found.tree.file,
            line=found.frontend.head.number,
        )
    offered = option_value(line, "alpn")
    speaks = {"http1"}
    by_default = offered is None and version >= _HTTP2_BY_DEFAULT
    if not found.tls or by_default or "h2" in (offered or "").split(","):
        speaks.add("http2")
    if any(is_quic(each) for each in found.frontend.own("bind")):
        speaks.add("http3")
    if wire.protocol not in speaks:
        raise DefinitionError(
            f"the workload asks over {wire.protocol}, which this address does not offer; choose a"
            " workload over http1 (--workload), or another frontend (--server-name)",
            path=found.tree.file,
            line=line.number,
        )


@dataclass(frozen=True, slots=True)
class OwnHaproxy(OfKind):
    """A ``Server`` with instances and exports of the user's file."""

    kind: ClassVar[Server] = haproxy

    own: HaproxyOwnConfiguration
    bound: BoundSpace

    @property
    def file_name(self) -> str:
        """Implement ``Server``."""
        return haproxy.file_name

    @property
    def site(self) -> str:
        """Implement ``OwnServer``."""
        found = self.own.serving
        return f"{found.frontend.label} ({found.where})"

    def answering(self, request: Request) -> str:  # noqa: ARG002 - HAProxy evaluates conditions
        """Implement ``OwnServer``."""
        return self.site

    def instance(
        self,
        label: str,
        configuration: Configuration,
        space: Space,  # noqa: ARG002 - the port's; ``bound`` has it with the user's values
        ground: TargetGround,
        port: int,
    ) -> InstanceSpec:
        """Implement ``Server``."""
        directory = ground.instances_dir / label
        carried = self.carried(configuration, ground, directory, port)
        live = configuration.digest
        return haproxy.spec(label, plain(carried.text), ground, directory, port=port, live=live)

    def carried(
        self, configuration: Configuration, ground: TargetGround, directory: Path, port: int
    ) -> HaproxyLabConfiguration:
        """Return a configuration adapted to the lab."""
        found, wishes = self.own.serving, self.own.wishes
        slot = HaproxyLabSlot(
            address=f"{ground.address}:{port}",
            backends=() if wishes.keep_upstreams else ground.upstreams,
            tls_dir=str(directory / TLS_FOLDER) if ground.certificate else "",
            protocol=self.own.workload.wire.protocol,
            live_path=LIVE_PATH,
            token=configuration.digest,
            readable=self.own.target.is_readable,
        )
        return carry(found.reread(changed(self.bound, found, configuration)), slot)

    def export_text(
        self,
        configuration: Configuration,
        space: Space,  # noqa: ARG002 - as for ``instance``
        placement: Placement = EXPORT,  # noqa: ARG002 - the user's own places stay
    ) -> str:
        """Return the user's file with the values of a configuration."""
        return plain(self._changed(configuration))

    def export_files(
        self,
        configuration: Configuration,
        space: Space,  # noqa: ARG002 - as for ``instance``
        server: ServerFacts,  # noqa: ARG002 - the port's
        placement: Placement = EXPORT,  # noqa: ARG002 - the user's own places stay
    ) -> Mapping[str, str]:
        """Return the patch of the user's file and the patched file; empty without changes."""
        tree, text = self.own.serving.tree, self._changed(configuration)
        file = str(Path(tree.file).absolute())
        after = {file: text} if text != tree.text else {}
        check = haproxy.usual_place.validate % file
        return exported(configuration.digest, {file: tree.text}, after, file, check)

    def _changed(self, configuration: Configuration) -> str:
        bound = self.bound
        return changed(bound, self.own.serving, configuration, reference=bound.baseline).text


def adapt(
    own: HaproxyOwnConfiguration, space: Space, server: ServerFacts
) -> tuple[OwnHaproxy, tuple[str, ...]]:
    """Return the user's HAProxy behind the port, and notes on differences in the lab.

    ``haproxy -c`` checks the baseline of the lab, and one request of each kind is sent to it, so
    that errors are reported before anything starts.

    Raises:
        DefinitionError: the frontend does not speak the workload's protocol, HAProxy refuses the
            configuration, it has no tunable parameter, or a request is answered with another
            status than the workload expects.
    """
    found = own.serving
    _check_protocol(found, own.workload.wire, server.version_tuple)
    made = OwnHaproxy(own, bind(space, found))
    baseline = made.bound.baseline
    with own.target.folder() as folder:
        ground = trial_ground(server, own.workload, Path(folder))
        spec = made.instance("t", baseline, made.bound.space, ground, _PORT)
        carried = made.carried(baseline, ground, Path(spec.directory), _PORT)
        if said := refusal(spec, on=own.target):
            raise _refused(said, found.tree, carried)
    wrong = wrong_baseline(made, own.target, server, own.workload, _last_error)
    if wrong is not None:
        raise DefinitionError(wrong.words, path=found.tree.file, line=found.frontend.head.number)
    notes = [f"own configuration: {found.tree.file}, 1 file"]
    if own.workload.wire.tls is not None and found.tls:
        notes.append(f"requests to {found.where} use TLS")
    return made, (*notes, *carried.notes)


def _refused(said: str, tree: HaproxyTree, carried: HaproxyLabConfiguration) -> DefinitionError:
    """Return HAProxy's refusal at the line of the user's file."""
    at = _LINE.search(said)
    number = int(at[2]) if at else 0
    line = carried.lines[number - 1] if 0 < number <= len(carried.lines) else 0
    words = re.sub(r"^parsing \[\S+\] *: *", "", _LINE.sub("", said)).strip()
    return DefinitionError(f"HAProxy refuses it: {words}", path=tree.file, line=line or None)


def _last_error(log: str) -> str:
    """Return the last failed request in the lab's log of errors; empty without one."""
    lines = [line for line in log.splitlines() if "no answer" in line]
    return lines[-1] if lines else ""
