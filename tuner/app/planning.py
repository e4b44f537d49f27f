"""Planning of a roll-out: reading, comparing and validating each host's files, unchanged."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from tuner.app.host_files import (
    ChangePlan,
    Tuned,
    UnfitError,
    plan_of_own,
    tuned_files,
    unified,
)
from tuner.app.lab_values import LabSettings, lab_settings, plan_of_lab
from tuner.app.recommended import Recommended
from tuner.errors import DefinitionError, HostError
from tuner.hosts.inventory import Host
from tuner.hosts.service import SERVICE_FOLDER, RunningConfiguration, ServiceChange
from tuner.own.catalog import READERS, SERVICES
from tuner.own.files import Files
from tuner.own.home import Home
from tuner.render.systemd import unit_of
from tuner.servers.catalog import server as server_of
from tuner.stats.verdict import VerdictKind


class Channel(Files, Protocol):
    """Requests of planning to a host; ``tuner.hosts.agent.Agent`` implements it."""

    def which(self, name: str) -> str | None:
        """Return the path of a program."""
        ...

    def overlaid(
        self, contents: Mapping[str, bytes], command: Sequence[str], program: str = ""
    ) -> Mapping[str, Any]:
        """Run a command with other contents in some files; see ``tuner.hosts.overlaid``."""
        ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """The recommendation for all hosts."""

    given: Recommended
    main: str
    """Main file of the service on the hosts."""
    change: ServiceChange
    """The change without files, which depend on the host."""
    source: Tuned | LabSettings
    server_name: str = ""


def wanted(
    given: Recommended,
    *,
    inventory: str,
    target: str | None = None,
    service: str | None = None,
    server_name: str = "",
) -> Wanted:
    """Return a study's recommendation for hosts.

    Args:
        given: the recommendation.
        inventory: path of the inventory, for the command that is shown.
        target: main file on the hosts; None: the usual one.
        service: name of the service; None: that of the server.
        server_name: server of the configuration for a study of the lab.

    Raises:
        DefinitionError: the study cannot be applied to any host.
    """
    record, name = given.record, given.name
    server = record.server.name
    if server not in SERVICES:
        raise DefinitionError(
            f"tuner cannot set single values in a host's own {server_of(server).usual_place.file};"
            f" {_as_role(given)}",
            path="NAME",
        )
    definition = record.definition
    config = str(definition.get("config") or "")
    # In place, the study's own file is already there.
    place, reader = server_of(server).usual_place, SERVICES[server]
    main = target or place.path
    if definition.get("in_place") and not target and config != main:
        raise DefinitionError(
            f"{name!r} tuned {config}, which is not the usual file of {server}; to change it, pass"
            f" --file {shlex.quote(config)}",
            path="--file",
        )
    source: Tuned | LabSettings
    if given.is_own:
        source = tuned_files(given, config, main, place)
    else:
        remedy = (
            f"tune its own files instead: tuner optimize --server {server} --config COPY-OF-{main}"
            f" --workload {definition.get('workload')}, and tuner apply --inventory {inventory}"
            f" --file {main}"
            if server in READERS
            else _as_role(given)
        )
        if reader.place is None:
            raise DefinitionError(
                f"{name!r} is a study of the lab, and tuner cannot set its settings in a host's own"
                f" {place.file}; {remedy}",
                path="NAME",
            )
        source = lab_settings(given, remedy)
    commands = reader.commands(main, usual=target is None)
    service = service or place.service
    restarts = isinstance(source, LabSettings) and source.needs_restart
    change = ServiceChange(
        owner=f"{name} {given.chosen.configuration.digest}",
        service=service,
        files={},
        validate=commands.validate,
        how="restart" if restarts else "reload",
        live=RunningConfiguration(commands.adapted) if commands.adapted else None,
        program=commands.program,
        # In a study of the lab the variables are settings, which have to find a place in a file.
        unit=unit_of(
            service,
            given.chosen.more.get(place.environment, "") if given.is_own else "",
            place.variables,
        ),
        # Paths of a record are untrusted; those of a host's own files come from the host.
        below=str(Path(main).parent) if given.is_own else "/",
    )
    return Wanted(given, main, change, source, server_name)


def _as_role(given: Recommended) -> str:
    """Return the command that exports the whole configuration for hosts, as part of a sentence."""
    option = "" if given.verdict.kind is VerdictKind.BETTER else " --candidate"
    return (
        "to replace a host's whole configuration instead, export a role:"
        f" tuner export {given.name} --format role{option}"
    )


@dataclass(frozen=True, slots=True)
class HostPlan:
    """The plan for one host."""

    host: Host
    plan: ChangePlan
    change: ServiceChange
    validated: str
    """Outcome of the validation on the host, in words; empty without one."""
    drop_ins: Mapping[str, str] = field(default_factory=dict)
    """Content of the existing drop-ins of the service's unit, by path."""

    @property
    def is_needed(self) -> bool:
        """True if the host needs a change."""
        return bool(self.plan.changed or self.change.unit)

    @property
    def words(self) -> str:
        """The plan in words: differences of the host's files, changes, and the reload."""
        name, plan, change = self.host.name, self.plan, self.change
        rows = [f"{name}: {note}\n" for note in plan.notes]
        if plan.unlike:
            rows.append(f"{name}: its configuration differs from the one that was tuned:\n")
            rows.append(plan.unlike)
        if not self.is_needed:
            return "".join([*rows, f"{name}: has the configuration already; no change\n"])
        unit = change.unit.files if change.unit else {}
        rows.append(f"{name}: would change {', '.join((*plan.changed, *unit))}:\n")
        rows.append(plan.difference)
        rows += [unified(self.drop_ins.get(path, ""), text, path) for path, text in unit.items()]
        rows.append(f"{name}: {self.validated}\n" if self.validated else "")
        how = f"{change.how} of {change.service}"
        if change.unit:
            how += ", or a restart if its environment changes"
        return "".join([*rows, f"{name}: then {how}\n"])


