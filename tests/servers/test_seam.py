"""A server is added with one module, one folder of templates and one of spaces."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.labs import here
from tuner.facts import SERVER_NAMES
from tuner.servers import caddy, nghttpx, nginx
from tuner.servers.port import Server

pytestmark = pytest.mark.integration

TOP = Path(__file__).resolve().parents[2]
SHIPPED: tuple[Server, ...] = (nginx, caddy, nghttpx)
"""The types of all modules are checked against the protocol here."""
MODULE = '''\
"""A server that speaks Nginx's language, as one that nobody has heard of."""

from collections.abc import Mapping
from dataclasses import replace

from tuner.configuration import Configuration
from tuner.facts import ServerFacts
from tuner.hosts.port import InstanceSpec
from tuner.render import EXPORT, Placement, render
from tuner.servers import nginx
from tuner.servers.ground import Ground
from tuner.space import Space
from tuner.syntax import NGINX
from tuner.wire import Wire

name = "toy"
file_name = "toy.conf"
syntax = replace(NGINX, server=name)


def detect(binary: str | None = None) -> ServerFacts:
    return replace(nginx.detect(binary), name=name)


def refuses(server: ServerFacts, wire: Wire) -> str:
    return ""


def instance(
    label: str, configuration: Configuration, space: Space, ground: Ground, port: int
) -> InstanceSpec:
    directory = ground.instances_dir / label
    place = ground.place(directory, port, configuration.digest)
    text = render(space.template, configuration, space, place, syntax)
    return nginx.spec(label, text, ground, directory, port=port, live=configuration.digest)


def export_text(configuration: Configuration, space: Space, placement: Placement = EXPORT) -> str:
    return render(space.template, configuration, space, placement, syntax)


def export_files(
    configuration: Configuration, space: Space, server: ServerFacts, placement: Placement = EXPORT
) -> Mapping[str, str]:
    return {}
'''
TEMPLATE = """\
pid {{ placement.run_dir ~ "/toy.pid" }};
error_log {{ placement.log_dir ~ "/error.log" }};
events { worker_connections {{ p.worker_connections }}; }
http {
    access_log off;
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


def test_a_server_is_added_without_a_change_to_any_file(tmp_path: Path) -> None:
    """Its space is known, shown, and put to its own validator."""
    here("nginx")
    for folder in ("tuner", "templates", "spaces"):
        unread = shutil.ignore_patterns("__pycache__")
        shutil.copytree(TOP / folder, tmp_path / folder, ignore=unread)
    for folder in ("studies", "playbooks", "loadgen"):
        (tmp_path / folder).symlink_to(TOP / folder)
    for path, text in {
        "tuner/servers/toy.py": MODULE,
        "templates/toy/static.conf.j2": TEMPLATE,
        "spaces/toy/static.yaml": SPACE,
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "tuner", "space", "check", "toy/static", "--samples", "3"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "accepted by toy" in done.stdout
    assert "3 proposed, 0 refused" in done.stdout
