#!/usr/bin/python
"""Ansible module: a folder that no other account has made beforehand.

Only Python's standard library, 3.8 or newer, is used: the module runs on the target.
"""

from __future__ import annotations

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.tuner_folders import own_folder, refuse_planted

DOCUMENTATION = r"""
module: tuner_folder
short_description: Make a folder that no other account has made beforehand
description:
  - Makes O(path) and what is missing above it. Fails where a part of it lies in a folder in which
    everybody may make some, as V(/var/tmp), and another account was first.
options:
  path:
    description: Absolute folder.
    type: path
    required: true
  mode:
    description: Of all that is made, octal.
    type: str
    default: "0755"
"""

ARGUMENTS = {
    "path": {"type": "path", "required": True},
    "mode": {"type": "str", "default": "0755"},
}


def main():
    """Carry out what the task asks for."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    path = module.params["path"]
    try:
        if module.check_mode:
            refuse_planted(path)
            made = not os.path.isdir(path)
        else:
            made = own_folder(path, int(module.params["mode"], 8))
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    else:
        module.exit_json(changed=made, path=path)


if __name__ == "__main__":
    main()
