"""``tuner apply`` and ``rollback`` where a host stands in the way: nothing half done or untold."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.fleet.bed import Bed, BedHost, bed
from tests.fleet.conftest import skip_without_bed
from tests.fleet.services import GUARD, own_files
from tests.fleet.test_remote import tuner
from tuner.app.canary import HostSample
from tuner.app.planning import planned, wanted
from tuner.app.reached import reached
from tuner.app.recommended import recommended as recommended_of
from tuner.app.roll_out import RollOut
from tuner.errors import HostError
from tuner.hosts.inventory import Host, read_inventory
from tuner.judge.results import evaluate
from tuner.store.store import Store, sqlite_url

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
    """Run the command on these hosts; return its exit code, output and standard error."""
    options = ("--probes", "10", "--yes") if command == "apply" else ()
    inventory = ("--inventory", str(hosts.inventory))
    done = tuner(study, command, "mine", *inventory, *options, *more)
    return done.returncode, done.stdout, " ".join(done.stderr.split())


def recorded(study: Path) -> list[tuple[str, str]]:
    """Return each host and what was done, from the report's JSON."""
    done = tuner(study, "report", "mine", "--json")
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)["applied"]
    assert all(MAIN in entry["files"] for entry in reported)
    return [(entry["host"], entry["what"]) for entry in reported]


def master(host: BedHost) -> str:
    """Return the process of its service."""
    return host.run("cat", "/run/nginx.pid")


def test_a_host_that_refuses_it_keeps_every_host_unchanged(hosts: Bed, recommended: Path) -> None:
    """In the words of its server, asked before the first host is changed."""
    north, seen = hosts["north"], len(recorded(recommended))
    masters = {name: master(hosts[name]) for name in NAMES}
    north.run("mv", "/var/log/nginx", "/var/log/elsewhere")
    try:
        code, out, said = call(recommended, hosts, "apply")
    finally:
        north.run("mv", "/var/log/elsewhere", "/var/log/nginx")
    assert code == 3
    assert "nothing was changed; north: nginx refuses the files: nginx -t: " in said
    assert "/var/log/nginx/error.log" in said
    assert "change the other hosts only: --limit '!north'" in said
    assert "east: would change" in out
    assert "north" not in out
    assert {name: master(hosts[name]) for name in NAMES} == masters
    assert recorded(recommended)[seen:] == []


def test_a_host_that_is_down_keeps_every_host_unchanged(hosts: Bed, recommended: Path) -> None:
    """A host that is down is named before any host changes."""
    seen = len(recorded(recommended))
    hosts["west"].kill()
    try:
        code, _, said = call(recommended, hosts, "apply")
    finally:
        hosts["west"].start()
    assert code == 3
    assert "nothing was changed; west: " in said
    assert "--limit '!west'" in said
    assert recorded(recommended)[seen:] == []


class Unmeasured:
    """Probes that find every host as it was."""

    longest_s = 0.0

    def look(self, hosts: Sequence[Host]) -> Mapping[str, HostSample]:
        """Implement ``ChecksHosts``."""
        return {host.name: HostSample((), ()) for host in hosts}

    def checked(
        self, host: Host, before: Mapping[str, HostSample], control: Host | None, claim: str
    ) -> str:
        """Implement ``ChecksHosts``."""
        return f"{host.name} is as {before} and {control} for {claim}"


def test_a_host_that_dies_meanwhile_keeps_no_other_changed(hosts: Bed, recommended: Path) -> None:
    """Those before it are rolled back and in the record; it is named, with what to do."""
    seen = len(recorded(recommended))
    store = Store.open(sqlite_url(recommended / "studies/mine"), "mine")
    want = wanted(recommended_of(evaluate(store.record()), "mine"), inventory="hosts.yml")
    inventory = read_inventory(str(hosts.inventory), generators=False)
    with reached(inventory) as there:
        plans = planned(inventory.targets, want, there.agent, there.home).plans
        hosts["west"].kill()
        try:
            with pytest.raises(HostError) as failed:
                RollOut(there.services, Unmeasured(), store.add_applied, "no claim").run(plans)
        finally:
            hosts["west"].start()
    assert "rolled back: east, north; NOT rolled back: west: " in str(failed.value)
    assert "`tuner rollback` when it can be reached" in str(failed.value)
    assert sorted(recorded(recommended)[seen:]) == [
        (name, what) for name in ("east", "north") for what in ("applied", "rolled back")
    ]
    code, out, _ = call(recommended, hosts, "rollback")
    assert code == 0
    assert out.splitlines() == [f"{name}: no files of mine to restore" for name in NAMES]


def test_a_rollback_does_what_it_can_and_may_be_repeated(hosts: Bed, recommended: Path) -> None:
    """A rollback restores the hosts it reaches; the same command later restores the lost one."""
    seen = len(recorded(recommended))
    assert call(recommended, hosts, "apply")[0] == 0
    hosts["north"].kill()
    try:
        code, out, said = call(recommended, hosts, "rollback")
    finally:
        hosts["north"].start()
    assert code == 3
    assert [row.partition(",")[0] for row in out.splitlines()] == [
        f"{name}: restored {MAIN}" for name in ("east", "west")
    ]
    assert "not rolled back: north: " in said
    code, out, _ = call(recommended, hosts, "rollback")
    assert (code, out.splitlines()[1].partition(",")[0]) == (0, f"north: restored {MAIN}")
    code, out, _ = call(recommended, hosts, "rollback")
    assert (code, out.splitlines()[1]) == (0, "north: no files of mine to restore")
    assert recorded(recommended)[seen:] == [
        *((name, "applied") for name in NAMES),
        *((name, "rolled back") for name in ("east", "west", "north")),
    ]


def test_what_another_study_applied_is_left_alone(hosts: Bed, recommended: Path) -> None:
    """A file changed by another study is refused by name, and survives a rollback."""
    east, seen = hosts["east"], len(recorded(recommended))
    assert call(recommended, hosts, "apply", "--canary", "1")[0] == 0
    state = east.root / GUARD / "saved.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "owner": "other 0123"}))
    text = (east.root / MAIN.removeprefix("/")).read_text()
    try:
        code, _, said = call(recommended, hosts, "apply")
        assert code == 3
        assert "other 0123 has changed" in said
        assert "nothing was changed; east: " in said
        code, out, _ = call(recommended, hosts, "rollback")
        assert (code, out.splitlines()[0]) == (0, "east: no files of mine to restore")
        assert (east.root / MAIN.removeprefix("/")).read_text() == text
    finally:
        east.run("python3", f"/{GUARD}/guard.py", f"/{GUARD}", "restore")
    assert recorded(recommended)[seen:] == [("east", "applied")]
