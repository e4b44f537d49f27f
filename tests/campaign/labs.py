"""Labs that cases share because they are slow to make: a PostgreSQL, and hosts over SSH."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from tests.campaign.place import Place, namespace, place, within
from tests.campaign.scenarios import Scenario
from tests.fleet.bed import Bed, BedHost, bed, listens, until
from tests.fleet.services import GUARD, NGINX
from tests.hosts.access import ACL, access_list
from tests.store.database import Database, database
from tuner.store.storage import DEFAULT_PROXY_PORT
from tuner.testing.faults import Network

_GUARDS = frozenset({f"{GUARD}/log", f"{GUARD}/lock", f"{GUARD}/watch.lock"})
"""Files of the guard on a host that grow or hold an id, and say nothing of what is lent."""
_PATIENCE_S = 60.0
_DOMAIN = ".test"
_NAMED = "named.yml"
"""File name of the inventory that has names in place of addresses."""
State = Callable[[], Any]
"""Reads the state of the hosts, which must be the same before and after a case."""


class Labs(contextlib.ExitStack):
    """Makes a lab when the first case asks for it, and removes it at the end."""

    def __init__(self) -> None:
        super().__init__()
        self._count = itertools.count()
        self._database: tuple[str, Database] | None = None
        self._bed: Bed | None = None

    @contextmanager
    def place(self, scenario: Scenario) -> Iterator[Place]:
        """Make a place for a case of a scenario."""
        with place(scenario.disk, network=scenario.lab == "here") as at:
            if scenario.lab == "database":
                name, server = self._postgresql()
                served = (server.port, DEFAULT_PROXY_PORT)
                network = Network(name, served=served, elsewhere=True)
                with within(name):
                    url = _created(server, f"case{os.getpid()}_{next(self._count)}")
                made = replace(at, namespace=name, networks=(network,), storage=url)
                with _proxy(made) if "proxy" in scenario.offers else nullcontext(made) as there:
                    yield there
            elif scenario.lab == "hosts":
                hosts = self._hosts()
                networks = tuple(
                    Network(host.namespace, "eth0", served=(22,), elsewhere=True)
                    for host in hosts.hosts.values()
                )
                before = _state(hosts)
                names = at.folder.parent / "names"
                names.write_text("127.0.0.1 localhost\n" + _names(hosts))
                # The controller's own processes are found by their environment.
                yield replace(
                    at,
                    networks=networks,
                    inventory=str(hosts.folder / _NAMED),
                    names=names,
                    changed=lambda: _changed(hosts, before),
                    supervise=lambda: _supervise(hosts["web"]),
                )
            elif at.namespace:
                kernel = _kernel(at.namespace)
                yield replace(at, changed=lambda: _changed_kernel(at.namespace, kernel))
            else:
                yield at

    def _postgresql(self) -> tuple[str, Database]:
        if self._database is None:
            name = self.enter_context(namespace(f"tc-db{os.getpid()}"))
            with within(name):
                made = self.enter_context(database())
            self._database = name, made
        return self._database

    def _hosts(self) -> Bed:
        if self._bed is None:
            groups = {"targets": ["web"], "generators": ["load"]}
            made = self.enter_context(bed(groups, services={"web": ("nginx",)}))
            NGINX.serve(made["web"])
            NGINX.awaited(made["web"])
            _share(made["web"].root / NGINX.main.lstrip("/"))
            _name(made)
            self._bed = made
        return self._bed


def _share(path: Path) -> None:
    """Let another account read a file by its access list, which must outlast every case."""
    os.setxattr(path, ACL, access_list(reader=65_534))


def _name(hosts: Bed) -> None:
    """Write an inventory of the hosts by name, and their names into the file of known hosts."""
    known = hosts.folder / "known_hosts"
    reported = yaml.safe_load(hosts.inventory.read_text())
    keys = dict(line.split(" ", 1) for line in known.read_text().splitlines())
    with known.open("a") as stream:
        for host in hosts.hosts.values():
            stream.write(f"{host.name}{_DOMAIN} {keys[host.address]}\n")
    for group in hosts.groups:
        for name, variables in reported[group]["hosts"].items():
            variables["tuner_address"] = variables["ansible_host"]
            variables["ansible_host"] = f"{name}{_DOMAIN}"
    (hosts.folder / _NAMED).write_text(yaml.safe_dump(reported))


def _names(hosts: Bed) -> str:
    return "".join(f"{host.address} {host.name}{_DOMAIN}\n" for host in hosts.hosts.values())


def _created(server: Database, database: str) -> str:
    """Return a new database; after the kill of a process the server recovers for seconds."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return server.create(database)
        except subprocess.CalledProcessError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


