"""No value runs anything on its way through a playbook: neither tuner's, nor a host's answer."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

from tests.hosts.hostile import everything, names, payloads, touched
from tests.hosts.modules import LIBRARY, PLAYBOOKS
from tuner.errors import DefinitionError
from tuner.hosts import playbooks as playbooks_module
from tuner.hosts.inventory import Host, configuration_file, host_pattern, parse_inventory
from tuner.hosts.playbooks import LOCAL_INVENTORY, Playbooks
from tuner.render.unsafe_yaml import unsafe_yaml

ALL = sorted(path.name for path in PLAYBOOKS.glob("*.yml"))
LOCAL: Mapping[str, Any] = LOCAL_INVENTORY["targets"]["hosts"]["localhost"]
CONDITIONS = {"when", "that", "until", "failed_when", "changed_when"}
PATTERNS = {"tuner_hosts", "tuner_servers", "tuner_generators", "tuner_loadgen_hosts"}
"""Name the hosts of a play; see the tests of host names."""


def variables_of(playbook: str) -> set[str]:
    """Return what a playbook takes from outside, read from its own text."""
    found: set[str] = set()
    registered: set[str] = set()

    def walk(node: object, *, condition: bool = False) -> None:
        if isinstance(node, dict):
            registered.add(str(node.get("register")))
            for key, each in node.items():
                walk(each, condition=key in CONDITIONS)
        elif isinstance(node, list):
            for each in node:
                walk(each, condition=condition)
        elif isinstance(node, str):
            text = f"{{{{ {node} }}}}" if condition else node
            parsed = jinja2.Environment().parse(text)  # noqa: S701 - nothing is rendered
            found.update(name.name for name in parsed.find_all(jinja2.nodes.Name))

    walk(yaml.safe_load((PLAYBOOKS / playbook).read_text()))
    return {name for name in found - registered if name.startswith("tuner_")}


@pytest.fixture
def control(tmp_path: Path) -> Playbooks:
    """Playbooks of the test's own folder; nothing has run a command before."""
    return Playbooks(tmp_path / "work")


