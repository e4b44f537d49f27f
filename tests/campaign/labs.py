"""Labs that cases share because they are slow to make: a PostgreSQL, and hosts over SSH."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.campaign.place import Place, namespace, place, within
from tests.campaign.scenarios import Scenario
from tests.fleet.bed import Bed, BedHost, bed
from tests.fleet.services import NGINX
from tests.store.database import Database, database
from tuner.testing.faults import Network

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
                network = Network(name, served=(server.port,), elsewhere=True)
                with within(name):
                    url = server.create(f"case{os.getpid()}_{next(self._count)}")
                yield replace(at, namespace=name, networks=(network,), storage=url)
            elif scenario.lab == "hosts":
                hosts = self._hosts()
                networks = tuple(
                    Network(host.namespace, "eth0", served=(22,), elsewhere=True)
                    for host in hosts.hosts.values()
                )
                before = _state(hosts)
                # The controller's own processes are found by their environment.
                yield replace(
                    at,
                    networks=networks,
                    inventory=str(hosts.inventory),
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
            self._bed = made
        return self._bed


def _state(hosts: Bed) -> dict[str, object]:
    found: dict[str, object] = {name: host.files() for name, host in hosts.hosts.items()}
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
