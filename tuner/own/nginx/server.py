"""The user's own Nginx behind the port for servers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from tuner.errors import DefinitionError
from tuner.hosts.deployer import InstanceSpec
from tuner.machine.facts import ServerFacts
from tuner.own.bound import BoundSpace
from tuner.own.kind import OfKind
from tuner.own.nginx.answerable import Answering, Content
from tuner.own.nginx.edits import Edit, change_texts, change_tree
from tuner.own.nginx.gaps import NginxGaps, more_gaps, of_tls
from tuner.own.nginx.lab import NginxLabConfiguration, carry
from tuner.own.nginx.locations import effective, protocol_of, route, turns_away
from tuner.own.nginx.scripts import scripts
from tuner.own.nginx.serving import NginxServing, names, serving
from tuner.own.nginx.slot import NginxLabSlot
from tuner.own.nginx.table import bind, changes
from tuner.own.nginx.tree import Directive, Tree, lines, parse, write
from tuner.own.patch import exported, plain
from tuner.own.scripts import asked_by
from tuner.own.server import OwnOptions, answered_by, over_tls
from tuner.own.target import THIS_MACHINE, Target, check_folder
from tuner.own.tryout import wrong_baseline
from tuner.render.render import EXPORT, Placement, cpu_mask
from tuner.servers import nginx
from tuner.servers.ground import LIVE_PATH, TLS_FOLDER, TargetGround
from tuner.servers.server import Server
from tuner.servers.trial import refusal, trial_ground
from tuner.space.configuration import Configuration
from tuner.space.space import Space
from tuner.workload.wire import Wire
from tuner.workload.workload import Request, Workload

_PORT = 18_080
"""Port for ``nginx -t``, which accepts a used one."""

_LINE = re.compile(r" in (\S+):(\d+)")
_MOST_GAPS = 80


@dataclass(frozen=True, slots=True)
class NginxOwnConfiguration:
    """A configuration of Nginx, with the part that a workload reaches."""

    wishes: OwnOptions
    serving: NginxServing
    workload: Workload
    """The workload for this server, over TLS if the server requires it."""
    target: Target = THIS_MACHINE
    """Host of the server."""

    @property
    def tree(self) -> Tree:
        """The configuration."""
        return self.serving.tree

    def adapt(self, space: Space, server: ServerFacts) -> tuple[OwnNginx, tuple[str, ...]]:
        """Implement ``OwnConfiguration``."""
        return adapt(self, space, server)


def read(wishes: OwnOptions, workload: Workload) -> NginxOwnConfiguration:
    """Read a configuration for the lab, and locate the workload's server in it.

    Args:
        wishes: file and server.
        workload: the workload.

    Raises:
        DefinitionError: at file and line; also if the lab cannot answer a request.
    """
    tree = parse(wishes.config, prefix=wishes.prefix)
    return locate(wishes, workload, tree, _lab(wishes, workload))


def sites_of(wishes: OwnOptions, workload: Workload) -> Iterator[str]:
    """Return the server that answers each request of a workload alone; "" where the lab cannot.

    Raises:
        DefinitionError: the configuration cannot be read.
    """
    tree, lab = parse(wishes.config, prefix=wishes.prefix), _lab(wishes, workload)
    return answered_by(workload, lambda one: locate(wishes, one, tree, lab).serving.server.where)


def _lab(wishes: OwnOptions, workload: Workload) -> Answering:
    """Return what the lab can answer."""
    content: Content = "backend" if workload.backend is not None else "files"
    if workload.own_site:
        content = "own"
    return Answering(content, wishes.keep_upstreams, workload.answerable)


def locate(
    wishes: OwnOptions, workload: Workload, tree: Tree, lab: Answering | None = None
) -> NginxOwnConfiguration:
    """Locate the workload's server in a configuration.

    Args:
        wishes: file and server.
        workload: the workload.
        tree: the configuration.
        lab: what the lab can answer; None: the service itself answers.

    Raises:
        DefinitionError: at file and line.
    """
    found = serving(
        tree,
        [request.path for request in workload.requests],
        server_name=wishes.server_name,
        tls=workload.wire.tls is not None,
        proxied=workload.backend is not None,
        lab=lab,
    )
    workload = over_tls(workload, served=found.tls)
    workload = _with_protocols(found, workload)
    _check_protocol(found, workload.wire)
    return NginxOwnConfiguration(wishes, found, workload)


def _with_protocols(found: NginxServing, workload: Workload) -> Workload:
    """Return the workload with a backend that speaks as the locations ask it."""
    spoken = {protocol for chain in found.chains if (protocol := protocol_of(chain))}
    paths = [request.path for request in workload.requests]
    return asked_by(workload, spoken, scripts(found.server, paths))


@dataclass(frozen=True, slots=True)
class OwnNginx(OfKind):
    """A ``Server`` with instances and exports of the user's files."""

    kind: ClassVar[Server] = nginx

    own: NginxOwnConfiguration
    bound: BoundSpace
    modules_dir: str
    gaps: NginxGaps = field(default_factory=NginxGaps)
    """The parts that this build of Nginx cannot read."""

    @property
    def file_name(self) -> str:
        """Implement ``Server``."""
        return nginx.file_name

    @property
    def site(self) -> str:
        """Implement ``OwnServer``."""
        return _located(self.own.serving.server, *names(self.own.serving.server))

    def answering(self, request: Request) -> str:
        """Implement ``OwnServer``."""
        server, proxied = self.own.serving.server, self.own.workload.backend is not None
        chain = (server, *route(server, request.path.partition("?")[0], proxied=proxied))
        return self.site if len(chain) == 1 else _located(chain[-1])

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
        text = plain(write(self.carried(configuration, ground, directory, port).directives))
        return nginx.spec(label, text, ground, directory, port=port, live=configuration.digest)

    def export_text(
        self,
        configuration: Configuration,
        space: Space,  # noqa: ARG002 - as for ``instance``
        placement: Placement = EXPORT,  # noqa: ARG002 - the user's own places stay
    ) -> str:
        """Return the user's configuration with inlined includes and the values of this one."""
        return plain(write(change_tree(self.own.tree, self._changes(configuration))))

    def export_files(
        self,
        configuration: Configuration,
        space: Space,  # noqa: ARG002 - as for ``instance``
        server: ServerFacts,  # noqa: ARG002 - the port's
        placement: Placement = EXPORT,  # noqa: ARG002 - the user's own places stay
    ) -> Mapping[str, str]:
        """Return the patch of the user's files and the patched files; empty without changes."""
        tree = self.own.tree
        changed = change_texts(tree, self._changes(configuration))
        return exported(configuration.digest, tree.texts, changed, tree.file, "nginx -t")

    def carried(
        self, configuration: Configuration, ground: TargetGround, directory: Path, port: int
    ) -> NginxLabConfiguration:
        """Return a configuration adapted to the lab."""
        wanted = changes(self.bound, self.own.serving, configuration)
        directives = change_tree(self.own.tree, wanted)
        stand = self._stand(ground, directory, port, configuration.digest)
        return carry(self.own.serving, directives, stand)

    def _changes(self, configuration: Configuration) -> list[Edit]:
        bound, found = self.bound, self.own.serving
        return list(changes(bound, found, configuration, reference=bound.baseline))

    def _stand(self, ground: TargetGround, directory: Path, port: int, token: str) -> NginxLabSlot:
        workload, wishes = self.own.workload, self.own.wishes
        return NginxLabSlot(
            address=f"{ground.address}:{port}",
            run_dir=str(directory / "run"),
            log_dir=str(directory / "logs"),
            modules_dir=self.modules_dir,
            workers=len(ground.cpus),
            cpu_mask=cpu_mask(ground.cpus),
            backend=next(iter(ground.upstreams), ""),
            native_backend=ground.native_backend,
            root=wishes.root if workload.own_site else str(ground.site_dir),
            own_site=workload.own_site,
            tls_dir=str(directory / TLS_FOLDER) if ground.certificate else "",
            protocol=workload.wire.protocol,
            keep_upstreams=wishes.keep_upstreams,
            readable=self.own.target.is_readable,
            gaps=self.gaps,
            live_path=LIVE_PATH,
            token=token,
        )