@contextmanager
def _proxy(at: Place) -> Iterator[Place]:
    """Run ``tuner proxy`` in front of a place's storage, and again each time it ends."""
    listen = ("--listen", f"127.0.0.1:{DEFAULT_PROXY_PORT}")
    with (at.folder.parent / "proxy.log").open("ab") as log:
        manager = subprocess.Popen(
            [
                *("ip", "netns", "exec", at.namespace),
                *("sh", "-c", 'while :; do "$@"; sleep 0.5; done', "manager"),
                *(sys.executable, "-m", "tuner", "proxy", *listen),
            ],
            env={**os.environ, "TUNER_STORAGE": at.storage},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def awaited() -> None:
        with within(at.namespace):
            until("the proxy", lambda: listens(DEFAULT_PROXY_PORT), _PATIENCE_S)

    try:
        awaited()
        gateway = f"grpc://127.0.0.1:{DEFAULT_PROXY_PORT}"
        # A command after a fault finds it running again, as after a real supervisor's restart.
        yield replace(at, gateway=gateway, supervise=awaited)
    finally:
        os.killpg(manager.pid, signal.SIGKILL)
        manager.wait()


def _state(hosts: Bed) -> dict[str, object]:
    found: dict[str, object] = {
        name: {path: seen for path, seen in host.files().items() if path not in _GUARDS}
        for name, host in hosts.hosts.items()
    }
    return {**found, "service": NGINX.state(hosts["web"])}


def _supervise(host: BedHost) -> None:
    """Start Nginx if its main process died; workers that it left hold its port."""
    if not host.run("sh", "-c", "kill -0 $(cat /run/nginx.pid) 2>/dev/null && echo lives; true"):
        host.run("sh", "-c", "pkill -KILL -x nginx; service nginx start")
        NGINX.awaited(host)


def _kernel(namespace: str) -> dict[str, str]:
    """Return the network settings of a namespace."""
    found = {}
    with within(namespace):
        for path in (*Path("/proc/sys/net/core").iterdir(), *Path("/proc/sys/net/ipv4").iterdir()):
            # Some can only be written, and folders not even that.
            with contextlib.suppress(OSError):
                found[path.name] = path.read_text()
    return found


def _changed_kernel(namespace: str, before: dict[str, str]) -> list[str]:
    """Return the network settings that are not as they were, each in a sentence."""
    now = _kernel(namespace)
    return [
        f"{name} is {now[name]}, was {before[name]}" for name in now if now[name] != before[name]
    ]


def _changed(hosts: Bed, before: dict[str, object]) -> list[str]:
    """Return what is not as it was on the hosts, each in a sentence."""
    now = _state(hosts)
    wrong = [
        f"{name} is not as it was: {_differing(before[name], now[name])}"
        for name in now
        if before[name] != now[name]
    ]
    for name, host in hosts.hosts.items():
        wrong += [f"left on {name}: {path}" for path in host.root.glob("var/tmp/tuner-*")]
        said = subprocess.run(
            host.inside("ps", "-eo", "comm"), capture_output=True, text=True, check=False
        ).stdout
        wrong += [f"left on {name}: a generator"] * ("tuner-load" in said)
    return wrong


def _differing(before: object, now: object) -> str:
    if isinstance(before, dict) and isinstance(now, dict):
        keys = sorted(
            str(key) for key in before.keys() | now.keys() if before.get(key) != now.get(key)
        )
        return ", ".join(keys[:4])
    return f"{before} became {now}"[:200]
