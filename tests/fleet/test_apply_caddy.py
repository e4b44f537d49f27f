"""A study of Caddy on a host's own: ``tuner apply`` and the exported role, and the way back."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import kept_handlers, run_main, simulate
from tests.export.test_role import ANSIBLE
from tests.fleet.bed import Bed, BedHost, bed
from tests.fleet.conftest import INITS, skip_without_bed
from tests.fleet.services import ACCOUNT, CADDY, CADDYFILE, PORT, TEXTS, VARIABLES, Service
from tests.fleet.test_remote import tuner
from tuner.judge.results import evaluate
from tuner.render.systemd import drop_ins
from tuner.store.store import Store, sqlite_url

pytestmark = [pytest.mark.integration, pytest.mark.fleet]

VALUES = "space: caddy/static\nvalues: {gogc: 400, idle_timeout: 7s, encode: on}\n"
LOG = "/var/log/caddy/access.log"
KNOWN = ("GOGC", "GOMEMLIMIT", "GOMAXPROCS", *VARIABLES)
"""Variables that say how Caddy runs; others tell of its start."""
# No site is called by the address, so Caddy answers with an empty page: a probe all the same.
PROBE = ("--probe", f"http://{{host}}:{PORT}/page.html", "--probes", "10", "--yes")


@pytest.fixture(scope="module", params=INITS)
def hosts(request: pytest.FixtureRequest) -> Iterator[Bed]:
    """A host whose service is Caddy."""
    systemd = request.param == "systemd"
    skip_without_bed(systemd=systemd)
    with bed({"targets": ["web"]}, systemd=("web",) if systemd else ()) as found:
        CADDY.serve(found["web"])
        yield found


@pytest.fixture
def service() -> Service:
    """Implement ``web``."""
    return CADDY


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study, whose candidate has other files and another environment."""
    folder = tmp_path_factory.mktemp("study")
    for path, text in TEXTS.items():
        copy = folder / "own" / Path(path).relative_to("/etc/caddy")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text)
    (folder / "values.yaml").write_text(VALUES)
    given = ("--server", "caddy", "--config", "own/Caddyfile", "--name", "mine", "--quiet")
    short = ("--time", "20s", "--rate", "1000")
    with pytest.MonkeyPatch.context() as patch, kept_handlers():
        patch.chdir(folder)
        patch.setenv("SHOP_ROOT", VARIABLES["SHOP_ROOT"])
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        simulate(patch)
        assert run_main(patch, "compare", "own", "values.yaml", *given, *short) == 0
    return folder


def apply(study: Path, hosts: Bed) -> subprocess.CompletedProcess[str]:
    """Return the candidate on the host."""
    return tuner(
        study, "apply", "mine", "--inventory", str(hosts.inventory), *PROBE, *verdict(study)
    )


def verdict(study: Path, name: str = "mine") -> tuple[str, ...]:
    """Return accepts the verdict that the simulated study has."""
    found = evaluate(Store.open(sqlite_url(study / "studies" / name), name).record()).verdict
    assert found is not None
    return () if found.kind == "better" else ("--force-verdict", found.kind)


def roll_back(study: Path, hosts: Bed) -> None:
    """The host's own files again."""
    done = tuner(study, "rollback", "mine", "--inventory", str(hosts.inventory))
    assert done.returncode == 0, done.stderr


def pid_of(host: BedHost) -> str:
    """Return the service's process."""
    return host.run("pgrep", "-x", "caddy").strip()


def environment_of(host: BedHost) -> dict[str, str]:
    """Return the environment of the server's process."""
    rows = host.run("cat", f"/proc/{pid_of(host)}/environ").split("\0")
    found = dict(row.split("=", 1) for row in rows if row)
    return {name: found[name] for name in KNOWN if name in found}


def file(host: BedHost, path: str) -> Path:
    """Return one of the host's, as it is seen from here."""
    return host.root / path.lstrip("/")


