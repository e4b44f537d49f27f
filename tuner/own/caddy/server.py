"""The user's own Caddy behind the port for servers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from tuner.errors import DefinitionError
from tuner.hosts.deployer import InstanceSpec
from tuner.machine.facts import ServerFacts
from tuner.own.bound import BoundSpace
from tuner.own.caddy.caddyfile import at, inlined, unmatched, unset
from tuner.own.caddy.caddyfile import variables as caddyfile_variables
from tuner.own.caddy.following import protocol_of, sought
from tuner.own.caddy.lab import CaddyLabConfiguration, CaddyLabSlot, carry
from tuner.own.caddy.origin import (
    CaddyOrigin,
    InexpressibleError,
    JsonChange,
    change_config,
    change_texts,
    last_error,
    refused,
)
from tuner.own.caddy.origin import read as read_origin
from tuner.own.caddy.serving import CaddyServing, Needs, answering, serving
from tuner.own.caddy.table import bind, changes
from tuner.own.caddy.tree import Json, JsonPath, look, written
from tuner.own.copies import copy_notes, named
from tuner.own.home import Home, LocalHome
from tuner.own.kind import OfKind
from tuner.own.patch import exported, plain
from tuner.own.scripts import asked_by
from tuner.own.server import OwnOptions, answered_by, over_tls
from tuner.own.target import THIS_MACHINE, Target, check_folder
from tuner.own.tryout import wrong_baseline
from tuner.paths import temporary
from tuner.reading.caddyfile_text import parse
from tuner.render.render import EXPORT, Placement, environment_of
from tuner.servers import caddy
from tuner.servers.ground import LIVE_PATH, TLS_FOLDER, TargetGround
from tuner.servers.server import Server
from tuner.servers.trial import refusal, trial_ground
from tuner.space.configuration import Configuration
from tuner.space.space import Space
from tuner.workload.wire import Wire
from tuner.workload.workload import Request, Workload

_PORT = 18_080
"""Port for ``caddy validate``, which opens no socket."""
_SHORTEST_SECRET = 6
"""Shortest value of a variable to hide; shorter ones, such as ports, occur elsewhere."""
_APPLICATIONS = ("fastcgi",)
_DEFAULT_PROTOCOLS = ("h1", "h2", "h3")


@dataclass(frozen=True, slots=True)
class CaddyOwnConfiguration:
    """A configuration of Caddy, with the part that a workload reaches."""

    wishes: OwnOptions
    origin: CaddyOrigin
    serving: CaddyServing
    workload: Workload
    """The workload for this site, over TLS if the site requires it."""
    target: Target = THIS_MACHINE
    """Host of the server and the site's files."""
    needs: Needs | None = None
    """The requirements on the site; None if the service itself answers."""

    def adapt(self, space: Space, server: ServerFacts) -> tuple[OwnCaddy, tuple[str, ...]]:
        """Implement ``OwnConfiguration``."""
        return adapt(self, space, server)


def read(
    wishes: OwnOptions, workload: Workload, home: Home, *, either: bool = False
) -> CaddyOwnConfiguration:
    """Read a configuration, and locate the workload's site in it.

    Args:
        wishes: file and site.
        workload: the workload.
        home: the host of the file, with its Caddy.
        either: whether a proxy may answer as well as files.

    Raises:
        DefinitionError: an error with the file, and the line if Caddy reports it.
    """
    origin = read_origin(str(Path(wishes.config).absolute()), home)
    # Nothing is known of what the application itself is: files, or a proxy in front of it.
    either = either or (workload.own_site and wishes.keep_upstreams)
    needs = Needs(workload, either, wishes.keep_upstreams)
    lacking = [] if origin.is_json else unmatched(origin.texts, home)
    # Caddy chooses by the files below the document root, so they are known before the site is.
    scripts = sought(origin.config, [request.path for request in workload.requests])
    asked = replace(needs, workload=asked_by(workload, _APPLICATIONS, scripts))
    found = serving(origin.config, asked, wishes.server_name, origin.file, lacking)
    spoken = {protocol_of(look(origin.config, place)) for place in found.passed.proxies}
    workload = asked_by(workload, spoken, scripts)
    needs = replace(needs, workload=workload)
    workload = over_tls(workload, served=found.tls)
    _check_protocol(origin, found, workload.wire)
    return CaddyOwnConfiguration(wishes, origin, found, workload, needs=needs)


