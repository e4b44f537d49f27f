"""``tuner apply`` and ``tuner rollback`` on two hosts whose Nginx is Debian's own."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.bed import Bed, bed
from tests.fleet.conftest import INITS, skip_without_bed
from tests.fleet.services import own_files
from tests.fleet.test_remote import tuner
from tuner.store.store import Store, sqlite_url

pytestmark = [pytest.mark.integration, pytest.mark.fleet]

MAIN = "etc/nginx/nginx.conf"


@pytest.fixture(scope="module", params=INITS)
def hosts(request: pytest.FixtureRequest) -> Iterator[Bed]:
    """Two hosts that serve."""
    skip_without_bed(systemd=request.param == "systemd")
    names = ("one", "two")
    services = dict.fromkeys(names, ("nginx",))
    running = names if request.param == "systemd" else ()
    with bed({"targets": names}, services=services, systemd=running) as made:
        for name in names:
            (made[name].root / "var/www/html").mkdir(parents=True, exist_ok=True)
            (made[name].root / "var/www/html/index.html").write_text("here\n")
        yield made


def applied(recommended: Path) -> list[tuple[str, str]]:
    """Host and what was done, from the record."""
    record = Store.open(sqlite_url(recommended / "studies/mine"), "mine").record()
    return [(entry.host, entry.what) for entry in record.applied]


def test_check_shows_it_and_changes_nothing(hosts: Bed, recommended: Path) -> None:
    """Each host's own server has judged it, and no host has a file more than before."""
    before = {name: host.files() for name, host in hosts.hosts.items()}
    inventory = ("--inventory", str(hosts.inventory))
    done = tuner(recommended, "apply", "mine", *inventory, "--check")
    assert done.returncode == 0, done.stderr
    for name in hosts.hosts:
        assert f"{name}: nginx -t: accepted there" in done.stdout
        # Which of the two, the settings decide that the study's one candidate happens to change.
        assert re.search(rf"^{name}: then (reload|restart) of nginx$", done.stdout, re.MULTILINE)
    assert "+++ /etc/nginx/" in done.stdout
    assert {name: host.files() for name, host in hosts.hosts.items()} == before


@pytest.mark.every_run
def test_canary_then_rollback(hosts: Bed, recommended: Path) -> None:
    """One host runs with it, the other is not touched; then both are as before, and it is noted."""
    before = {name: own_files(host) for name, host in hosts.hosts.items()}
    inventory = ("--inventory", str(hosts.inventory))
    probe = ("--probe", "http://{host}/", "--probes", "20", "--yes")
    done = tuner(recommended, "apply", "mine", *inventory, "--canary", "1", *probe)
    assert done.returncode == 0, done.stderr
    assert "one: applied" in done.stdout
    assert "not changed (--limit, --canary): two" in done.stdout
    main = (hosts["one"].root / MAIN).read_text()
    assert "include /etc/nginx/sites-enabled/*;" in main
    assert main.startswith("user www-data;")
    assert own_files(hosts["one"]) != before["one"]
    assert own_files(hosts["two"]) == before["two"]
    done = tuner(recommended, "rollback", "mine", *inventory)
    assert done.returncode == 0, done.stderr
    assert {name: own_files(host) for name, host in hosts.hosts.items()} == before
    assert applied(recommended)[-2:] == [("one", "applied"), ("one", "rolled back")]


def test_a_limit_that_does_not_hold_puts_every_host_back(hosts: Bed, recommended: Path) -> None:
    """No host stays changed when one of them is too slow, and they all serve."""
    before = {name: own_files(host) for name, host in hosts.hosts.items()}
    options = ("--inventory", str(hosts.inventory), "--watch", "p99<1us", "--probes", "10")
    done = tuner(recommended, "apply", "mine", "--yes", *options)
    assert done.returncode == 3
    assert "misses the limit p99<=1us" in done.stderr.replace(" <= ", "<=")
    assert "rolled back: one" in done.stderr
    assert {name: own_files(host) for name, host in hosts.hosts.items()} == before
    for host in hosts.hosts.values():
        with urllib.request.urlopen(f"http://{host.address}/", timeout=5) as answer:
            assert answer.status == 200