def test_it_is_applied_where_its_files_lie(hosts: Bed, web: BedHost, study: Path) -> None:
    """Searched here in copies; on the host, validated, proved, probed, and put back.

    Variables are set where systemd runs, with one restart for all; elsewhere it is said that they
    are not.
    """
    before = environment_of(web)
    done = apply(study, hosts)
    assert done.returncode == 0, done.stderr
    assert "web: applied" in done.stdout
    assert "\n+GOGC=400\n" in done.stdout
    assert "idle 7s" in file(web, CADDYFILE).read_text()
    if web.systemd:
        assert environment_of(web) == {**before, "GOGC": "400"}
        pid = pid_of(web)
        assert apply(study, hosts).returncode == 0
        assert pid_of(web) == pid
    else:
        assert "web: without systemd the environment of caddy stays as it is" in done.stderr
        assert environment_of(web) == before
    roll_back(study, hosts)
    assert environment_of(web) == before


@pytest.mark.parametrize("hosts", INITS[1:], indirect=True)
def test_what_else_sets_a_variable_is_found_out(hosts: Bed, web: BedHost, study: Path) -> None:
    """A later drop-in of the administrator's wins; the host gets its own files back at once."""
    folder = file(web, drop_ins("caddy"))
    folder.mkdir()
    (folder / "zz.conf").write_text("[Service]\nEnvironmentFile=/etc/caddy/zz.env\n")
    file(web, "/etc/caddy/zz.env").write_text("GOGC=50\n")
    try:
        done = apply(study, hosts)
        assert done.returncode == 3
        assert "GOGC is 50 in the process of caddy, not 400" in done.stderr
        assert "every host is as it was found" in done.stderr
        assert file(web, CADDYFILE).read_text() == TEXTS[CADDYFILE]
        assert [path.name for path in folder.iterdir()] == ["zz.conf"]
    finally:
        file(web, "/etc/caddy/zz.env").unlink()
        (folder / "zz.conf").unlink()
        folder.rmdir()
        web.run("systemctl", "daemon-reload")
        web.run("systemctl", "restart", "caddy")


def play(hosts: Bed, roles: Path, *more: str) -> str:
    """Return the output of ``ansible-playbook`` with the role."""
    inventory = str(hosts.inventory)
    done = subprocess.run(
        [str(ANSIBLE), "-i", inventory, str(roles / "site.yml"), *more],
        capture_output=True,
        text=True,
        check=False,
        cwd=roles,
        env={"PATH": "/usr/bin:/bin", "HOME": str(roles), "LC_ALL": "C.UTF-8"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("hosts", INITS[1:], indirect=True)
def test_the_role_does_the_same(hosts: Bed, web: BedHost, study: Path, tmp_path: Path) -> None:
    """The process has the same variables of the same files; once is enough; and the way back."""
    given = ("--format", "role", "--candidate", "--output", str(tmp_path))
    done = tuner(study, "export", "mine", *given)
    assert done.returncode == 0, done.stderr
    folder, before = file(web, drop_ins("caddy")), environment_of(web)
    assert apply(study, hosts).returncode == 0
    applied = {path.name: path.read_text() for path in folder.iterdir()}
    tuned = environment_of(web)
    roll_back(study, hosts)
    own = file(web, CADDYFILE).stat()
    # As on a host that has never logged yet: validating would open the file, and as another.
    file(web, LOG).unlink()
    assert "changed=0" not in play(hosts, tmp_path, "--check", "--diff")
    assert not folder.exists()
    assert "changed=0" not in play(hosts, tmp_path)
    assert web.run("stat", "-c", "%U", LOG).strip() == ACCOUNT
    assert environment_of(web) == tuned
    assert (folder / "tuner.conf").read_text() == applied["tuner.conf"]
    assert (folder / "tuner.env").read_text().endswith(applied["tuner.env"])
    assert "changed=0" in play(hosts, tmp_path)
    play(hosts, tmp_path, "-e", "tuned_caddy_environment=false")
    assert environment_of(web) == before
    (kept,) = file(web, CADDYFILE).parent.glob("Caddyfile.*")
    web.run("cp", "-p", f"/etc/caddy/{kept.name}", CADDYFILE)
    kept.unlink()
    folder.rmdir()
    assert file(web, CADDYFILE).stat().st_mtime_ns == own.st_mtime_ns
    web.run("systemctl", "reload", "caddy")
