"""Ansible's modules by themselves: called as functions, and run without Ansible around them."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible import module_utils

from tuner.hosts.ansible import AnsibleDeployer
from tuner.paths import data_dir

PLAYBOOKS = data_dir("playbooks")
LIBRARY = PLAYBOOKS / "library"


def functions_of(module: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return a module's definitions by name; it finds shared code as on a target."""
    path = [*module_utils.__path__, str(PLAYBOOKS / "module_utils")]
    monkeypatch.setattr(module_utils, "__path__", path)
    return runpy.run_path(str(LIBRARY / f"{module}.py"))


_RUN = """
import runpy, sys
from ansible import module_utils
module, shared = sys.argv[1:]
module_utils.__path__ = [*module_utils.__path__, shared]
# What is left are options of Ansible's own for a module that is run by hand.
sys.argv = [module]
runpy.run_path(module, run_name="__main__")
"""


def run_module(module: str, **arguments: object) -> dict[str, Any]:
    """Return the result of a module in a process of its own, as a task would call it."""
    done = subprocess.run(
        [sys.executable, "-c", _RUN, LIBRARY / f"{module}.py", PLAYBOOKS / "module_utils"],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


class ModuleDeployer(AnsibleDeployer):
    """The deployer with the playbooks' modules alone, for tests of what is deployed.

    Starting Ansible takes five times as long as the rest of a deployment. Its way is tested with
    the deployer itself (``tests/hosts``) and with studies (``tests/integration``, ``tests/fleet``).
    """

    def _play(
        self, playbook: str, hosts: Sequence[str], **variables: Any
    ) -> Mapping[str, Mapping[str, Any]]:
        match playbook:
            case "deploy.yml":
                result = run_module(
                    "tuner_instances",
                    lab=variables["tuner_lab"],
                    user=variables["tuner_user"],
                    instances=json.loads(Path(variables["tuner_instances_file"]).read_text()),
                )
                return dict.fromkeys(hosts, result)
            case "stop.yml":
                for lab in variables["tuner_labs"]:
                    run_module("tuner_instances", lab=lab, state="absent")
            case "site.yml":
                site = Path(variables["tuner_site"])
                run_module("tuner_folder", path=str(site))
                shutil.copytree(variables["tuner_site_source"], site, dirs_exist_ok=True)
                for path in (site, *site.rglob("*")):
                    path.chmod(0o755 if path.is_dir() else 0o644)
            case _:
                raise AssertionError(f"{playbook} needs Ansible")
        return {}
