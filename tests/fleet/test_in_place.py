"""``--in-place``: the target's own service runs the configurations, and is its own again."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.fleet.bed import Bed, BedHost, bed, until
from tests.fleet.conftest import skip_without_bed
from tests.fleet.services import CADDY, GUARD, NGINX, PAGE, PATIENCE_S, Service, restored
from tests.fleet.test_faults import Study, started
from tests.fleet.test_remote import tuner
from tuner.app.preflight import preflight
from tuner.app.progress import TerminalProgress
from tuner.app.session import create_store, open_bench
from tuner.definition.study import load_study
from tuner.errors import HostError
from tuner.hosts.deployer import InstanceSpec
from tuner.phases.bench import Bench
from tuner.servers.ground import LIVE_PATH
from tuner.space.configuration import Configuration, Value
from tuner.store.store import Store, sqlite_url

pytestmark = pytest.mark.integration

WORDS = "restarts-my-service"
NAME = "faulty"
WORKLOAD = f"""\
workload: page
connections: 8
site: own
requests: [{{path: {PAGE}}}]
"""
SEARCH_S = 300.0
"""Longest time until a study tries something else than the baseline."""
VERDICT_S = 1500.0


TLS_SITE = """\
server {
    listen 8443 ssl;
    server_name shop.test;
    ssl_certificate /nowhere/shop.pem;
    ssl_certificate_key /nowhere/shop.key;
    ssl_dhparam /nowhere/dhparam.pem;
    location / {
        root /srv/shop;
        more_set_headers "X-Shop: ours";
    }
}
"""


@dataclass(frozen=True)
class Case:
    """A service, and what controls it."""

    service: Service
    systemd: bool


CASES = (
    pytest.param(Case(NGINX, systemd=False), id="nginx"),
    pytest.param(Case(NGINX, systemd=True), id="nginx-systemd", marks=pytest.mark.fleet),
    pytest.param(Case(CADDY, systemd=True), id="caddy-systemd", marks=pytest.mark.fleet),
)


every_case = pytest.mark.parametrize("case", CASES, indirect=True)


@pytest.fixture(scope="module", params=CASES[:2])
def case(request: pytest.FixtureRequest) -> Case:
    """Return the case to tune in place."""
    found = request.param
    assert isinstance(found, Case)
    return found


@pytest.fixture
def service(case: Case) -> Service:
    """Implement ``web``."""
    return case.service


@pytest.fixture(scope="module")
def hosts(case: Case) -> Iterator[Bed]:
    """A host with the service and a page, and one that offers the load."""
    skip_without_bed(systemd=case.systemd)
    groups = {"targets": ["web"], "generators": ["load"]}
    running = ("web",) if case.systemd else ()
    services = {"web": ("nginx",)} if case.service is NGINX else {}
    with bed(groups, services=services, systemd=running) as made:
        case.service.serve(made["web"])
        yield made


def options(folder: Path, hosts: Bed, service: Service) -> dict[str, str]:
    """Return the options of a short study in place."""
    workload = folder / "page.yaml"
    workload.write_text(WORKLOAD)
    return {
        "inventory": str(hosts.inventory),
        "server": service.server,
        "workload": str(workload),
        "in_place": WORDS,
        "name": NAME,
    }


@contextlib.contextmanager
def opened(folder: Path, hosts: Bed, service: Service) -> Iterator[Bench]:
    """The bench of a study in place, in this process."""
    given = options(folder, hosts, service)
    found = preflight(load_study(overrides=given), watch=False)
    studies = folder / "studies" / NAME
    store = create_store(found, studies)
    with open_bench(found, studies, TerminalProgress(quiet=True), store) as (bench, _):
        yield bench


def made(bench: Bench, label: str, configuration: Configuration) -> InstanceSpec:
    """Return the service with a configuration."""
    (port,) = bench.free_ports(1)
    return bench.make_instance(label, configuration, port)


def other(bench: Bench, **values: Value) -> Configuration:
    """Return the baseline with other values."""
    return Configuration.of(bench.baseline.space, {**bench.baseline.values, **values})


def test_the_service_runs_one_configuration_after_another(
    hosts: Bed, web: BedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each proves what runs, on the service's own port; what is refused does not run."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    page = NGINX.ask(web, PAGE)
    with opened(tmp_path, hosts, NGINX) as bench:
        assert bench.exclusive
        assert bench.address == web.address
        off = other(bench, sendfile=False)
        for label, configuration in (("baseline", bench.baseline), ("c1", off)):
            state = bench.deployer.switch(made(bench, label, configuration))
            assert state.state == "live", state.message
            assert NGINX.ask(web, LIVE_PATH) == f"200 {configuration.digest}"
            assert NGINX.ask(web, PAGE) == page
            assert web.run("cat", "/run/nginx.pid").strip() == str(state.pids[0])
            assert len(state.pids) > 1
        assert "sendfile off;" in (web.root / "etc/nginx/nginx.conf").read_text()
        bad = made(bench, "c2", bench.baseline)
        texts = {path: text + "bogus on;\n" for path, text in bad.files.items()}
        refused = bench.deployer.switch(replace(bad, files=texts))
        assert refused.state == "refused"
        assert "bogus" in refused.message
        assert NGINX.ask(web, LIVE_PATH) == f"200 {off.digest}"
        with pytest.raises(HostError, match="has changed the service's files"):
            preflight(load_study(overrides=options(tmp_path, hosts, NGINX)), watch=False)
    assert not (web.root / GUARD / "saved.json").exists()
    assert not list((tmp_path / "state").glob("tuner/running/*.json"))


def test_a_dry_run_asks_the_service_as_it_is(hosts: Bed, web: BedHost, tmp_path: Path) -> None:
    """One request to the user's values; the service keeps its files and its process."""
    pid = web.run("cat", "/run/nginx.pid")
    given = options(tmp_path, hosts, NGINX).items()
    words = [word for name, text in given for word in (f"--{name.replace('_', '-')}", text)]
    both = ("--baseline", "own", "--baseline", "stock")
    done = tuner(tmp_path, "optimize", "--study", "static", *both, "--dry-run", "--json", *words)
    assert done.returncode == 0, done.stderr
    (plan,) = json.loads(done.stdout)["plans"]
    own, stock = plan["configurations"]
    assert [each["status"] for each in own["requests"]] == [200]
    assert not stock["requests"]
    assert web.run("cat", "/run/nginx.pid") == pid


