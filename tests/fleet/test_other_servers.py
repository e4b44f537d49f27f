"""Studies of Apache, HAProxy and Envoy on hosts that run them: ``tuner apply``, and the role."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import kept_handlers, run_main, simulate
from tests.fleet.bed import OTHERS, Bed, BedHost, bed
from tests.fleet.conftest import skip_without_bed
from tests.fleet.services import APACHE, ENVOY, HAPROXY, Service, haproxy_pid, own_files
from tests.fleet.test_apply_caddy import play, verdict
from tests.fleet.test_remote import tuner
from tuner.render.systemd import drop_ins
from tuner.servers.catalog import server as server_of

pytestmark = [pytest.mark.integration, pytest.mark.fleet, pytest.mark.systemd]

MPM = "/etc/apache2/mods-enabled/mpm_event.conf"
SITE = "/etc/apache2/sites-enabled/000-default.conf"
VALUES = {
    # More threads than Debian's ThreadLimit, which only a restart changes.
    "apache": ("static", "threads_per_child: 96, max_keep_alive_requests: 5000"),
    "haproxy": ("proxy", "tune_maxaccept: 16, http_reuse: always"),
    "envoy": ("proxy", "idle_timeout: 600s, max_requests_per_connection: 10000"),
}
"""Workload and settings of each study."""
SERVICES = {"apache": APACHE, "haproxy": HAPROXY, "envoy": ENVOY}
CHECKS = {
    "apache": "apachectl -t",
    "haproxy": "haproxy -c -f /etc/haproxy/haproxy.cfg",
    "envoy": "envoy --mode validate --disable-hot-restart --log-level error"
    " -c /etc/envoy/envoy.yaml",
}
"""Validation of the files on their host."""


@pytest.fixture(scope="module", params=SERVICES)
def service(request: pytest.FixtureRequest) -> Service:
    """Return one of the servers after the other."""
    return SERVICES[request.param]


@pytest.fixture(scope="module")
def hosts(service: Service) -> Iterator[Bed]:
    """A host that runs it."""
    skip_without_bed(systemd=True)
    with bed({"targets": ["web"]}, systemd=("web",), packages={"web": OTHERS}) as found:
        service.serve(found["web"])
        yield found


@pytest.fixture(scope="module")
def study(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with studies of the lab: ``mine``, and for Envoy ``threads``."""
    folder = tmp_path_factory.mktemp("study")
    workload, values = VALUES[service.server]
    named = {"mine": values, **({"threads": "concurrency: 2"} if service is ENVOY else {})}
    for name, each in named.items():
        text = f"space: {service.server}/{workload}\nvalues: {{{each}}}\n"
        (folder / f"{name}.yaml").write_text(text)
        given = ("--server", service.server, "--workload", workload, "--name", name, "--quiet")
        short = ("--time", "20s", "--rate", "1000")
        with pytest.MonkeyPatch.context() as patch, kept_handlers():
            patch.chdir(folder)
            patch.setenv("XDG_STATE_HOME", str(folder / "state"))
            simulate(patch)
            assert run_main(patch, "compare", "stock", f"{name}.yaml", *given, *short) == 0
    return folder


def apply(study: Path, hosts: Bed, *more: str, name: str = "mine") -> tuple[int, str, str]:
    """Apply a study; return exit code, output and standard error."""
    inventory = ("--inventory", str(hosts.inventory))
    probe = ("--probe", "http://{host}/page.html", "--probes", "20", "--yes")
    done = tuner(study, "apply", name, *inventory, *probe, *verdict(study, name), *more)
    return done.returncode, done.stdout, " ".join(done.stderr.split())


def text(host: BedHost, path: str) -> str:
    """Return a file of the host's, through its links."""
    return host.run("cat", path)


@pytest.mark.parametrize("option", ["--diff", "--check"])
def test_what_would_change_is_shown_and_nothing_changes(
    hosts: Bed, web: BedHost, study: Path, service: Service, option: str
) -> None:
    """The host's own server accepts it, in its own files, which stay."""
    before = web.files()
    code, out, said = apply(study, hosts, option)
    assert code == 0, said
    assert (f"web: {CHECKS[service.server]}: accepted there" in out) == (option == "--check")
    assert "the study was made in the lab" in said
    unit = server_of(service.server).usual_place.service
    how = f"reload of {unit}" if service is HAPROXY else f"restart of {unit}"
    assert f"web: then {how}" in out
    assert web.files() == before


@pytest.mark.parametrize("service", ["apache"], indirect=True)
def test_settings_are_set_in_apaches_own_files(hosts: Bed, web: BedHost, study: Path) -> None:
    """Where they stand, in Debian's included file too; the processes have them; and back."""
    before = own_files(web)
    main, mpm = text(web, APACHE.main), text(web, MPM)
    code, out, said = apply(study, hosts)
    assert code == 0, said
    assert "web: applied" in out
    changed = "MaxKeepAliveRequests 100", "MaxKeepAliveRequests 5000"
    assert text(web, APACHE.main) == main.replace(*changed)
    assert {*text(web, MPM).splitlines()} - {*mpm.splitlines()} == {
        "ThreadLimit 96",
        "ThreadsPerChild 96",
        "MaxRequestWorkers 192",
        "StartServers 1",
    }
    # With those that listen and that start the others.
    assert APACHE.tells(web) == "98"
    assert APACHE.ask(web, "/page.html").startswith("200")
    assert tuner(study, "rollback", "mine", "--inventory", str(hosts.inventory)).returncode == 0
    assert own_files(web) == before


