"""Inventories as Ansible users write them, read by Ansible itself."""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.hosts.modules import functions_of
from tuner.errors import DefinitionError
from tuner.hosts import local
from tuner.hosts.inventory import Host, Inventory, parse_inventory, read_inventory
from tuner.hosts.remote import Connections

YAML = """
all:
  vars: {ansible_user: deploy}
targets:
  hosts:
    web1: {ansible_host: 192.0.2.1, tuner_address: 10.0.0.1}
    web2: {ansible_host: 192.0.2.2}
generators:
  children:
    loaders:
      hosts:
        load1: {ansible_port: 2222, ansible_ssh_common_args: "-o ProxyJump=gate"}
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Inventory:
    """Return Ansible's reading of the inventory."""
    path = tmp_path_factory.mktemp("inventory") / "hosts.yml"
    path.write_text(YAML)
    return read_inventory(str(path))


def test_hosts_by_group_with_their_variables(found: Inventory) -> None:
    """Also those of groups in groups; instances listen where ``tuner_address`` says."""
    assert [host.name for host in found.targets] == ["web1", "web2"]
    assert [host.name for host in found.generators] == ["load1"]
    assert [host.address for host in found.targets] == ["10.0.0.1", "192.0.2.2"]
    assert found.target.connects_to == "192.0.2.1"
    assert found.backend is found.target


def test_connection_settings_are_the_inventorys(found: Inventory) -> None:
    """Port, user and SSH's own options; nothing may ask for a password, and host keys count."""
    words = found.generator.command("uname", "-a; id", control_path="/x/y")
    assert words[0] == "ssh"
    assert words[words.index("-p") + 1] == "2222"
    assert words[words.index("-l") + 1] == "deploy"
    assert "ProxyJump=gate" in words
    assert "BatchMode=yes" in words
    assert "ControlPath=/x/y" in words
    assert not any("StrictHostKeyChecking" in word for word in words)
    assert words[-2:] == ["load1", "uname '-a; id'"]


def test_become_goes_through_sudo() -> None:
    """Without a prompt; another method is refused by name."""
    host = Host("web", {"ansible_become": True, "ansible_connection": "local"})
    assert host.command("id", control_path="") == ["sudo", "-n", "-u", "root", "--", "id"]
    other = Host("web", {"ansible_become": "yes", "ansible_become_method": "su"})
    with pytest.raises(DefinitionError, match="host web has ansible_become_method 'su'"):
        other.command("id", control_path="")


def test_a_password_is_refused_with_the_way_out() -> None:
    """A measurement cannot wait at a prompt."""
    host = Host("web", {"ansible_password": "secret"})
    with pytest.raises(DefinitionError, match="ansible_ssh_private_key_file") as reported:
        host.command("id", control_path="")
    assert "secret" not in str(reported.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("targets: {hosts: {web: }}\n", "no host in the group 'generators'"),
        (
            "web:\n  hosts: {a: }\n",
            "no host in the group 'targets', which serves; groups here: web",
        ),
        ("targets: [\n", "Ansible cannot read it"),
    ],
)
def test_what_is_wrong_names_file_and_group(tmp_path: Path, text: str, words: str) -> None:
    """Before anything is started."""
    path = tmp_path / "hosts.yml"
    path.write_text(text)
    with pytest.raises(DefinitionError, match=words) as reported:
        read_inventory(str(path))
    assert str(path) in str(reported.value)


def test_an_inventory_that_is_not_there(tmp_path: Path) -> None:
    """Named, instead of an empty one."""
    with pytest.raises(DefinitionError, match="no such inventory"):
        read_inventory(str(tmp_path / "hosts.yml"))


def test_apply_needs_no_generator() -> None:
    """An inventory without generators is enough for ``apply``, which offers no load."""
    reported = {"targets": {"hosts": ["web"]}, "_meta": {"hostvars": {}}}
    assert parse_inventory(reported, "x", generators=False).target.name == "web"


def test_facts_of_another_host_are_those_of_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module returns those of ``local.facts`` that no agent reads, and paths of programs."""
    reported = functions_of("tuner_facts", monkeypatch)["found"](["sh"], None)
    assert local.host_facts(reported) == replace(local.facts(), topology=None)
    assert reported["programs"]["sh"]


def test_sockets_of_a_killed_tuner_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the next one; those of one that lives stay."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = [tmp_path / f"tuner-ssh-{pid}-x" for pid in (ended.pid, os.getppid())]
    for folder in left:
        folder.mkdir()
    reported = {"targets": {"hosts": ["web"]}, "_meta": {"hostvars": {}}}
    Connections(parse_inventory(reported, "x", generators=False)).close()
    assert [folder.exists() for folder in left] == [False, True]
    assert list(tmp_path.iterdir()) == left[1:]