def sites_of(wishes: OwnOptions, workload: Workload, home: Home) -> Iterator[str]:
    """Return the site that answers each request of a workload alone; "" where the lab cannot.

    Raises:
        DefinitionError: the configuration cannot be read.
    """
    origin = read_origin(str(Path(wishes.config).absolute()), home)

    scripts = sought(origin.config, [request.path for request in workload.requests])

    def located(alone: Workload) -> str:
        needs = Needs(alone, keep_upstreams=wishes.keep_upstreams)
        found = serving(origin.config, needs, wishes.server_name, origin.file)
        return f"{written(found.server)} {found.words}"

    return answered_by(asked_by(workload, _APPLICATIONS, scripts), located)


@dataclass(frozen=True, slots=True)
class OwnCaddy(OfKind):
    """A ``Server`` with instances and exports of the user's files."""

    kind: ClassVar[Server] = caddy

    own: CaddyOwnConfiguration
    bound: BoundSpace
    cached: dict[str, Mapping[str, str] | InexpressibleError] = field(
        default_factory=dict, compare=False
    )
    """Cache of the changed files by configuration, because Caddy takes time."""

    @property
    def file_name(self) -> str:
        """Implement ``Server``."""
        return caddy.JSON_FILE if self.own.origin.is_json else caddy.file_name

    @property
    def site(self) -> str:
        """Implement ``OwnServer``."""
        return f"{self.own.serving.words} ({self.own.origin.file})"

    def answering(self, request: Request) -> str:
        """Implement ``OwnServer``."""
        own = self.own
        needs = own.needs or Needs(own.workload, either=True)
        place = answering(own.origin.config, own.serving, needs, request)
        if place is None:
            return self.site
        anchor = own.origin.anchors.get(place)
        if anchor is None:
            name = look(own.origin.config, (*place, "handler"))
            return f"{written(place) if own.origin.is_json else name} ({own.origin.file})"
        file, spot = anchor
        line = at(parse(own.origin.texts[file]), spot)
        return f"{line.name} ({file}:{line.number})"

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
        return caddy.spec(
            label,
            {caddy.JSON_FILE: _json(carried.config)},
            (),
            ground,
            directory,
            port=port,
            live=configuration.digest,
            environment=self._environment(configuration),
        )

    def export_text(
        self,
        configuration: Configuration,
        space: Space,  # noqa: ARG002 - as for ``instance``
        placement: Placement = EXPORT,  # noqa: ARG002 - the user's own places stay
    ) -> str:
        """Return the user's main file with inlined imports and the configuration's values."""
        origin = self.own.origin
        changed = self.changed(configuration)
        if isinstance(changed, InexpressibleError):
            head = f"# Only {caddy.JSON_FILE} can express it: {changed}\n"
            return head + plain(origin.texts[origin.file])
        texts = {**origin.texts, **changed}
        if origin.is_json or origin.opaque:
            return plain(texts[origin.file])
        return plain(inlined(texts, origin.file, origin.home))

    def export_files(
        self,
        configuration: Configuration,
        space: Space,  # noqa: ARG002 - as for ``instance``
        server: ServerFacts,  # noqa: ARG002 - the port's
        placement: Placement = EXPORT,  # noqa: ARG002 - the user's own places stay
    ) -> Mapping[str, str]:
        """Return a patch of the user's files, or JSON if necessary, and the environment."""
        origin = self.own.origin
        files = {}
        # Only differences: values from the lab's cores (GOMAXPROCS) are not advice for the user.
        before = self._environment(self.bound.baseline)
        variables = {
            name: value
            for name, value in self._environment(configuration).items()
            if before.get(name) != value
        }
        if variables:
            files[caddy.ENVIRONMENT_FILE] = caddy.environment_file(variables)
        changed = self.changed(configuration)
        if isinstance(changed, InexpressibleError):
            config = change_config(origin, self.changes(configuration))
            return {**files, caddy.JSON_FILE: veiled(_json(config), origin)}
        check = f"caddy validate --config {origin.file}"
        return {
            **files,
            **exported(configuration.digest, origin.texts, changed, origin.file, check),
        }

    def carried(
        self, configuration: Configuration, ground: TargetGround, directory: Path, port: int
    ) -> CaddyLabConfiguration:
        """Return a configuration adapted to the lab."""
        origin, found = self.own.origin, self.own.serving
        wanted = changes(self.bound, origin, found, configuration)
        stand = self._stand(ground, directory, port, configuration.digest)
        return carry(origin, found, change_config(origin, wanted), stand)

    def unsaid(self) -> str:
        """Return why a patch of the user's Caddyfile cannot express results; empty if it can."""
        origin = self.own.origin
        if origin.opaque or origin.is_json:
            return origin.opaque
        owners = (*self.own.serving.passed.proxies, *self.own.serving.passed.encodes)
        lost = [written(owner) for owner in owners if owner not in origin.anchors]
        return f"no supported line defines {', '.join(lost)}" if lost else ""

    def changed(self, configuration: Configuration) -> Mapping[str, str] | InexpressibleError:
        """Return the user's changed files, or why they cannot express the change."""
        digest = configuration.digest
        if digest not in self.cached:
            try:
                self.cached[digest] = change_texts(self.own.origin, self.changes(configuration))
            except InexpressibleError as error:
                self.cached[digest] = error
        return self.cached[digest]

    def changes(self, configuration: Configuration) -> list[JsonChange]:
        """Return the changes that turn the user's configuration into another one."""
        own, bound = self.own, self.bound
        return list(
            changes(bound, own.origin, own.serving, configuration, reference=bound.baseline)
        )

    def _environment(self, configuration: Configuration) -> dict[str, str]:
        return environment_of(configuration, self.bound.space, caddy.syntax)

    def _stand(self, ground: TargetGround, directory: Path, port: int, token: str) -> CaddyLabSlot:
        workload, wishes = self.own.workload, self.own.wishes
        return CaddyLabSlot(
            address=f"{ground.address}:{port}",
            admin=caddy.ADMIN_SOCKET,
            run_dir=str(directory / "run"),
            log_dir=str(directory / "logs"),
            backends={
                "http": ground.upstreams if workload.backend is not None else (),
                "fastcgi": (ground.native_backend,) if ground.native_backend else (),
            },
            root=wishes.root if workload.own_site else str(ground.site_dir),
            tls_dir=str(directory / TLS_FOLDER) if ground.certificate else "",
            keep_upstreams=wishes.keep_upstreams,
            live_path=LIVE_PATH,
            token=token,
        )