@pytest.mark.parametrize("service", ["apache"], indirect=True)
def test_a_line_of_a_virtual_host_is_refused(hosts: Bed, web: BedHost, study: Path) -> None:
    """By file and line, since it would win; with a command that does without such places."""
    file = web.root / "etc/apache2/sites-available/000-default.conf"
    before, written = file.read_text(), file.stat().st_mtime_ns
    line = "\tMaxKeepAliveRequests 7\n"
    number = 2 + before[: before.index("<VirtualHost")].count("\n")
    file.write_text(before.replace("<VirtualHost *:80>\n", f"<VirtualHost *:80>\n{line}", 1))
    try:
        code, _, said = apply(study, hosts, "--check")
    finally:
        file.write_text(before)
        os.utime(file, ns=(written, written))
    assert code == 3
    assert f"max_keep_alive_requests stays as you have it: {SITE}:{number} sets it for" in said
    assert "tuner export mine --format role" in said


@pytest.mark.parametrize("service", ["haproxy"], indirect=True)
def test_settings_are_set_in_haproxys_own_file(hosts: Bed, web: BedHost, study: Path) -> None:
    """In the sections of the frontend that answers; a new process has them; and back."""
    before, process = own_files(web), haproxy_pid(web)
    code, out, said = apply(study, hosts)
    assert code == 0, said
    assert "web: applied" in out
    now = text(web, HAPROXY.main)
    assert "# ours" in now
    assert "\ttune.maxaccept 16\n" in now
    assert "backend application\n\thttp-reuse always\n" in now
    assert haproxy_pid(web) != process
    assert HAPROXY.ask(web, "/page.html").startswith("200")
    assert tuner(study, "rollback", "mine", "--inventory", str(hosts.inventory)).returncode == 0
    assert own_files(web) == before


@pytest.mark.parametrize("service", ["haproxy"], indirect=True)
@pytest.mark.usefixtures("web")
def test_a_host_without_a_fitting_frontend_is_refused(hosts: Bed, study: Path) -> None:
    """With the command that tunes its own file instead."""
    code, _, said = apply(study, hosts, "--check", "--server-name", "shop")
    assert code == 3
    assert "has no frontend 'shop'; it has: www; tune its own files instead: tuner optimize" in said


@pytest.mark.usefixtures("web")
def test_a_limit_that_does_not_hold_puts_the_files_back(hosts: Bed, study: Path) -> None:
    """The host serves with its own files again (the fixture ``web`` compares them)."""
    code, _, said = apply(study, hosts, "--watch", "p99<1us")
    assert code == 3
    assert "rolled back: web" in said


@pytest.mark.parametrize("service", ["envoy"], indirect=True)
def test_settings_are_set_in_envoys_own_file(hosts: Bed, web: BedHost, study: Path) -> None:
    """In the listener that answers and its cluster; a new process has them; and back."""
    before, process = own_files(web), web.run("pidof", "envoy")
    code, out, said = apply(study, hosts)
    assert code == 0, said
    assert "web: applied" in out
    now = text(web, ENVOY.main)
    assert ENVOY.own in now
    assert "common_http_protocol_options: {idle_timeout: 600s}\n" in now
    assert "common_http_protocol_options: {max_requests_per_connection: 10000}" in now
    assert web.run("pidof", "envoy") != process
    assert ENVOY.ask(web, "/page.html").startswith("200")
    assert tuner(study, "rollback", "mine", "--inventory", str(hosts.inventory)).returncode == 0
    assert own_files(web) == before


@pytest.mark.parametrize("service", ["envoy"], indirect=True)
def test_a_number_of_threads_is_refused(hosts: Bed, web: BedHost, study: Path) -> None:
    """No file of Envoy has it; the message has the command for a role."""
    before = web.files()
    code, _, said = apply(study, hosts, "--check", name="threads")
    assert code == 3
    assert "concurrency is an option of Envoy's command line" in said
    assert "tuner export threads --format role" in said
    assert web.files() == before


def test_the_role_installs_the_whole_configuration(
    hosts: Bed, web: BedHost, study: Path, service: Service, tmp_path: Path
) -> None:
    """Validated there; the process runs with it; once is enough; a copy is the way back."""
    given = ("--format", "role", "--candidate", "--output", str(tmp_path))
    done = tuner(study, "export", "threads" if service is ENVOY else "mine", *given)
    assert done.returncode == 0, done.stderr
    if service is APACHE:
        # The host's own modules need not be those of the export.
        assert "changed=0" not in play(hosts, tmp_path, "--check", "--diff")
    own = text(web, service.main)
    assert "changed=0" not in play(hosts, tmp_path)
    service.awaited(web)
    assert service.own not in text(web, service.main)
    if service is APACHE:
        assert service.tells(web) == "98"
    if service is ENVOY:
        # Without a variable where it is Envoy's own choice for as many cores as the lab's.
        environment = (tmp_path / "tuned_envoy/files/envoy.env").read_text()
        threads = 2 if "CONCURRENCY=2" in environment else 1
        assert service.tells(web).endswith(f"--concurrency {threads}")
    assert "changed=0" in play(hosts, tmp_path)
    path = Path(service.main)
    (kept,) = (web.root / path.parent.relative_to("/")).glob(f"{path.name}.*")
    assert kept.read_text() == own
    web.run("cp", "-p", str(path.parent / kept.name), service.main)
    kept.unlink()
    web.run("rm", "-rf", drop_ins(service.server))
    web.run("systemctl", "daemon-reload")
    web.run("systemctl", "restart", server_of(service.server).usual_place.service)
