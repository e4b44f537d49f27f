"""``tuner apply`` and ``rollback`` where a host stands in the way: nothing half done or untold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.bed import Bed, BedHost, bed
from tests.fleet.conftest import skip_without_bed
from tests.fleet.services import GUARD, own_files
from tests.fleet.test_remote import tuner

pytestmark = [pytest.mark.integration, pytest.mark.fleet]

NAMES = ("east", "north", "west")
MAIN = "/etc/nginx/nginx.conf"


@pytest.fixture(scope="module")
def made() -> Iterator[Bed]:
    """Three hosts that serve with Debian's own files."""
    skip_without_bed()
    with bed({"targets": NAMES}, services=dict.fromkeys(NAMES, ("nginx",))) as hosts:
        for name in NAMES:
            (hosts[name].root / "var/www/html").mkdir(parents=True, exist_ok=True)
            (hosts[name].root / "var/www/html/index.html").write_text("here\n")
        yield hosts


@pytest.fixture
def hosts(made: Bed) -> Iterator[Bed]:
    """They have their own files again when a test is over, and nothing waits to put them back."""
    before = {name: own_files(host) for name, host in made.hosts.items()}
    yield made
    assert {name: own_files(host) for name, host in made.hosts.items()} == before
    assert not any((host.root / GUARD / "saved.json").exists() for host in made.hosts.values())


def call(study: Path, hosts: Bed, command: str, *more: str) -> tuple[int, str, str]:
    """Exit code of the command on these hosts, what it printed, and what it said beside that."""
    options = ("--probes", "10") if command == "apply" else ()
    inventory = ("--inventory", str(hosts.inventory))
    done = tuner(study, command, "mine", *inventory, *options, *more)
    return done.returncode, done.stdout, " ".join(done.stderr.split())


def recorded(study: Path) -> list[tuple[str, str]]:
    """Host and what was done, as the report's JSON tells it."""
    done = tuner(study, "report", "mine", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)["applied"]
    assert all(entry["files"] == [MAIN] for entry in told)
    return [(entry["host"], entry["what"]) for entry in told]


def master(host: BedHost) -> str:
    """The process of its service."""
    return host.run("cat", "/run/nginx.pid")


def test_a_host_that_refuses_it_has_its_service_untouched(hosts: Bed, recommended: Path) -> None:
    """In the words of its server; the host before it is rolled back, the one after not reached."""
    north, seen = hosts["north"], len(recorded(recommended))
    masters = {name: master(hosts[name]) for name in ("north", "west")}
    north.run("mv", "/var/log/nginx", "/var/log/elsewhere")
    try:
        code, out, said = call(recommended, hosts, "apply")
    finally:
        north.run("mv", "/var/log/elsewhere", "/var/log/nginx")
    assert code == 3
    assert "east: applied; 10 probes answered" in out
    assert "north: nginx refused" in said
    assert "/var/log/nginx/error.log" in said
    assert said.endswith("; rolled back: east")
    assert "west" not in out + said
    assert {name: master(hosts[name]) for name in masters} == masters
    assert recorded(recommended)[seen:] == [("east", "applied"), ("east", "rolled back")]


def test_a_host_that_is_down_keeps_no_other_changed(hosts: Bed, recommended: Path) -> None:
    """Those before it are rolled back and in the record; it is named, with what to do."""
    seen = len(recorded(recommended))
    hosts["west"].kill()
    try:
        code, _, said = call(recommended, hosts, "apply")
    finally:
        hosts["west"].start()
    assert code == 3
    assert "rolled back: east, north; NOT rolled back: west: " in said
    assert "`tuner rollback` when it can be reached" in said
    assert sorted(recorded(recommended)[seen:]) == [
        (name, what) for name in ("east", "north") for what in ("applied", "rolled back")
    ]
    code, out, _ = call(recommended, hosts, "rollback")
    assert code == 0
    assert out.splitlines() == [f"{name}: nothing of mine to put back" for name in NAMES]


def test_a_rollback_does_what_it_can_and_may_be_repeated(hosts: Bed, recommended: Path) -> None:
    """Of three hosts one is away: the others are back; the same command again does the rest."""
    seen = len(recorded(recommended))
    assert call(recommended, hosts, "apply")[0] == 0
    hosts["north"].kill()
    try:
        code, out, said = call(recommended, hosts, "rollback")
    finally:
        hosts["north"].start()
    assert code == 3
    assert out.splitlines() == [f"{name}: put back {MAIN}" for name in ("east", "west")]
    assert "not rolled back: north: " in said
    code, out, _ = call(recommended, hosts, "rollback")
    assert (code, out.splitlines()[1]) == (0, f"north: put back {MAIN}")
    code, out, _ = call(recommended, hosts, "rollback")
    assert (code, out.splitlines()[1]) == (0, "north: nothing of mine to put back")
    assert recorded(recommended)[seen:] == [
        *((name, "applied") for name in NAMES),
        *((name, "rolled back") for name in ("east", "west", "north")),
    ]


def test_what_another_study_applied_is_left_alone(hosts: Bed, recommended: Path) -> None:
    """It is refused by name, and neither the way back from that nor a rollback takes it away."""
    east, seen = hosts["east"], len(recorded(recommended))
    assert call(recommended, hosts, "apply", "--canary", "1")[0] == 0
    state = east.root / GUARD / "saved.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "owner": "other 0123"}))
    text = (east.root / MAIN.removeprefix("/")).read_text()
    try:
        code, _, said = call(recommended, hosts, "apply")
        assert code == 3
        assert "is changed by other 0123 already" in said
        assert "every host is as it was found" in said
        code, out, _ = call(recommended, hosts, "rollback")
        assert (code, out.splitlines()[0]) == (0, "east: nothing of mine to put back")
        assert (east.root / MAIN.removeprefix("/")).read_text() == text
    finally:
        east.run("python3", f"/{GUARD}/guard.py", f"/{GUARD}", "restore")
    assert recorded(recommended)[seen:] == [("east", "applied")]