def adapt(
    own: CaddyOwnConfiguration, space: Space, server: ServerFacts
) -> tuple[OwnCaddy, tuple[str, ...]]:
    """Return the user's Caddy behind the port, and notes on differences in the lab.

    ``caddy validate`` checks the baseline of the lab, so that errors and unsupported directives
    are reported before anything starts. Then each request is sent once.

    Raises:
        DefinitionError: Caddy refuses the configuration, or it has no tunable parameter.
    """
    _check_root(own)
    made = OwnCaddy(own, bind(space, own.origin, own.serving))
    baseline = made.bound.baseline
    with temporary("caddy") as folder:
        ground = trial_ground(server, own.workload, Path(folder))
        spec = made.instance("t", baseline, made.bound.space, ground, _PORT)
        carried = made.carried(baseline, ground, Path(spec.directory), _PORT)
        said = refusal(spec)
    if said:
        raise refused(said, own.origin.file)
    open_own = _opened(made, server)
    return (made, _notes(made, carried)) if open_own is None else adapt(open_own, space, server)


def _opened(made: OwnCaddy, server: ServerFacts) -> CaddyOwnConfiguration | None:
    """Return the configuration without routes that reject the workload; None if it is answered.

    Raises:
        DefinitionError: a request is answered with another status than the workload expects.
    """
    own = made.own
    if own.needs is None:
        return None
    wrong = wrong_baseline(made, own.target, server, own.workload, last_error)
    if wrong is None:
        return None
    needs = replace(own.needs, strict=True)
    found = serving(own.origin.config, needs, own.wishes.server_name, own.origin.file)
    if own.needs.strict or found.passed.walls == own.serving.passed.walls:
        raise DefinitionError(wrong.words, path=own.origin.file)
    return replace(own, serving=found, needs=needs)