def test_the_strings_are_dangerous(tmp_path: Path) -> None:
    """The same values given to Ansible as it trusts them run a command; so does a shell."""
    playbook = tmp_path / "probe.yml"
    tasks = [{"ansible.builtin.debug": {"msg": "{{ probe }}"}}]
    plays = [{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]
    playbook.write_text(yaml.safe_dump(plays))
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    given = json.dumps({"probe": payloads(tmp_path)[0]})
    command = [program, "-i", "localhost,", "-c", "local", str(playbook), "-e", given]
    subprocess.run(command, check=True, capture_output=True)
    assert touched(tmp_path)
    for found in touched(tmp_path):
        found.unlink()
    subprocess.run(["sh", "-c", f"echo {payloads(tmp_path)[3]}"], check=True, capture_output=True)
    assert touched(tmp_path)


def test_every_string_reaches_ansible_as_it_is(
    tmp_path: Path, control: Playbooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A string arrives unchanged as a value, in lists, in dictionaries and as a key."""
    texts = [*payloads(tmp_path), everything(tmp_path), "yes", "1", "", "null", "2001-01-01", "\t"]
    given = {
        "probe_text": texts[0],
        "probe_list": texts,
        "probe_deep": {"a": [{"b": text} for text in texts]},
        "probe_keys": {text: text for text in texts},
        "probe_numbers": [1, 2.5, True, None],
    }
    folder = tmp_path / "playbooks"
    folder.mkdir()
    said = {"probe": {name: f"{{{{ {name} }}}}" for name in given}}
    tasks = [{"ansible.builtin.debug": {"msg": said}}]
    play = {"hosts": "targets", "gather_facts": False, "tasks": tasks}
    (folder / "probe.yml").write_text(yaml.safe_dump([play], width=10_000))
    monkeypatch.setattr(playbooks_module, "data_dir", lambda _: folder)
    result = control.run("probe.yml", given)["localhost"]
    assert result["msg"]["probe"] == given
    assert touched(tmp_path) == []


def test_there_is_no_other_way_to_ansible() -> None:
    """One module starts playbooks; it hands over no variables but in the file of data."""
    top = PLAYBOOKS.parent / "tuner"
    users = [path for path in top.rglob("*.py") if "ansible_runner.run(" in path.read_text()]
    assert users == [top / "hosts" / "playbooks.py"]
    assert "extravars=" not in users[0].read_text()


@pytest.mark.integration
@pytest.mark.parametrize("playbook", ALL)
def test_each_variable_runs_nothing_where_the_others_are_right(
    playbook: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One host for each variable, so that every task is reached; and one that answers with them."""
    hostile = everything(tmp_path)
    hosts: dict[str, object] = {"answers": hostile_host(tmp_path)}
    for name in sorted(variables_of(playbook) - PATTERNS):
        folder = tmp_path / name
        right = right_values(folder)
        right |= {name: hostile_like(right.get(name), hostile)}
        hosts[name.replace("_", "-")] = {**LOCAL, **right}
    hosts["right"] = {**LOCAL, **right_values(tmp_path / "right")}
    inventory = tmp_path / "hosts.yml"
    groups = {group: {"hosts": hosts} for group in ("targets", "generators", "backends")}
    inventory.write_text(unsafe_yaml(groups))
    # Ansible works in the folder of the playbook, where relative names would leave files.
    copy = shutil.copytree(PLAYBOOKS, tmp_path / "playbooks")
    monkeypatch.setattr(playbooks_module, "data_dir", lambda _: copy)
    played = Playbooks(tmp_path / "work", str(inventory)).play(playbook, {})
    assert touched(tmp_path, copy, tmp_path / "work" / "ansible") == []
    assert "right" in {*played.results, *played.failed}


def right_values(folder: Path) -> dict[str, Any]:
    """Return values with which a playbook does what it is for, in a folder of its own."""
    for name in ("results", "site", "lab"):
        (folder / name).mkdir(parents=True)
    for name in names():
        (folder / "results" / f"{name}.jsonl").write_text("{}")
        (folder / "site" / name).write_text(name)
    loadgen = folder / "loadgen"
    loadgen.write_text("#!/bin/sh\n")
    loadgen.chmod(0o755)
    texts = {
        "instances.json": hostile_instances(folder),
        "files.json": {str(folder / "etc" / "server.conf"): everything(folder)},
        "unit.json": {},
        "kernel.json": {everything(folder): everything(folder)},
        "plan.json": {},
    }
    for name, data in texts.items():
        (folder / name).write_text(json.dumps(data))
    return {
        "tuner_lab": str(folder / "lab"),
        "tuner_labs": [str(folder / "lab")],
        "tuner_folder": str(folder / "lab"),
        "tuner_user": "",
        "tuner_judges": True,
        "tuner_instances_file": str(folder / "instances.json"),
        "tuner_files_file": str(folder / "files.json"),
        "tuner_unit_file": str(folder / "unit.json"),
        "tuner_kernel_file": str(folder / "kernel.json"),
        "tuner_kernel_folder": str(folder / "kernel"),
        "tuner_kernel_owner": "test",
        "tuner_kernel_lease_s": 1,
        "tuner_kernel_continues": False,
        "tuner_kernel_names": ["net.core.somaxconn"],
        "tuner_programs": ["sh"],
        "tuner_program": "sh",
        "tuner_package": "tuner-no-such-package",
        "tuner_loadgen": str(folder / "bin" / "loadgen"),
        "tuner_loadgen_source": str(loadgen),
        "tuner_plan": str(folder / "plan.json"),
        "tuner_for_s": 1,
        "tuner_results": str(folder / "results"),
        "tuner_collected": str(folder / "collected"),
        "tuner_site": str(folder / "served"),
        "tuner_site_source": str(folder / "site"),
        "tuner_guard": str(folder / "guard"),
        "tuner_owner": "test",
        "tuner_service_name": "tuner-no-such-service",
        "tuner_validate": ["true"],
        "tuner_how": "reload",
        "tuner_lease_s": 1,
        "tuner_watched": False,
        "tuner_continues": False,
        "tuner_live": {},
    }


def hostile_like(right: object, hostile: str) -> object:
    """Return a hostile value of the same kind, so that it is not refused for its type alone."""
    if isinstance(right, list):
        return [hostile]
    if isinstance(right, dict):
        return {"url": hostile, "host": hostile, "token": hostile}
    return hostile


def hostile_instances(folder: Path) -> list[dict[str, Any]]:
    """Return one instance for each field of the module's, in which that one is hostile."""
    lab, hostile = folder / "lab", everything(folder)
    options = constant_of("tuner_instances", "INSTANCE")
    right = {
        "directory": str(lab / "a"),
        "files": {"server.conf": hostile},
        "validate": ["true"],
        "start": ["false"],
        "pid_file": str(lab / "a" / "pid"),
        "live_url": "http://127.0.0.1:1/",
        "live_token": "x",
        "environment": {"X": hostile},
    }
    found = []
    for number, name in enumerate(name for name, kind in options.items() if kind["type"] != "int"):
        own = {**right, "instance": str(number), "directory": str(lab / str(number))}
        like = {"list": [hostile], "dict": {"X": hostile}, "str": hostile, "path": hostile}
        wanted = options[name]
        # Outside the lab it would be refused, with all others.
        if name != "directory" and wanted.get("elements") != "int":
            own[name] = like[wanted["type"]]
        found.append(own)
    return found


def constant_of(module: str, name: str) -> Any:
    """Return a constant of a module, which cannot be imported here."""
    tree = ast.parse((LIBRARY / f"{module}.py").read_text())
    [value] = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name
    ]
    return ast.literal_eval(value)


def hostile_host(folder: Path) -> dict[str, object]:
    """Return a host whose Python answers every module with hostile text."""
    hostile = everything(folder)
    answer = {
        "changed": True,
        "msg": hostile,
        "facts": {"file": hostile, "file_sha256": hostile, "cpus": [hostile], "programs": {}},
        "instances": [{"instance": hostile, "state": "live", "message": hostile, "pids": []}],
        "files": [{"path": hostile}],
        "kernel": "applied",
        "ansible_job_id": hostile,
        "finished": 1,
        "stdout": hostile,
        "ansible_facts": {
            name: hostile for playbook in ALL for name in variables_of(playbook) - PATTERNS
        },
    }
    answer["ansible_facts"] |= {  # type: ignore[operator]
        "ansible_remote_tmp": hostile,
        "ansible_shell_executable": hostile,
        "discovered_interpreter_python": hostile,
    }
    python = folder / "python"
    python.write_text(f"#!/bin/sh\ncat >/dev/null\ncat {folder}/answer.json\n")
    python.chmod(0o755)
    (folder / "answer.json").write_text(json.dumps(answer))
    right = right_values(folder / "answers")
    return {**LOCAL, **right, "ansible_python_interpreter": str(python)}


@pytest.mark.parametrize(
    "name", ["all", "all:!web", "web,db", "web*", "~web.*", "!web", "&web", "@hosts", "web[0]", ""]
)
def test_a_host_is_not_called_like_a_pattern(name: str) -> None:
    """Ansible would select other hosts by it; the message names it, and where it stands."""
    reported = {"targets": {"hosts": [name]}, "_meta": {"hostvars": {name: {}}}}
    with pytest.raises(DefinitionError, match=r"--inventory.*cannot be the name of a host"):
        parse_inventory(reported, "hosts.yml", generators=False)


@pytest.mark.parametrize("position", range(18))
def test_a_host_is_not_called_like_code(position: int, tmp_path: Path) -> None:
    """Nor like an option of SSH."""
    with pytest.raises(DefinitionError, match="cannot be the name of a host"):
        Host(payloads(tmp_path)[position], {})


def test_a_host_is_not_called_like_a_group() -> None:
    """The name would select the group's hosts."""
    reported = {"targets": {"hosts": ["web", "db"]}, "web": {"hosts": ["other"]}}
    with pytest.raises(DefinitionError, match="'web' is the name of a host and of a group"):
        parse_inventory(reported, "hosts.yml", generators=False)


def test_ssh_takes_no_address_for_an_option() -> None:
    """Neither from the inventory, nor by a slip: the address comes behind a ``--``."""
    with pytest.raises(DefinitionError, match="SSH would take for an option"):
        Host("web", {"ansible_host": "-oProxyCommand=id"})
    command = Host("web", {}).command("true", control_path="socket")
    assert command[-3:] == ["--", "web", "true"]


@pytest.mark.parametrize("named", [["web-1.example.org"], ["a", "b", "a"], ["::1"], ["::1", "b"]])
def test_a_pattern_selects_the_hosts_that_it_names(named: list[str]) -> None:
    """Ansible splits it into those names, with addresses of IPv6 in one piece."""
    from ansible.inventory.manager import split_host_pattern

    assert split_host_pattern(host_pattern(named)) == list(dict.fromkeys(named))


def test_a_playbook_is_given_no_other_hosts(control: Playbooks) -> None:
    """Every variable of a playbook that names hosts is refused if it selects others."""
    for name in PATTERNS:
        with pytest.raises(DefinitionError, match="selects hosts"):
            control.play("facts.yml", {name: "targets:!web"})
    taken = {name for playbook in ALL for name in hosts_of(playbook)}
    assert taken == PATTERNS


def hosts_of(playbook: str) -> set[str]:
    """Return the variables that name the hosts of a playbook's plays."""
    plays = yaml.safe_load((PLAYBOOKS / playbook).read_text())
    return {play["hosts"].split()[1] for play in plays}


def test_nothing_that_lies_in_a_studys_folder_is_run(tmp_path: Path) -> None:
    """Options, variables and plugins in the folder of ansible-runner are removed unread."""
    folder = tmp_path / "work" / "ansible"
    touch = f"touch {tmp_path}/CANARY"
    given = json.dumps({"tuner_programs": f"{{{{ lookup('pipe', '{touch}') }}}}"})
    planted = {
        "env/cmdline": f"-e '{given}'",
        "env/envvars": json.dumps({"ANSIBLE_CALLBACK_PLUGINS": str(folder / "project")}),
        "project/ansible.cfg": "[defaults]\ncallbacks_enabled = planted\n",
        "project/callback_plugins/planted.py": f"import os\nos.system({touch!r})\n",
        "home/plugins/callback/planted.py": f"import os\nos.system({touch!r})\n",
    }
    for name, text in planted.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    assert "localhost" in Playbooks(tmp_path / "work").run("facts.yml", {})
    assert touched(tmp_path) == []


def test_a_configuration_of_ansible_where_anybody_writes_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ansible itself ignores such a file; in the user's own folder it counts."""
    monkeypatch.delenv("ANSIBLE_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ansible.cfg").write_text("[defaults]\n")
    assert configuration_file() == {"ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg")}
    tmp_path.chmod(0o777)
    assert configuration_file() == {}