def adapt(
    own: NginxOwnConfiguration, space: Space, server: ServerFacts
) -> tuple[OwnNginx, tuple[str, ...]]:
    """Return the user's Nginx behind the port, and notes on differences in the lab.

    ``nginx -t`` checks the baseline of the lab, so that errors and unsupported directives are
    reported with the user's file and line before anything starts.

    Raises:
        DefinitionError: Nginx refuses the configuration, or it has no tunable parameter.
    """
    _check_root(own)
    prefix = re.search(r"--prefix=(\S+)", server.build)
    made = OwnNginx(
        own, bind(space, own.serving), prefix.group(1) if prefix else "/usr/local/nginx"
    )
    while len(made.gaps) < _MOST_GAPS:
        with own.target.folder() as folder:
            carried = _try_out(made, server, Path(folder))
        if isinstance(carried, NginxGaps):
            made = replace(made, gaps=carried)
            continue
        gaps = _turned_away(made, server)
        if gaps is None:
            return made, _notes(made, carried)
        made = replace(made, gaps=gaps)
    names = sorted(made.gaps.directives | made.gaps.variables)
    raise DefinitionError(
        f"{server.binary} does not know {', '.join(names)} and more; name the Nginx"
        " that this configuration is for",
        path=own.tree.file,
    )