def _notes(made: OwnCaddy, carried: CaddyLabConfiguration) -> tuple[str, ...]:
    own = made.own
    count = len(own.origin.texts)
    notes = [f"own configuration: {own.origin.file}, {count} file{'s' * (count > 1)}"]
    home = own.origin.home
    if isinstance(home, LocalHome):
        notes += copy_notes(own.origin.file, home.copies, named(own.wishes.prefix))
    empty = {name for text in own.origin.texts.values() for name in unset(text, home)}
    notes += [f"{{${name}}} is empty: {name} is not set {home.remedy}" for name in sorted(empty)]
    if own.workload.wire.tls is not None and own.serving.tls:
        notes.append(f"requests to {own.serving.words} use TLS")
    unsaid = made.unsaid()
    if unsaid:
        notes.append(
            f"the outcome is exported as JSON ({caddy.JSON_FILE}), not as a patch: {unsaid}"
        )
    raised = [
        f"{name} is {needed} in the lab, not {said}: the load needs it"
        for name, (said, needed) in made.bound.raised.items()
    ]
    # Paths of the validation are temporary.
    shown = (re.sub(r"/\S*/tuner-[^/\s]+/site\S*", "the workload's site", n) for n in carried.notes)
    return (*notes, *raised, *shown)


def _check_protocol(origin: CaddyOrigin, found: CaddyServing, wire: Wire) -> None:
    """Raise DefinitionError if the server does not support the workload's protocol.

    Raises:
        DefinitionError: it does not.
    """
    spoken = look(origin.config, (*found.server, "protocols")) or _DEFAULT_PROTOCOLS
    word = {"http1": "h1", "http2": "h2" if found.tls else "h2c", "http3": "h3"}[wire.protocol]
    if word not in spoken:
        raise DefinitionError(
            f"the workload asks over {wire.protocol}, and {written(found.server)}/protocols does"
            f" not have {word}; choose a workload over http1 (--workload)",
            path=origin.file,
        )


def _check_root(own: CaddyOwnConfiguration) -> None:
    """Raise DefinitionError if the user's own files cannot be served.

    Raises:
        DefinitionError: the account of the instances cannot enter their folder.
    """
    if not own.workload.own_site:
        return
    roots: list[tuple[str, str]] = [(own.wishes.root, "--root")] if own.wishes.root else []
    if not roots:
        roots = [
            (str(Path(own.origin.file).parent / look(own.origin.config, (*place, "root"))), "")
            for each in own.serving.passed.files
            for place in _root_places(own, each.place, each.root)
        ]
    for root, path in roots:
        if "{" not in root:
            check_folder(own.target, root, path or own.origin.file)


def _root_places(
    own: CaddyOwnConfiguration, place: JsonPath, root: JsonPath | None
) -> list[JsonPath]:
    """Return the places of a handler's document root: in the handler or before it."""
    if look(own.origin.config, (*place, "root")) is not None:
        return [place]
    return [] if root is None else [root]


def veiled(text: str, origin: CaddyOrigin) -> str:
    """Return JSON with names instead of values of the Caddyfile's environment variables.

    The values may be secrets, and this text is stored. Caddy reads ``{env.NAME}`` at run time.
    """
    names = {name for source in origin.texts.values() for name in caddyfile_variables(source)}
    values = {name: origin.home.variables.get(name, "") for name in names}
    # Longer values first, because they may contain shorter ones.
    for name, value in sorted(values.items(), key=lambda pair: -len(pair[1])):
        if len(value) >= _SHORTEST_SECRET:
            text = text.replace(json.dumps(value, ensure_ascii=False)[1:-1], f"{{env.{name}}}")
    return text


def _json(config: Json) -> str:
    return json.dumps(config, indent=2, ensure_ascii=False) + "\n"
