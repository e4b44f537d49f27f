"""The host's own service: changed with a way back, which no death of a controller can close."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.bed import Bed, BedHost, bed
from tests.fleet.conftest import skip_without_bed
from tests.fleet.services import GUARD, NGINX, PAGE, Service, restored
from tuner.errors import HostError
from tuner.hosts.inventory import Host, read_inventory
from tuner.hosts.playbooks import Playbooks
from tuner.hosts.remote import Connections
from tuner.hosts.service import ServiceChange, Services

pytestmark = pytest.mark.integration

MAIN = NGINX.main


@pytest.fixture(scope="module")
def hosts() -> Iterator[Bed]:
    """A host with an Nginx of its own, as Debian sets it up, on a disk that can be filled."""
    skip_without_bed()
    with bed({"targets": ["web"]}, services={"web": ("nginx",)}, sizes={"web": "64m"}) as made:
        NGINX.serve(made["web"])
        yield made


@pytest.fixture
def service() -> Service:
    """That host's; see ``web``."""
    return NGINX


@pytest.fixture
def services(hosts: Bed, tmp_path: Path) -> Iterator[Services]:
    """Return the adapter that changes the service over SSH."""
    inventory = read_inventory(str(hosts.inventory), generators=False)
    connections = Connections(inventory)
    yield Services(Playbooks(tmp_path, str(hosts.inventory), connections.settings), tmp_path)
    connections.close()


def headers(host: BedHost) -> str:
    """Those of its page."""
    return NGINX.answer(host, PAGE)[1]


def tuned(host: BedHost) -> str:
    """Return the host's main file with a header that shows that it is in use."""
    text = (host.root / MAIN.lstrip("/")).read_text()
    return text.replace("http {", "http {\n    add_header X-Tuned yes always;", 1)


def change(host: BedHost, text: str | None = None, *, lease_s: float = 300.0) -> ServiceChange:
    """Return the tuned file, or another text."""
    files = {MAIN: text if text is not None else tuned(host)}
    return ServiceChange("mine 0123", "nginx", files, ("nginx", "-t"), lease_s=lease_s)


def target(host: BedHost) -> Host:
    """Return as the inventory names it."""
    return Host(host.name, {})


def fill(path: Path) -> None:
    """Until nothing more goes on the disk."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as stream:
        while stream.write(bytes(4096)):
            pass


def test_a_change_is_taken_over_and_taken_back(web: BedHost, services: Services) -> None:
    """The service runs with it, then with its own file again: bytes, mode, owner and time."""
    before = (web.root / MAIN.lstrip("/")).stat()
    assert services.change(target(web), change(web)).state == "live"
    assert "X-Tuned" in headers(web)
    services.keep([target(web)])
    assert services.restore([target(web)]) == {"web": [MAIN]}
    after = (web.root / MAIN.lstrip("/")).stat()
    assert (after.st_mtime_ns, after.st_mode) == (before.st_mtime_ns, before.st_mode)
    assert services.restore([target(web)]) == {"web": []}


@pytest.mark.fleet
def test_what_the_server_refuses_never_runs(web: BedHost, services: Services) -> None:
    """In its own words; the old file stands there at once."""
    became = services.change(target(web), change(web, "http { bogus on; }\n"))
    assert became.state == "refused"
    assert "bogus" in became.message
    services.restore([target(web)])


def test_a_host_whose_controller_died_restores_itself(web: BedHost, services: Services) -> None:
    """Nobody renews the time limit: file and service are back without anybody's help."""
    assert services.change(target(web), change(web, lease_s=3.0)).state == "live"
    assert "X-Tuned" in headers(web)
    restored(web)
    assert "nobody renewed" in (web.root / GUARD / "log").read_text()


@pytest.mark.fleet
def test_two_changes_do_not_mix(web: BedHost, services: Services) -> None:
    """The second owner is refused; the message names the owner of the change."""
    services.change(target(web), change(web))
    other = ServiceChange("other 4567", "nginx", {MAIN: ""}, ("nginx", "-t"))
    with pytest.raises(HostError, match="mine 0123"):
        services.change(target(web), other)
    services.restore([target(web)])


@pytest.mark.fleet
def test_a_full_disk_stops_a_change_and_not_its_way_back(web: BedHost, services: Services) -> None:
    """A full disk stops a change that cannot be backed up, but not a restore."""
    services.change(target(web), change(web))
    filler = web.root / "var/filler"
    try:
        fill(filler)
        guard = "/var/lib/tuner/guard.py"
        reported = json.loads(web.run("python3", guard, "/var/lib/tuner", "restore"))
        assert reported == {"restored": [MAIN]}
        with pytest.raises(HostError, match=r"service\.yml failed: web"):
            services.change(target(web), change(web))
    finally:
        filler.unlink(missing_ok=True)
    services.restore([target(web)])
    shutil.rmtree(web.root / "var/lib/tuner", ignore_errors=True)
