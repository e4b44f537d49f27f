"""Each configuration of a product is bound and answers, or is refused and its way out works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.hosts.nginxes import needs_nginx
from tests.own import test_caddy_sites, test_kinds
from tests.own.caddyfiles import here
from tests.own.conftest import Echo, serving
from tests.own.products import CADDY, NGINX, Product, caddy_files, nginx_files
from tests.own.real import first_window
from tests.phases.rig import rig
from tuner.errors import DefinitionError
from tuner.judge.results import evaluate
from tuner.measurement.window import Measurement
from tuner.own.caddy import server as caddy_server
from tuner.own.home import LocalHome
from tuner.own.nginx import server as nginx_server
from tuner.own.server import OwnOptions
from tuner.phases.study import calibrate, confirm
from tuner.reading.env_file import read_env_file
from tuner.servers import nginx
from tuner.servers.certificate import make_certificate
from tuner.space.configuration import Value
from tuner.stats.verdict import VerdictKind
from tuner.testing.lab import Effect
from tuner.workload.below import moved_below
from tuner.workload.workload import Workload, load_workload

pytestmark = needs_nginx
MINE = ("mattermost", "gitlab", "discourse", "netbox", "redmine", "h5bp")
"""Products of which a study ends in a patch: with TLS and caches, behind sockets, in nested
locations, with an address instead of an upstream, in an ``if``, and of files."""
COMMANDS = (("patch", "-p0", "-s"), ("patch", "-p1", "-s"), ("git", "apply"))
SHIPPED = Path("/etc/nginx/mime.types")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the lab's account may enter."""
    with tempfile.TemporaryDirectory(prefix="tuner-products-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def orders() -> Iterator[int]:
    """The port of a server behind that gives the answer of the workload ``proxy``."""
    backend = load_workload("proxy").backend
    assert backend is not None
    answer = (backend.content_type, backend.body)

    class Orders(Echo):
        """Answers every request alike."""

        fixed = answer

    with serving(Orders) as port:
        yield port


def written(folder: Path, files: Mapping[str, str]) -> Path:
    """Return a folder with the files of a product."""
    copy = folder / "copy"
    for name, text in files.items():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text(text)
    tls = folder / "letsencrypt" / "options-ssl-nginx.conf"
    tls.parent.mkdir()
    tls.write_text("ssl_session_timeout 1440m;\nssl_protocols TLSv1.2 TLSv1.3;\n")
    return copy


def followed(
    way: str, wishes: OwnOptions, product: Product, location: str, folder: Path
) -> tuple[OwnOptions, Product, str]:
    """Return what is asked for with the options of a refusal."""
    words = way.split()
    for option, value in zip(words[::2], words[1::2], strict=True):
        match option:
            case "--workload":
                product = replace(product, workload=value)
            case "--location":
                location = value
            case "--prefix":
                folders = value.replace("FOLDER", str(folder / "letsencrypt"))
                wishes = replace(wishes, prefix=(*wishes.prefix, folders))
            case "--env-file":
                wishes = replace(wishes, env_file=str(folder / "copy" / "app.env"))
            case _:
                wishes = replace(wishes, server_name=value)
    return wishes, product, location


def workload_of(product: Product, location: str) -> Workload:
    """Return the workload of a product, below a path if one is named."""
    return moved_below(location, load_workload(product.workload))


@pytest.mark.parametrize("name", NGINX)
def test_nginx_of_a_product_is_bound_and_answers(
    name: str, folder: Path, orders: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refusals come before anything starts, and their options lead to a window; notes are true."""
    product, location = NGINX[name], ""
    if any("=/etc/nginx/" in way for way in product.ways) and not SHIPPED.exists():
        pytest.skip("no Nginx of a package is here: its files were not read")
    wishes = OwnOptions(str(written(folder, nginx_files(name)) / "nginx.conf"))
    for way in product.ways:
        workload = workload_of(product, location)
        with monkeypatch.context() as nothing:
            nothing.setattr(subprocess, "Popen", pytest.fail)
            with pytest.raises(DefinitionError) as error:
                nginx_server.read(wishes, workload)
        assert way in error.value.message
        wishes, product, location = followed(way, wishes, product, location, folder)
    made, notes = test_kinds.adapted(wishes, workload_of(product, location))
    checked(NGINX[name], notes, made.bound.baseline.values)
    loaded(first_window(made, made.own.workload, folder, orders))


@pytest.mark.parametrize("name", CADDY)
def test_caddy_of_a_product_is_bound_and_answers(name: str, folder: Path, orders: int) -> None:
    """Refusals come before anything starts, and their options lead to a window; notes are true."""
    product, location = CADDY[name], ""
    wishes = OwnOptions(str(written(folder, caddy_files(name)) / "Caddyfile"))

    def read() -> caddy_server.CaddyOwnConfiguration:
        added = read_env_file(wishes.env_file) if wishes.env_file else {}
        home = LocalHome(here().binary, added)
        return caddy_server.read(wishes, workload_of(product, location), home)

    for way in product.ways:
        with pytest.raises(DefinitionError) as error:
            read()
        assert way in error.value.message
        wishes, product, location = followed(way, wishes, product, location, folder)
    made, notes = test_caddy_sites.adapted(read())
    checked(CADDY[name], notes, made.bound.baseline.values)
    loaded(first_window(made, made.own.workload, folder, orders))


def loaded(found: Measurement) -> None:
    """Check that a window holds answers, and that each had the expected status, length and hash."""
    assert found.invalid == ()
    assert found.completed > 0


def checked(product: Product, notes: tuple[str, ...], values: Mapping[str, Value]) -> None:
    """Check the notes and the values of a configuration against what is expected."""
    for part in product.said:
        assert any(part in note for note in notes), notes
    for part in product.not_said:
        assert not any(part in note for note in notes), notes
    for parameter, value in (product.values or {}).items():
        assert values[parameter] == value
    said = " is not carried over"
    tuned = [note.partition(": ")[0] for note in notes if "the workload's backend stands" in note]
    lost = [note for note in notes if said in note and "proxy_pass" in note.partition(said)[0]]
    assert not [note for note in lost if note.partition(": ")[0] in tuned]


def installed(folder: Path, name: str) -> Path:
    """Return a product's folder as ``nginx -t`` accepts it here, with a certificate and logs."""
    places = {
        "/etc/nginx": "",
        "/var/log/nginx": "logs",
        "/var/cache/nginx": "cache",
        "/var/nginx": "cache",
        "/var/run/nginx.pid": "nginx.pid",
        "/run/nginx.pid": "nginx.pid",
    }
    files = nginx_files(name)
    for place, new in places.items():
        path = str(folder / "copy" / new)
        files = {file: text.replace(place, path) for file, text in files.items()}
    for kind, pem in (("", "cert"), ("_key", "key")):
        certificate = re.compile(rf"(ssl_certificate{kind}) [^;]+;")
        new = rf"\1 {folder}/copy/{pem}.pem;"
        files = {file: certificate.sub(new, text) for file, text in files.items()}
    copy = written(folder, files)
    shown = make_certificate()
    (copy / "cert.pem").write_text(shown.chain)
    (copy / "key.pem").write_text(shown.key)
    for new in ("logs", "cache"):
        (copy / new).mkdir()
    return copy


def accepts(folder: Path) -> None:
    """Check that Nginx accepts the files of a folder."""
    command = [nginx.detect().binary, "-t", "-q", "-p", f"{folder}/", "-c", f"{folder}/nginx.conf"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def texts(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder, without those that Nginx and Git write."""
    skipped = {"logs", "cache", ".git"}
    paths = [path for path in folder.rglob("*") if path.is_file()]
    named = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
    return {name: text for name, text in named.items() if name.split("/")[0] not in skipped}


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="Nginx opens its folders in /var/lib as root only")
@pytest.mark.parametrize("name", MINE)
def test_a_study_of_a_product_ends_in_a_patch(name: str, folder: Path) -> None:
    """Better on the simulated lab; the patch applies in three ways and changes nothing else."""
    copy = installed(folder, name)
    accepts(copy)
    before, product = texts(copy), NGINX[name]
    wishes = OwnOptions(str(copy / "nginx.conf"))
    made, _ = test_kinds.adapted(wishes, workload_of(product, ""))
    bound = made.bound
    hand = bound.space.adopt(bound.space.baseline("hand"), bound.baseline)

    def hand_is_faster(values: Mapping[str, Value]) -> Effect:
        return Effect(ln_latency=-0.4 * (values == hand.values), capacity_per_s=4_000.0)

    study = rig(truth=hand_is_faster, baseline=bound.baseline, space=bound.space, time_s=30.0)
    ready = calibrate(study.bench(), study.spec)
    confirm(ready, hand)
    found = evaluate(study.record())
    assert found.verdict is not None
    assert found.verdict.kind is VerdictKind.BETTER
    assert found.candidate == hand.digest
    files = made.export_files(hand, bound.space, nginx.detect())
    after = {name: text.encode() for name, text in before_and_after(before, files)}
    for command in COMMANDS:
        there = folder / "there"
        shutil.copytree(copy, there)
        subprocess.run(command, cwd=there, input=files["own.patch"], text=True, check=True)
        assert texts(there) == after
        shutil.rmtree(there)
    assert texts(copy) == before
    subprocess.run(COMMANDS[0], cwd=copy, input=files["own.patch"], text=True, check=True)
    accepts(copy)
    assert texts(copy) == after


def before_and_after(
    before: Mapping[str, bytes], files: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield every file of a folder with the exported ones in their places."""
    for name, text in before.items():
        yield name, files.get(f"own/{name}", text.decode())
