"""A server is added with one module, one folder of templates and one of spaces."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.labs import here
from tuner.machine.facts import SERVER_NAMES
from tuner.servers import apache, caddy, envoy, haproxy, nghttpx, nginx
from tuner.servers.server import ExportsMore, Server

pytestmark = pytest.mark.integration

TOP = Path(__file__).resolve().parents[2]
SHIPPED: tuple[Server, ...] = (nginx, apache, caddy, envoy, haproxy, nghttpx)
WITH_MORE: tuple[ExportsMore, ...] = (caddy, envoy)
"""The types of all modules are checked against the protocol here."""
MODULE = '''\
"""A server that speaks Nginx's language, as one that nobody has heard of."""

from dataclasses import replace

from tuner.space.configuration import Configuration
from tuner.machine.facts import ServerFacts
from tuner.hosts.deployer import InstanceSpec
from tuner.render.render import EXPORT, Placement, render
from tuner.servers import nginx
from tuner.servers.ground import TargetGround
from tuner.servers.usual_place import UsualPlace
from tuner.space.space import Space
from tuner.render.syntax import NGINX
from tuner.workload.wire import Wire

name = "toy"
usual_place = UsualPlace("/srv/toy/toy.conf", "toy -t %s", "toyd", "", named=("*.toy",))
file_name = usual_place.file
syntax = replace(NGINX, server=name)


def detect(binary: str | None = None) -> ServerFacts:
    return replace(nginx.detect(), name=name)


def refuses(server: ServerFacts, wire: Wire) -> str:
    return ""


def instance(
    label: str, configuration: Configuration, space: Space, ground: TargetGround, port: int
) -> InstanceSpec:
    directory = ground.instances_dir / label
    place = ground.place(directory, port, configuration.digest)
    text = render(space.template, configuration, space, place, syntax)
    return nginx.spec(label, text, ground, directory, port=port, live=configuration.digest)


def export_text(configuration: Configuration, space: Space, placement: Placement = EXPORT) -> str:
    return render(space.template, configuration, space, placement, syntax)