def test_ones_own_files_are_served_beside_the_service(
    hosts: Bed, web: BedHost, tmp_path: Path
) -> None:
    """Read here, judged and served on the target, over TLS, and the site's own page too."""
    (tmp_path / "shop.conf").write_text(TLS_SITE)
    main = "events {}\nhttp { include *.conf; }\n"
    (tmp_path / "nginx").write_text(main)
    # A given rate needs no calibration.
    load = ("--time", "4s", "--rate", "200")
    given = ("--config", "nginx", "--inventory", str(hosts.inventory), *load, "--json")
    pid = web.run("cat", "/run/nginx.pid")
    (tmp_path / "page.yaml").write_text(WORKLOAD)
    own = ("--workload", "page.yaml", "--root", "/var/www/html")
    for name, more in {"lab": (), "own": own}.items():
        # Stalls of the host are kept: figures do not matter here.
        done = tuner(tmp_path, "measure", "own", *given, "--name", name, "--stalls", "keep", *more)
        assert done.returncode == 0, done.stderr
        record = Store.open(sqlite_url(tmp_path / "studies" / name), name).record()
        for words in ("does not know it", "dhparam.pem cannot be read", "own certificate"):
            assert any(words in note for note in record.notes)
        windows = json.loads(done.stdout)["windows"]
        assert windows
        for window in windows:
            assert window["completed_per_s"] > 0
            assert not window["errors"]
    assert web.run("cat", "/run/nginx.pid") == pid
    closed = tuner(tmp_path, "measure", "own", *given, *own[:2], "--root", "/root")
    assert closed.returncode == 2
    assert "folder /root cannot be entered" in " ".join(closed.stderr.split())