@dataclass(frozen=True, slots=True)
class Planned:
    """The plans for several hosts, and the refused hosts."""

    plans: tuple[HostPlan, ...]
    refused: Mapping[str, str]
    """Reasons by host why the recommendation cannot be applied, with file and line."""

    def check(self, among: Sequence[Host], limit: str | None = None) -> None:
        """Raise HostError if a host was refused, with the reasons and a way to change the others.

        Args:
            among: all hosts of the selection.
            limit: pattern of the selection; None for all of an inventory.
        """
        if not self.refused:
            return
        words = "; ".join(f"{name}: {reason}" for name, reason in self.refused.items())
        others = [host.name for host in among if host.name not in self.refused]
        remedy = "fix this"
        if others:
            names = [f"!{name}" for name in self.refused] if limit is None else others
            remedy += f", or change the other hosts only: --limit {shlex.quote(','.join(names))}"
        raise HostError(f"nothing was changed; {words}; {remedy}")


def planned(
    hosts: Sequence[Host],
    want: Wanted,
    channel: Callable[[Host], Channel],
    home: Callable[[Host, str], Home],
    *,
    validate: bool = True,
) -> Planned:
    """Return the plan for every host, or the reason why it has none, without changes.

    Args:
        hosts: the hosts.
        want: the recommendation to apply.
        channel: function that opens the channel to a host.
        home: function that returns a host's environment, by its service's program.
        validate: whether each host's server validates the result, without replacing files.
    """
    plans, refused = [], {}
    for host in hosts:
        try:
            plans.append(_plan(host, want, channel(host), home, validate=validate))
        except (UnfitError, DefinitionError, HostError) as error:
            refused[host.name] = str(error).removeprefix(f"{host.name}: ")
    return Planned(tuple(plans), refused)


def _plan(
    host: Host,
    want: Wanted,
    there: Channel,
    home: Callable[[Host, str], Home],
    *,
    validate: bool,
) -> HostPlan:
    owner = _owner(there)
    if owner not in ("", want.change.owner):
        raise HostError(
            f"{owner} has changed {want.main}; roll this back first (tuner rollback), or wait"
            " until its lease expires"
        )
    server = want.given.record.server.name
    found = SERVICES[server].read_service(
        want.main, there, lambda: home(host, there.which(server) or server)
    )
    if isinstance(want.source, Tuned):
        plan = plan_of_own(want.source, found)
    else:
        plan = plan_of_lab(want.source, found, want.server_name)
    if owner and plan.changed:
        # Files missing in the new change would be restored to their first state.
        raise HostError(
            f"{', '.join(plan.changed)} changed since {want.given.name!r} was applied here; roll"
            f" this back first: tuner rollback {want.given.name}"
        )
    change = replace(want.change, files=plan.files, expected=plan.expected)
    validated = _validated(want.change, plan, there) if validate and plan.changed else ""
    return HostPlan(host, plan, change, validated, _drop_ins(change, there))


def _owner(there: Channel) -> str:
    """Return the owner of a host's change that can still be rolled back."""
    saved = f"{SERVICE_FOLDER}/saved.json"
    if not there.matches(saved):
        return ""
    try:
        return str(json.loads(there.read(saved))["owner"])
    except (ValueError, KeyError, TypeError):
        raise HostError(
            f"{saved} is damaged; on the host: python3 {SERVICE_FOLDER}/guard.py {SERVICE_FOLDER}"
            " restore, or read the file"
        ) from None


def _drop_ins(change: ServiceChange, there: Channel) -> dict[str, str]:
    """Return the existing drop-ins of the service's unit."""
    paths = change.unit.files if change.unit else ()
    return {
        path: there.read(path).decode("utf-8", "replace") for path in paths if there.matches(path)
    }


def _validated(change: ServiceChange, plan: ChangePlan, there: Channel) -> str:
    """Validate the files with the host's own server before replacing them; return the outcome.

    Raises:
        UnfitError: it refuses them.
    """
    contents = {path: text.encode() for path, text in plan.changed.items()}
    program, *arguments = change.validate
    command = (there.which(program) or program, *arguments)
    answer = there.overlaid(contents, command, change.program)
    line = " ".join(change.validate)
    if "unavailable" in answer:
        return (
            f"{line}: not before the files are replaced, since there is no mount namespace"
            f" ({answer['unavailable']}); then, and before the {change.how}"
        )
    if answer["code"] != 0:
        raise UnfitError(f"{change.service} refuses the files: {line}: {answer['said']}")
    return f"{line}: accepted there"