'''
TEMPLATE = """\
pid {{ placement.run_dir ~ "/toy.pid" }};
error_log {{ placement.log_dir ~ "/error.log" }};
events { worker_connections {{ p.worker_connections }}; }
http {
    access_log off;
{% for name in placement.temp_paths %}
    {{ name ~ "_temp_path" }} {{ placement.run_dir ~ "/" ~ name }};
{% endfor %}
    server { listen {{ placement.listen }}; }
}
"""
SPACE = """\
space: toy/static
server: toy
template: toy/static
parameters:
  worker_connections: {type: integer, range: [64, 1024], default: 512}
"""


def test_the_shipped_servers_are_those_that_have_templates() -> None:
    """Nginx, the default, goes first."""
    assert sorted(adapter.name for adapter in SHIPPED) == sorted(SERVER_NAMES)
    assert SERVER_NAMES[0] == nginx.name


READER = "from tuner.own.nginx.reader import *"
"""Its users' configurations are read as Nginx's are."""
RULES = "from tuner.lint.nginx_rules import *"
SIMULATED = """\
import sys
import pytest
from tests.cli.conftest import run_main, simulate

with pytest.MonkeyPatch.context() as patch:
    simulate(patch)
    sys.exit(run_main(patch, *sys.argv[1:]))
"""
"""The command line on a simulated lab."""
CONFIG = """\
events { worker_connections 512; }
http {
    tcp_nodelay off;
    server { listen 80; root /srv/shop; }
}
"""
NEVER = """\
never:
  - why: the toy would break
    names: [worker_connections]
"""
ALIKE = "compression: the toy has none\n"
_ASKED = "from tuner.definition.alike import shipped_rules; print(shipped_rules()[0].words['toy'])"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the project with one server more."""
    here("nginx")
    for folder in ("tuner", "templates", "spaces"):
        unread = shutil.ignore_patterns("__pycache__")
        shutil.copytree(TOP / folder, tmp_path / folder, ignore=unread)
    for folder in ("studies", "playbooks", "loadgen"):
        (tmp_path / folder).symlink_to(TOP / folder)
    (tmp_path / "here").mkdir()
    for path, text in {
        "tuner/servers/toy.py": MODULE,
        "templates/toy/static.conf.j2": TEMPLATE,
        "spaces/toy/static.yaml": SPACE,
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    return tmp_path


def python(tree: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Python with the copy, in an empty folder of it."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tree / "here",
        # The copy's `tuner`, and the checkout's `tests`.
        env={
            **os.environ,
            "PYTHONPATH": f"{tree}:{TOP}",
            "XDG_STATE_HOME": str(tree / "state"),
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_server_is_added_without_a_change_to_any_file(tree: Path) -> None:
    """A new server's module and space suffice: its own validator checks its proposals."""
    done = python(tree, "-m", "tuner", "space", "check", "toy/static", "--samples", "3")
    assert done.returncode == 0, done.stderr
    assert "accepted by toy" in done.stdout
    assert "3 proposed, 0 refused" in done.stdout


def test_a_study_of_it_is_walked_from_end_to_end(tree: Path) -> None:
    """On a simulated lab: ``--server`` offers it, and the export goes where its files lie."""
    assert "toy" in python(tree, "-m", "tuner", "optimize", "--help").stdout
    short = ("--time", "10s", "--rate", "600", "--trials", "1", "--quiet", "--name", "mine")
    study = ("--study", "static", *short)
    done = python(tree, "-c", SIMULATED, "optimize", "--server", "toy", *study)
    assert done.returncode == 0, done.stderr
    exported = python(tree, "-m", "tuner", "export", "mine", "--candidate", "--output", "out")
    assert exported.returncode == 0, exported.stderr
    assert "worker_connections" in (tree / "here/out/toy.conf").read_text()
    done = python(tree, "-m", "tuner", "optimize", "--server", "toys", *study)
    assert done.returncode == 2
    assert "toy" in done.stderr


def test_its_users_configurations_are_tuned_and_linted_once_there_is_a_reader(tree: Path) -> None:
    """Two more modules under its name; the commands find them, and before they say what lacks."""
    config = tree / "shop.toy"
    config.write_text(CONFIG, encoding="utf-8")
    study = ("--time", "10s", "--rate", "600", "--trials", "1", "--quiet", "--name", "mine")
    command = ("optimize", "--server", "toy", "--config", str(config), *study)
    missing = python(tree, "-c", SIMULATED, *command)
    assert missing.returncode == 2
    assert "not yet toy" in missing.stderr
    assert "no rules for toy" in python(tree, "-m", "tuner", "doctor", "--config", config).stderr
    for path, text in {
        "tuner/own/toy/__init__.py": "",
        "tuner/own/toy/reader.py": READER,
        "tuner/lint/toy_rules.py": RULES,
    }.items():
        (tree / path).parent.mkdir(exist_ok=True)
        (tree / path).write_text(text, encoding="utf-8")
    done = python(tree, "-c", SIMULATED, *command)
    assert done.returncode == 0, done.stderr
    found = python(tree, "-m", "tuner", "doctor", "--config", config)
    assert found.returncode == 1, found.stderr
    assert "shop.toy:3: wrong" in found.stdout


def test_its_folder_of_spaces_says_what_no_search_of_it_touches(tree: Path) -> None:
    """And how it is made alike to others."""
    (tree / "spaces/toy/_never.yaml").write_text(NEVER, encoding="utf-8")
    (tree / "spaces/toy/_alike.yaml").write_text(ALIKE, encoding="utf-8")
    done = python(tree, "-m", "tuner", "space", "check", "toy/static", "--samples", "3")
    assert done.returncode == 2
    assert "the toy would break" in done.stderr
    assert python(tree, "-c", _ASKED).stdout == "the toy has none\n"
