"""``--in-place`` with Caddy: the target's own service, proved by its administration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fleet.bed import Bed, BedHost, bed
from tests.fleet.conftest import skip_without_bed
from tests.fleet.services import (
    ACCOUNT,
    CADDY,
    CADDYFILE,
    PAGE,
    PORT,
    PROGRAM,
    RELOAD,
    SITE,
    TEXTS,
    VARIABLES,
    Service,
)
from tests.fleet.test_in_place import made, opened, options, other
from tests.fleet.test_remote import tuner
from tuner.app.preflight import preflight
from tuner.definition.study import load_study
from tuner.errors import DefinitionError, HostError
from tuner.hosts.inventory import Host, read_inventory
from tuner.hosts.playbooks import Playbooks
from tuner.hosts.remote import Connections
from tuner.hosts.service import RunningConfiguration, ServiceChange, Services

pytestmark = pytest.mark.integration

LOG = "/var/log/caddy/access.log"


@pytest.fixture(scope="module")
def hosts() -> Iterator[Bed]:
    """A host whose service is Caddy, and one that offers the load."""
    skip_without_bed()
    with bed({"targets": ["web"], "generators": ["load"]}) as found:
        CADDY.serve(found["web"])
        yield found


@pytest.fixture
def service() -> Service:
    """Implement ``web``."""
    return CADDY


@pytest.fixture(autouse=True)
def kept_log(web: BedHost) -> Iterator[None]:
    """Validating opens the log: it stays that of the service's account."""
    yield
    assert web.run("stat", "-c", "%U", LOG).strip() == ACCOUNT


def test_the_service_runs_one_configuration_after_another(
    hosts: Bed, web: BedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each configuration runs in turn, a refused one does not, and the record has no secret."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("SHOP_ROOT", raising=False)
    main = web.root / CADDYFILE.lstrip("/")
    with opened(tmp_path, hosts, CADDY) as bench:
        assert dict(bench.workload.requests[0].headers)["Host"] == CADDY.name
        assert "gogc" not in bench.baseline.values
        assert bench.exclusive
        assert bench.free_ports(1) == (PORT,)
        slow = other(bench, idle_timeout=7)
        for label, configuration in (("baseline", bench.baseline), ("c1", slow)):
            became = bench.deployer.switch(made(bench, label, configuration))
            assert became.state == "live", became.message
            assert CADDY.ask(web, PAGE).startswith("200 a page")
            assert web.run("cat", "/run/caddy.pid").strip() == str(became.pids[0])
        tuned = main.read_text()
        assert "idle 7s" in tuned
        assert tuned.endswith(TEXTS[CADDYFILE])
        bad = made(bench, "c2", bench.baseline)
        texts = {CADDYFILE.lstrip("/"): "{\n\tbogus\n}\n"}
        refused = bench.deployer.switch(replace(bad, files=texts))
        assert refused.state == "refused"
        assert "bogus" in refused.message
        assert main.read_text() == tuned
    (record,) = tmp_path.glob("studies/*/record.db")
    assert VARIABLES["SHOP_ROOT"] not in record.read_bytes().decode("latin-1")


def change(text: str) -> ServiceChange:
    """Return a change of the imported file, as ``tuner apply`` makes it."""
    reads = ("--config", CADDYFILE, "--adapter", "caddyfile")
    return ServiceChange(
        "mine 0123",
        "caddy",
        {SITE: text},
        (PROGRAM, "validate", *reads),
        live=RunningConfiguration((PROGRAM, "adapt", *reads)),
        program=PROGRAM,
    )


@pytest.mark.fleet
def test_a_reload_is_proved_too(hosts: Bed, web: BedHost, tmp_path: Path) -> None:
    """A service that reloads and keeps its old configuration does not pass for a changed one."""
    inventory = read_inventory(str(hosts.inventory), generators=False)
    connections = Connections(inventory)
    services = Services(Playbooks(tmp_path, str(hosts.inventory), connections.settings), tmp_path)
    target = Host("web", {})
    script = web.root / "etc/init.d/caddy"
    text = TEXTS[SITE].replace("encode gzip", "encode zstd")
    own = script.read_text()
    try:
        assert services.change(target, change(text)).state == "live"
        services.restore([target])
        script.write_text(own.replace(RELOAD, "true"))
        became = services.change(target, change(text))
        assert became.state == "failed"
        assert "differs from the files" in became.message
    finally:
        script.write_text(own)
        services.restore([target])
        connections.close()


TLS_SITE = """\
https://shop.test:8443 {
	tls internal
	root * {$SHOP_ROOT}
	encode gzip
	file_server
}
"""


@pytest.mark.fleet
def test_ones_own_files_are_served_beside_the_service(
    hosts: Bed, web: BedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read here, served on the target over TLS with the workload's files; its service stays."""
    (tmp_path / "own.caddy").write_text(TLS_SITE)
    (tmp_path / "Caddyfile").write_text("import *.caddy\n")
    monkeypatch.setenv("SHOP_ROOT", "/nowhere")
    pid = web.run("cat", "/run/caddy.pid")
    given = ("--server", "caddy", "--config", "Caddyfile", "--inventory", str(hosts.inventory))
    done = tuner(tmp_path, "measure", "own", *given, "--time", "4s", "--name", "own", "--json")
    assert done.returncode == 0, done.stderr
    windows = json.loads(done.stdout)["windows"]
    assert windows
    assert not any(window["errors"] for window in windows)
    assert all(window["completed_per_s"] > 0 for window in windows)
    assert web.run("cat", "/run/caddy.pid") == pid


@pytest.mark.fleet
def test_what_does_not_run_cannot_be_tuned_in_place(
    hosts: Bed, web: BedHost, tmp_path: Path
) -> None:
    """Nobody knows then as whom, and with which environment, its files are to be validated."""
    web.run("service", "caddy", "stop")
    try:
        with pytest.raises((HostError, DefinitionError), match="start the service first"):
            preflight(load_study(overrides=options(tmp_path, hosts, CADDY)), watch=False)
    finally:
        web.run("service", "caddy", "start")