def begun(folder: Path, hosts: Bed, service: Service, *more: str) -> Study:
    """Return a short study in place, on the command line.

    Throughput needs no stall-free samples at a rate, of which a busy machine gives few.
    """
    given = options(folder, hosts, service).items()
    words = [word for name, text in given for word in (f"--{name.replace('_', '-')}", text)]
    # Of Caddy nothing else is left to search in place.
    words += ["--allow", "encode_gzip_level"] if service is CADDY else []
    short = ("--time", "40s", "--objective", "throughput", "--rate", "1000", "--trials", "1")
    return started(folder, hosts, "optimize", "--study", "static", *words, *short, *more)


@every_case
@pytest.mark.fleet
@pytest.mark.usefixtures("web")
def test_a_study_in_place_ends_with_a_verdict(hosts: Bed, service: Service, tmp_path: Path) -> None:
    """The host's own files are the baseline, and nothing of the proof is in the record's text."""
    study = begun(tmp_path, hosts, service, "--json")
    try:
        out, said = study.process.communicate(timeout=VERDICT_S)
    finally:
        study.process.kill()
    assert study.process.returncode == 0, said
    assert "stops and starts the target's own service" in said
    assert json.loads(out)["verdict"]
    record = Store.open(sqlite_url(tmp_path / "studies" / NAME), NAME).record()
    complete = [block for block in record.blocks if block.state == "complete"]
    assert complete[-1].phase == "confirm"
    text = record.configurations[record.baseline].text
    assert service.own in text
    assert LIVE_PATH not in text


@pytest.fixture
def study(hosts: Bed, service: Service, web: BedHost, tmp_path: Path) -> Iterator[Study]:
    """One in place that measures: an experimental configuration is served."""
    before = service.tells(web)
    running = begun(tmp_path, hosts, service, "--quiet")
    try:
        running.measures()
        # Nginx's baseline has a location of the proof; Caddy's is the files as they were found.
        until("a change", lambda: service.tells(web) not in (before, ""), SEARCH_S)
        yield running
    finally:
        running.process.kill()
        running.close()


@every_case
@pytest.mark.fleet
def test_a_target_whose_controller_is_killed_restores_itself(study: Study, web: BedHost) -> None:
    """``kill -9`` in mid-block, and nobody does anything: ``web`` compares what was before."""
    study.process.kill()
    assert (web.root / GUARD / "saved.json").exists()
    restored(web)
    assert "nobody renewed the time" in (web.root / GUARD / "log").read_text()


@every_case
@pytest.mark.fleet
def test_a_target_that_is_cut_off_restores_itself(study: Study, web: BedHost) -> None:
    """The study ends with the reason; the target does not wait for its network."""
    web.unplug()
    try:
        restored(web)
        said = study.end()
    finally:
        web.plug()
    assert study.process.returncode == 3
    assert "restores itself within 60 s" in said


@every_case
@pytest.mark.fleet
def test_the_next_command_restores_what_a_dead_study_left(
    study: Study, service: Service, web: BedHost
) -> None:
    """The controller is killed and the target loses its power: it starts with what was tried.

    No process is left that knows, so the claim tells whose service it was.
    """
    study.process.kill()
    study.process.wait()
    web.kill()
    web.start()
    service.awaited(web)
    assert (web.root / GUARD / "saved.json").exists()
    given = ("--workload", "static", "--rate", "500", "--time", "10s")
    here = started(study.folder, study.hosts, "measure", "stock", *given)
    said = here.process.communicate(timeout=PATIENCE_S)[1]
    inventory = str(study.hosts.inventory)
    assert f"a study with --inventory {inventory} restores the original" in said
    assert (web.root / GUARD / "saved.json").exists()
    there = started(study.folder, study.hosts, "measure", "stock", *given, "--inventory", inventory)
    said = there.process.communicate(timeout=PATIENCE_S)[1]
    assert "restored the service's own files" in said
    assert not (web.root / GUARD / "saved.json").exists()
    assert "requested by" in (web.root / GUARD / "log").read_text()
