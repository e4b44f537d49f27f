#!/usr/bin/python
"""Ansible module: change the files of a service for a while, with a way back to the host's own.

All is done by a program that is put on the target (``playbooks/files/tuner_service_guard.py``): it
must outlive the module, and an administrator may call it by hand.

Only Python's standard library, 3.8 or newer, is used: the module runs on the target.
"""

from __future__ import annotations

import os
import re

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.tuner_files import code_of
from ansible.module_utils.tuner_guards import GuardFailedError, ask, put_in_place
from ansible.module_utils.tuner_processes import family, pids_of, the_run_of

DOCUMENTATION = r"""
module: tuner_service
short_description: Change the files of a service for a while
description:
  - Replaces O(files), validates them, and lets the service take them over. The old files are kept
    in O(folder) beforehand; they are put back with O(state=restored), or, if O(watched), by a
    process on the target itself once O(lease_s) have passed since the last call.
  - A refusal by the validator is reported as V(refused), a service that does not run with the new
    files as V(failed); all files are then as before the call.
options:
  state:
    description: What is to be done.
    type: str
    choices: [changed, renewed, kept, restored]
    default: changed
  folder:
    description: Absolute folder of the old files, the state and the log.
    type: path
    default: /var/lib/tuner
  guard:
    description: Text of the program that does it.
    type: str
    required: true
  common:
    description: Text of what all such programs have in common.
    type: str
    required: true
  owner:
    description:
      - Whose change it is; only one at a time. With O(state=restored), another's is left alone;
        empty, it is not.
    type: str
    default: ""
  service:
    description: Name of the service.
    type: str
    default: nginx
  validate:
    description: Command that refuses a bad configuration; its output says why.
    type: list
    elements: str
    default: []
  how:
    description: How the service takes the files over.
    type: str
    choices: [reload, restart]
    default: reload
  files:
    description: Text by absolute path.
    type: dict
    default: {}
  unit:
    description:
      - Environment of the process of a systemd service. V(files) has the drop-ins by absolute
        path, V(variables) the resulting variables. A changed unit needs a restart. Without systemd
        it is ignored, and RV(message) says so.
    type: dict
    default: {}
  below:
    description:
      - Folder of the service's configuration. A file outside of it is refused, and so is a path
        that holds C(..) or C(//).
    type: path
    default: /
  lease_s:
    description: Seconds after which the target puts the old files back by itself.
    type: float
    default: 300
  watched:
    description: Whether it does.
    type: bool
    default: true
  continues:
    description: Fail unless the files of the last call still stand.
    type: bool
    default: false
  expected:
    description: SHA-256 by path of what O(files) must hold before; others are not compared.
    type: dict
    default: {}
  live:
    description:
      - Proof that the service runs with the files; empty for none. Either V(token), the answer at
        V(url) for the name V(host), or V(adapted), a command that prints the JSON that Caddy's
        admin endpoint must return.
    type: dict
    default: {}
  program:
    description:
      - The service's program, which one process runs (C(PROGRAM run)). Commands are run as that
        process is, with its account and environment, since validating opens log files; RV(pids)
        has it. Empty, they are run as root.
    type: str
    default: ""
  pid_file:
    description: Where its main process writes its id; RV(pids) has it, and what came from it.
    type: str
    default: ""
"""

ARGUMENTS = {
    "state": {
        "type": "str",
        "choices": ["changed", "renewed", "kept", "restored"],
        "default": "changed",
    },
    "folder": {"type": "path", "default": "/var/lib/tuner"},
    "guard": {"type": "str", "required": True},
    "common": {"type": "str", "required": True},
    "owner": {"type": "str", "default": ""},
    "service": {"type": "str", "default": "nginx"},
    "validate": {"type": "list", "elements": "str", "default": []},
    "how": {"type": "str", "choices": ["reload", "restart"], "default": "reload"},
    "files": {"type": "dict", "default": {}},
    "unit": {"type": "dict", "default": {}},
    "below": {"type": "path", "default": "/"},
    "lease_s": {"type": "float", "default": 300.0},
    "watched": {"type": "bool", "default": True},
    "continues": {"type": "bool", "default": False},
    "expected": {"type": "dict", "default": {}},
    "live": {"type": "dict", "default": {}},
    "program": {"type": "str", "default": ""},
    "pid_file": {"type": "str", "default": ""},
}
COMMANDS = {"changed": "change", "renewed": "renew", "kept": "keep", "restored": "restore"}
ASKED = (
    *("owner", "service", "validate", "how", "files", "unit"),
    *("lease_s", "watched", "continues", "live", "expected"),
)
PATIENCE_S = 240.0
UNTOLD: dict[str, object] = {"invocation": {}}
"""Part of a result that replaces the files: their content must not be in a log."""


def refuse(asked):
    """Do nothing if all that is named belongs to the service.

    Raises:
        ValueError: the name of the service or of a file is another thing; the words quote it.
    """
    service = asked["service"]
    if not re.match(r"[A-Za-z0-9_][A-Za-z0-9_.:@-]*\Z", service):
        raise ValueError(f"{service!r} is not the name of a service")
    for path in asked["files"]:
        refuse_path(path, asked["below"])
    drop_ins = "/etc/systemd/system/{}.service.d".format(re.sub(r"\.service\Z", "", service))
    for path in asked["unit"].get("files", {}):
        refuse_path(path, drop_ins)


def refuse_path(path, folder):
    """Do nothing if it is the plain path of a file below the folder."""
    plain = os.path.isabs(path) and os.path.normpath(path) == path and path.isprintable()
    if not plain or path.startswith("//"):
        raise ValueError(f"{path!r} is not the plain path of a file")
    if not path.startswith(os.path.join(folder, "")):
        raise ValueError(f"{path!r} is not below {folder}, so it is left alone")


def pids_in(asked):
    """The service's processes, its main one first."""
    if asked["program"]:
        return family(the_run_of(asked["program"]))
    return pids_of(asked["pid_file"])


def main():
    """Carry out what the task asks for."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    asked = module.params
    try:
        refuse(asked)
    except ValueError as error:
        module.fail_json(msg=str(error), **UNTOLD)
    saved = os.path.join(asked["folder"], "saved.json")
    if asked["state"] != "changed" and not os.path.exists(saved):
        module.exit_json(changed=False, service="untouched", message="", restored=[], **UNTOLD)
    if module.check_mode:
        module.exit_json(changed=True, service="untouched", message="", restored=[], **UNTOLD)
    if os.geteuid() != 0:
        module.fail_json(msg="a service's files belong to root; use become", **UNTOLD)
    owner = [asked["owner"]] if asked["state"] == "restored" and asked["owner"] else []
    texts = {"guard.py": asked["guard"], "tuner_guard.py": asked["common"]}
    try:
        program = put_in_place(asked["folder"], texts)
        wanted = {key: asked[key] for key in ASKED}
        changes = asked["program"] and asked["state"] == "changed"
        wanted["like"] = the_run_of(asked["program"]) if changes else 0
        command = [COMMANDS[asked["state"]], *owner]
        found = ask(program, asked["folder"], command, wanted, PATIENCE_S)
        pids = pids_in(asked) if found.get("state") == "live" else []
    except (GuardFailedError, LookupError, OSError, ValueError) as error:
        module.fail_json(msg=str(error), **UNTOLD)
    else:
        module.exit_json(
            changed=True,
            service=found.get("state", asked["state"]),
            message=found.get("message", ""),
            restored=found.get("restored", []),
            pids=pids,
            code=code_of(pids[0], {}) if pids else {},
            **UNTOLD,
        )


if __name__ == "__main__":
    main()