def _try_out(
    made: OwnNginx, server: ServerFacts, folder: Path
) -> NginxLabConfiguration | NginxGaps:
    """Return the baseline in the lab, or one gap of this build more."""
    ground = trial_ground(server, made.own.workload, folder)
    baseline = made.bound.baseline
    spec = made.instance("t", baseline, made.bound.space, ground, _PORT)
    carried = made.carried(baseline, ground, Path(spec.directory), _PORT)
    said = refusal(spec, on=made.own.target)
    if not said:
        return carried
    message = next((line for line in said.splitlines() if "[emerg]" in line), said.strip())
    message = message.partition("[emerg] ")[2] or message
    at = _LINE.search(message)
    found = list(lines(carried.directives))[int(at.group(2)) - 1][1] if at else None
    found = found or of_tls(message, carried.directives)
    where = found if found is not None and found.place is not None else None
    gaps = more_gaps(made.gaps, message, where)
    if gaps is not None:
        return gaps
    raise DefinitionError(
        f"Nginx refuses it: {_LINE.sub('', message)}",
        path=where.file if where else made.own.tree.file,
        line=where.line if where else None,
    )


def _turned_away(made: OwnNginx, server: ServerFacts) -> NginxGaps | None:
    """Return gaps with the conditions that turn the workload away; None if it is answered.

    Raises:
        DefinitionError: a request is answered with another status than the workload expects.
    """
    own = made.own
    wrong = wrong_baseline(made, own.target, server, own.workload, _last_error)
    if wrong is None:
        return None
    # Of the whole path to the answer: the requests of a workload share their server.
    places = {
        found.key: "it may turn the requests of the workload away"
        for chain in own.serving.chains
        for block in chain[1:]
        for found in block.children("if", "limit_except")
        if turns_away(found)
    }
    if not places.keys() - made.gaps.places.keys():
        server_block = own.serving.server
        raise DefinitionError(wrong.words, path=server_block.file, line=server_block.line)
    return replace(made.gaps, places={**made.gaps.places, **places})


def _last_error(log: str) -> str:
    """Return the reason of the last failed request in a log of errors; empty without one."""
    lines = [line for line in log.splitlines() if "[error]" in line]
    said = [line.partition("*")[2].partition(" ")[2] for line in lines]
    return said[-1].partition(", client: ")[0] if said else ""


def _located(block: Directive, *more: str) -> str:
    """Return a block's head with its place: ``location /api/ (/etc/nginx/nginx.conf:12)``."""
    return f"{' '.join((block.name, *block.args, *more))} ({block.where})"


def _notes(made: OwnNginx, carried: NginxLabConfiguration) -> tuple[str, ...]:
    own = made.own
    count = len(own.tree.texts)
    notes = [f"own configuration: {own.tree.file}, {count} file{'s' if count > 1 else ''}"]
    if own.workload.wire.tls is not None and own.serving.tls:
        notes.append(f"requests to {own.serving.server.where} use TLS")
    raised = [
        f"{name} is {needed} in the lab, not {said}: the load needs it"
        for name, (said, needed) in made.bound.raised.items()
    ]
    return (*notes, *own.tree.notes, *own.serving.notes, *raised, *carried.notes)


def _check_protocol(found: NginxServing, wire: Wire) -> None:
    """Raise DefinitionError if the server does not support the workload's protocol.

    Raises:
        DefinitionError: it does not.
    """
    blocks = (found.http, found.server)
    on = {name for name in ("http2", "http3") if _is_on(effective(blocks, name))}
    if any("http2" in listen.args for listen in found.listens):
        on.add("http2")
    quic = [listen for listen in found.server.children("listen") if "quic" in listen.args]
    if wire.protocol == "http3" and quic:
        return
    if wire.protocol != "http1" and (wire.protocol not in on or wire.protocol == "http3"):
        raise DefinitionError(
            f"the workload asks over {wire.protocol}, which this server does not speak; choose a"
            " workload over http1 (--workload), or another server (--server-name)",
            path=found.server.file,
            line=found.server.line,
        )


def _is_on(found: tuple[Directive, ...]) -> bool:
    return any(directive.args == ("on",) for directive in found)


def _check_root(own: NginxOwnConfiguration) -> None:
    """Raise DefinitionError if the user's own files cannot be served.

    Raises:
        DefinitionError: the account of the instances cannot enter their folder.
    """
    if not own.workload.own_site:
        return
    if own.wishes.root:
        check_folder(own.target, own.wishes.root, "--root")
        return
    for chain in own.serving.chains:
        for found in effective(chain, "root", "alias"):
            # As in the lab, relative paths start at the folder of the main file.
            path = Path(own.tree.located(found.args[0]))
            if found.name == "alias" and not found.args[0].endswith("/"):
                path = path.parent  # of a file, perhaps
            if "$" not in found.args[0]:
                check_folder(own.target, str(path), found.file, found.line)
