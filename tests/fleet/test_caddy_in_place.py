"""``--in-place`` with Caddy: the target's own service, proved by its administration."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.conftest import kept_handlers, run_main, simulate
from tests.fleet.bed import Bed, BedHost, bed, until
from tests.fleet.caddies import ACCOUNT, MAIN, PORT, PROGRAM, RELOAD, SITE, TEXTS, serve
from tests.fleet.conftest import skip_without_bed
from tests.fleet.test_in_place import PATIENCE_S, WORDS, made, other
from tests.fleet.test_remote import tuner
from tests.fleet.test_service import GUARD
from tuner.cli.progress import TerminalProgress
from tuner.cli.session import create_store, open_bench, preflight
from tuner.errors import DefinitionError, HostError
from tuner.hosts.inventory import Host, read_inventory
from tuner.hosts.playbooks import Playbooks
from tuner.hosts.remote import Connections
from tuner.hosts.service import Change, Running, Services
from tuner.study import load_study

pytestmark = pytest.mark.integration

NAME = "shop"
WORKLOAD = """\
workload: page
connections: 8
site: own
requests: [{path: /page.html}]
"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[Bed]:
    """A host whose service is Caddy, and one that offers the load."""
    skip_without_bed()
    with bed({"targets": ["web"], "generators": ["load"]}) as found:
        serve(found["web"])
        until("the page", lambda: page(found["web"]).startswith("200"), PATIENCE_S)
        yield found


@pytest.fixture
def web(hosts: Bed) -> Iterator[BedHost]:
    """The host, whose files and service must be as before when the test is over."""
    host = hosts["web"]
    before = state(host)
    yield host
    until("the restoration", lambda: not (host.root / GUARD / "saved.json").exists(), PATIENCE_S)
    until("the page", lambda: page(host).startswith("200"), PATIENCE_S)
    assert state(host) == before


def state(host: BedHost) -> dict[str, object]:
    """Texts, times, modes and owners of its files, and whose its log is."""
    files = [host.root / path.lstrip("/") for path in TEXTS]
    found = {str(file): file.stat() for file in files}
    log = host.root / "var/log/caddy/access.log"
    return {
        **{path: (s.st_mtime_ns, s.st_mode, s.st_uid, s.st_gid) for path, s in found.items()},
        "texts": [file.read_text() for file in files],
        "log": log.stat().st_uid,
        "page": page(host),
        "beside": sorted(p.name for p in (host.root / "etc/caddy").rglob("*")),
    }


def page(host: BedHost) -> str:
    """Status and body of the site's page; empty while there is none."""
    connection = http.client.HTTPConnection(host.address, PORT, timeout=5)
    try:
        connection.request("GET", "/page.html", headers={"Host": "shop.test"})
        answer = connection.getresponse()
        return f"{answer.status} {answer.read().decode()}"
    except OSError:
        return ""
    finally:
        connection.close()


def options(folder: Path, hosts: Bed) -> dict[str, str]:
    """Of a short study in place of the page."""
    workload = folder / "page.yaml"
    workload.write_text(WORKLOAD)
    return {
        "inventory": str(hosts.inventory),
        "server": "caddy",
        "workload": str(workload),
        "in_place": WORDS,
        "name": NAME,
    }


def test_the_service_runs_one_configuration_after_another(
    hosts: Bed, web: BedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its administration tells each; what is refused does not run, and its log stays its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("SHOP_ROOT", raising=False)
    found = preflight(load_study(overrides=options(tmp_path, hosts)), watch=False)
    assert dict(found.workload.requests[0].headers)["Host"] == "shop.test"
    left_out = dict(found.space.left_out)
    assert "stays as it is in place" in left_out["gogc"]
    studies = tmp_path / "studies" / NAME
    store = create_store(found, studies)
    with open_bench(found, studies, TerminalProgress(quiet=True), store) as (bench, _):
        assert bench.exclusive
        assert bench.free_ports(1) == (PORT,)
        slow = other(bench, idle_timeout=7)
        for label, configuration in (("baseline", bench.baseline), ("c1", slow)):
            became = bench.deployer.switch(made(bench, label, configuration))
            assert became.state == "live", became.message
            assert page(web).startswith("200 a page")
            assert web.run("cat", "/run/caddy.pid").strip() == str(became.pids[0])
        tuned = (web.root / MAIN.lstrip("/")).read_text()
        assert "idle 7s" in tuned
        assert tuned.endswith(TEXTS[MAIN])
        bad = made(bench, "c2", bench.baseline)
        refused = bench.deployer.switch(replace(bad, files={MAIN.lstrip("/"): "{\n\tbogus\n}\n"}))
        assert refused.state == "refused"
        assert "bogus" in refused.message
        assert (web.root / MAIN.lstrip("/")).read_text() == tuned
    assert web.run("stat", "-c", "%U", "/var/log/caddy/access.log").strip() == ACCOUNT
    assert "/srv/shop" not in (studies / "record.db").read_bytes().decode("latin-1")


def change(text: str) -> Change:
    """Of the imported file, as ``tuner apply`` makes it."""
    reads = ("--config", MAIN, "--adapter", "caddyfile")
    return Change(
        "mine 0123",
        "caddy",
        {SITE: text},
        (PROGRAM, "validate", *reads),
        live=Running((PROGRAM, "adapt", *reads)),
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
        assert "is not what the files say" in became.message
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
def test_a_study_of_ones_own_files_is_applied_where_they_lie(
    hosts: Bed, web: BedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Searched here in copies; on the host, validated, reloaded, proved, probed, and put back."""
    own = tmp_path / "own"
    for path, text in TEXTS.items():
        copy = own / Path(path).relative_to("/etc/caddy")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOP_ROOT", "/srv/shop")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    values = Path("values.yaml")
    values.write_text("space: caddy/static\nvalues: {gogc: 400, idle_timeout: 7s, encode: on}\n")
    with pytest.MonkeyPatch.context() as patch, kept_handlers():
        simulate(patch)
        given = ("--server", "caddy", "--config", "own/Caddyfile", "--name", "mine", "--quiet")
        short = ("--time", "20s", "--rate", "1000")
        assert run_main(patch, "compare", "own", str(values), *given, *short) == 0
    # No site is called by the address, so Caddy answers with an empty page: a probe all the same.
    probe = ("--probe", f"http://{{host}}:{PORT}/page.html", "--probes", "10")
    inventory = ("--inventory", str(hosts.inventory))
    done = tuner(tmp_path, "apply", "mine", *inventory, *probe, "--candidate")
    assert done.returncode == 0, done.stderr
    assert "web: applied" in done.stdout
    assert "the service's environment stays as it is; not set: GOGC=" in done.stderr
    assert "idle 7s" in (web.root / MAIN.lstrip("/")).read_text()
    done = tuner(tmp_path, "rollback", "mine", *inventory)
    assert done.returncode == 0, done.stderr


@pytest.mark.fleet
def test_what_does_not_run_cannot_be_tuned_in_place(
    hosts: Bed, web: BedHost, tmp_path: Path
) -> None:
    """Nobody knows then as whom, and with which environment, its files are to be validated."""
    web.run("service", "caddy", "stop")
    try:
        with pytest.raises((HostError, DefinitionError), match="start the service first"):
            preflight(load_study(overrides=options(tmp_path, hosts)), watch=False)
    finally:
        web.run("service", "caddy", "start")
