"""``tuner apply``: a study's recommendation on real hosts, one by one."""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click

from tuner.app.session import open_store
from tuner.app.undisturbed import undisturbed
from tuner.definition.study import MAIN_FILES
from tuner.errors import DefinitionError, HostError
from tuner.export.configuration import choose
from tuner.goals.constraint import Constraint
from tuner.hosts.inventory import Host, Inventory, read_inventory
from tuner.hosts.playbooks import Playbooks
from tuner.hosts.remote import Connections
from tuner.hosts.service import Change, GivenBack, Running, Services
from tuner.judge.results import StudyResult, evaluate
from tuner.own.patch import APPLIED, PATCH, folder_of
from tuner.record.model import Applied, ConfigurationRecord
from tuner.render.systemd import unit_of
from tuner.servers import caddy
from tuner.store.store import Store

_PATIENCE_S = 5.0
_HOST_S = 60.0
"""Longest time that one host is expected to take."""
_EPILOG = """
\b
Examples:
  tuner apply mine --inventory prod.yml
  tuner apply mine --inventory prod.yml --canary 1 --watch 'p99<5ms' --probe http://{host}/
  tuner rollback mine --inventory prod.yml
"""


@click.command(epilog=_EPILOG)
@click.argument("name")
@click.option("--inventory", required=True, metavar="FILE", help="Hosts, in the group targets.")
@click.option("--canary", type=click.IntRange(1), metavar="N", help="Change N hosts, then stop.")
@click.option("--watch", metavar="LIMIT", help="What must hold on each host: 'p99<5ms'.")
@click.option(
    "--probe",
    metavar="URL",
    default="http://{host}/",
    help="What is asked of each host after its change [http://{host}/].",
)
@click.option("--probes", type=click.IntRange(10), default=200, help="How often [200].")
@click.option("--file", "target", metavar="PATH", help="Main file there [the server's usual one].")
@click.option("--service", metavar="NAME", help="Name of the service [the server's].")
@click.option("--candidate", is_flag=True, help="The candidate, even if not shown to be better.")
@click.option("--storage", metavar="URL", help="Optuna storage [SQLite in studies/NAME/].")
def command(
    name: str,
    *,
    inventory: str,
    canary: int | None,
    watch: str | None,
    probe: str,
    probes: int,
    target: str | None,
    service: str | None,
    candidate: bool,
    storage: str | None,
) -> None:
    """Put the configuration that the study NAME recommends on the hosts of an inventory.

    Host by host: back up, replace, validate, reload, probe. Caddy is restarted instead where the
    environment of its process changes, which a drop-in of its systemd unit sets. Where the server
    refuses it, does not run with it, or a probe fails, every host that was changed gets its own
    files back, byte for byte. So it does by itself if tuner is gone in the middle of it. `tuner
    rollback` puts them back later. What was changed where and when is in the study's record.
    """
    store = open_store(name, storage)
    study = evaluate(store.record())
    limit = _limit(watch)
    hosts = read_inventory(inventory, generators=False)
    change = _change(study, name, target, service, candidate=candidate)
    chosen = hosts.targets[:canary] if canary else hosts.targets
    # The first host must not restore itself while the last one is being changed.
    change = replace(change, lease_s=change.lease_s + _HOST_S * len(chosen))
    with services_of(hosts) as services:
        _roll_out(chosen, change, services, store, lambda host: _probed(probe, host, probes, limit))
    left = [host.name for host in hosts.targets if host not in chosen]
    if left:
        click.echo(f"not changed, since --canary is {canary}: {', '.join(left)}")


def _roll_out(
    hosts: Sequence[Host],
    change: Change,
    services: Services,
    store: Store,
    check: Callable[[Host], str],
) -> None:
    """Change the hosts one by one; all of them are put back if one cannot stay changed.

    Raises:
        HostError: what was wrong on which host, once all are as they were.
    """
    begun: list[Host] = []
    try:
        for host in hosts:
            click.echo(f"{host.name}: changing {', '.join(change.paths)}", err=True)
            begun.append(host)
            became = services.change(host, change)
            if became.state != "live":
                raise HostError(f"{host.name}: {change.service} {became.state}: {became.message}")
            if became.message:
                click.echo(f"note: {host.name}: {became.message}", err=True)
            paths = tuple(change.files) if became.message else change.paths
            # Before it is probed: what was changed is in the record, whatever comes next.
            store.add_applied(Applied(host.name, time.time(), "applied", paths, change.owner))
            click.echo(f"{host.name}: applied; {check(host)}")
        services.keep(hosts)
    except BaseException as error:
        click.echo(f"putting back: {', '.join(host.name for host in begun)}", err=True)
        with undisturbed():
            words = _taken_back(begun, change, services, store)
        if isinstance(error, HostError):
            raise HostError(f"{error}; {words}") from error
        click.echo(words, err=True)
        raise


def _taken_back(hosts: Sequence[Host], change: Change, services: Services, store: Store) -> str:
    """Give the hosts their own files back, as far as they can be reached; in words."""
    try:
        given = services.give_back(hosts, change.owner)
    except HostError as error:
        given = GivenBack({}, {host.name: str(error) for host in hosts})
    back = [name for name, files in given.files.items() if files]
    for name in back:
        files = tuple(given.files[name])
        store.add_applied(Applied(name, time.time(), "rolled back", files, change.owner))
    words = [f"rolled back: {', '.join(back)}"] if back else []
    if given.failed:
        failed = "; ".join(f"{name}: {told}" for name, told in given.failed.items())
        words.append(
            f"NOT rolled back: {failed}. A host that was changed puts its own files back by itself"
            f" within {math.ceil(change.lease_s / 60)} minutes while it is up; see with `tuner"
            " rollback` when it can be reached"
        )
    # A host whose server refused the files, or did not prove them, has put them back already.
    return "; ".join(words) or "every host is as it was found"


