#!/usr/bin/python
"""Ansible module: lend the kernel's network settings to a study, with a way back of the host's own.

All is done by a program that is put on the target (``playbooks/files/tuner_kernel_guard.py``): it
must outlive the module, and an administrator may call it by hand.

Only Python's standard library, 3.8 or newer, is used: the module runs on the target.
"""

from __future__ import annotations

import os
import tempfile

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.tuner_guards import GuardFailedError, ask, put_in_place

DOCUMENTATION = r"""
module: tuner_kernel
short_description: Change kernel network settings for a while
description:
  - Makes O(settings) hold for the whole host. The old values are kept in O(folder) and are put back
    with O(state=absent), or by a process on the target itself once O(lease_s) have passed since
    the last call.
  - With O(state=looked) nothing changes and root is not needed; RV(seen) has the settings.
  - A value that the kernel refuses, or makes another of, is reported with V(refused); all old
    values hold then. Whatever else goes wrong is a failure.
options:
  folder:
    description: Absolute folder of state and log, on a file system that a reboot empties.
    type: path
    default: /run/tuner-kernel
  state:
    description: Whether the settings hold, or the old ones; or only to look.
    type: str
    choices: [present, absent, looked]
    default: present
  guard:
    description: Text of the program that does it.
    type: str
    required: true
  common:
    description: Text of what all such programs have in common.
    type: str
    required: true
  owner:
    description: Whose settings they are; only one owner at a time.
    type: str
    default: ""
  lease_s:
    description: Seconds after which the target puts the old values back by itself.
    type: float
    default: 300
  settings:
    description: Values by name, C(net.core.…) and C(net.ipv4.…) only.
    type: dict
    default: {}
  names:
    description: Settings to look at.
    type: list
    elements: str
    default: []
  continues:
    description: Fail unless the settings of the last call still hold.
    type: bool
    default: false
"""

ARGUMENTS = {
    "folder": {"type": "path", "default": "/run/tuner-kernel"},
    "state": {"type": "str", "choices": ["present", "absent", "looked"], "default": "present"},
    "names": {"type": "list", "elements": "str", "default": []},
    "guard": {"type": "str", "required": True},
    "common": {"type": "str", "required": True},
    "owner": {"type": "str", "default": ""},
    "lease_s": {"type": "float", "default": 300.0},
    "settings": {"type": "dict", "default": {}},
    "continues": {"type": "bool", "default": False},
}
PATIENCE_S = 60.0


def main():
    """Carry out what the task asks for."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    asked = module.params
    present, looking = asked["state"] == "present", asked["state"] == "looked"
    if module.check_mode and not looking:
        module.exit_json(changed=present)
    if os.geteuid() != 0 and not looking:
        module.fail_json(msg="the kernel's settings belong to the whole host and need root")
    keys = ("owner", "lease_s", "settings", "continues", "names")
    command = {"present": "apply", "absent": "restore", "looked": "look"}[asked["state"]]
    texts = {"guard.py": asked["guard"], "tuner_guard.py": asked["common"]}
    try:
        with tempfile.TemporaryDirectory() as aside:
            # Whoever only looks may not write to the folder, and leaves nothing.
            program = put_in_place(aside if looking else asked["folder"], texts)
            wanted = {key: asked[key] for key in keys}
            found = ask(program, asked["folder"], [command], wanted, PATIENCE_S)
    except (GuardFailedError, OSError) as error:
        module.fail_json(msg=str(error))
    else:
        if looking:
            module.exit_json(changed=False, seen=found)
        module.exit_json(
            changed=present or bool(found["restored"]),
            kernel=found.get("state", "restored"),
            message=found.get("message", ""),
            restored=found.get("restored", []),
        )


if __name__ == "__main__":
    main()