def _probed(url: str, host: Host, count: int, limit: Constraint | None) -> str:
    """What a host answers to so many requests, one after another; in words.

    Not a measurement: one connection at a time, from this machine, by its clock. It is to find a
    host that fails or has become slow, before the next one is changed.

    Raises:
        HostError: an answer is an error, or the limit does not hold.
    """
    address = url.replace("{host}", host.address)
    taken_us = []
    for _ in range(count):
        begun = time.perf_counter()
        try:
            with urllib.request.urlopen(address, timeout=_PATIENCE_S) as answer:  # noqa: S310 - the user's
                answer.read()
        except (urllib.error.URLError, OSError, ValueError) as error:
            raise HostError(f"{host.name}: {address}: {error}") from error
        taken_us.append((time.perf_counter() - begun) * 1e6)
    shown = {"p50": 0.5, "p99": 0.99}
    if limit is not None and limit.metric.quantile is not None:
        shown[limit.metric.name] = limit.metric.quantile
    seen_us = {name: _quantile(taken_us, share) for name, share in shown.items()}
    words = ", ".join(f"{name} {value / 1e3:.2f} ms" for name, value in seen_us.items())
    if limit is not None and seen_us[limit.metric.name] > limit.limit:
        raise HostError(f"{host.name}: {words} at {address}, and {limit.text} was to hold")
    return f"{count} probes answered, {words}"


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[math.ceil(share * len(values)) - 1]


def _change(
    study: StudyResult, name: str, target: str | None, service: str | None, *, candidate: bool
) -> Change:
    """What the study recommends, as files of a host.

    Raises:
        DefinitionError: there is nothing to apply, or it is not known where.
    """
    chosen = choose(study, candidate=candidate)
    if chosen is None:
        raise DefinitionError(f"the record of {name!r} holds no configuration", path="NAME")
    server = study.record.server.name
    if server not in MAIN_FILES:
        raise DefinitionError(f"{server} is exported only; see `tuner export {name}`", path="NAME")
    definition = study.record.definition
    config = str(definition.get("config") or "")
    # In place, the study's own file was there already.
    main = target or (config if definition.get("in_place") else MAIN_FILES[server])
    files = _own_files(chosen, name, config, main) if config else {main: chosen.text}
    change = Change(
        owner=f"{name} {chosen.configuration.digest}",
        service=service or server,
        files=files,
        validate=("nginx", "-t"),
    )
    return _of_caddy(change, chosen, main) if server == caddy.name else change


def _of_caddy(change: Change, chosen: ConfigurationRecord, main: str) -> Change:
    """The change, validated as the service's process, and proved by its administration.

    Validating opens log files, and a reload that fails keeps what ran. Variables of its environment
    need a new process.
    """
    unit = unit_of(change.service, chosen.more.get(caddy.ENVIRONMENT_FILE, ""))
    if unit:
        words = ", ".join(f"{name}={value}" for name, value in unit.variables.items())
        click.echo(
            f"note: {words} belong to the environment of {change.service}, which is restarted"
            " where it has another",
            err=True,
        )
    validate, adapted = caddy.service_commands(main)
    return replace(change, validate=validate, live=Running(adapted), program=caddy.name, unit=unit)


def _own_files(chosen: ConfigurationRecord, name: str, config: str, main: str) -> dict[str, str]:
    """The user's own files that differ, where they lie on the host.

    Raises:
        DefinitionError: there is none, and no variable of the environment either.
    """
    if caddy.JSON_FILE in chosen.more:
        raise DefinitionError(
            f"what {name!r} recommends is said by {caddy.JSON_FILE} alone, not by your Caddyfile;"
            f" see `tuner export {name}`",
            path="NAME",
        )
    # Names count from a folder that may lie above the main file's.
    up = os.path.relpath(folder_of(chosen.more.get(PATCH, "")), Path(config).absolute().parent)
    folder = os.path.normpath(Path(main).parent / up)
    files = {
        str(Path(folder) / key.removeprefix(f"{APPLIED}/")): text
        for key, text in chosen.more.items()
        if key.startswith(f"{APPLIED}/")
    }
    if not files and caddy.ENVIRONMENT_FILE not in chosen.more:
        raise DefinitionError(
            f"{name!r} recommends the configuration as it was: nothing to apply", path="NAME"
        )
    return files


def _limit(text: str | None) -> Constraint | None:
    """The limit of ``--watch``.

    Raises:
        DefinitionError: it cannot be read, or is of something that a probe does not see.
    """
    if text is None:
        return None
    try:
        limit = Constraint.parse(text)
    except ValueError as error:
        raise DefinitionError(str(error), path="--watch") from error
    if limit.metric.quantile is None or limit.relative:
        raise DefinitionError(
            f"{text!r}: a probe sees latencies; allowed: a percentile and a time, as 'p99<5ms'",
            path="--watch",
        )
    return limit


@contextlib.contextmanager
def services_of(hosts: Inventory) -> Iterator[Services]:
    """What changes the services of these hosts; its connections end with it."""
    connections = Connections(hosts)
    try:
        with tempfile.TemporaryDirectory(prefix="tuner-apply-") as folder:
            path = str(Path(hosts.path).resolve())
            yield Services(Playbooks(Path(folder), path, connections.settings), Path(folder))
    finally:
        connections.close()
