#!/usr/bin/python
"""Ansible module: what a host is, as far as a measurement on it depends on that.

Only Python's standard library, 3.8 or newer, is used: the module runs on the host.
"""

from __future__ import annotations

import os
import platform
import shutil

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.tuner_files import sha256_of
from ansible.module_utils.tuner_host import facts

DOCUMENTATION = r"""
module: tuner_facts
short_description: What a host is, as far as a measurement on it depends on that
description:
  - Reads cores, memory, kernel, limits, and where programs are. Changes nothing.
options:
  programs:
    description: Programs to look for, also in the folders of administrators.
    type: list
    elements: str
    default: []
  checksum_of:
    description: A file for its SHA-256, which is empty if the file is missing.
    type: path
"""

ARGUMENTS = {
    "programs": {"type": "list", "elements": "str", "default": []},
    "checksum_of": {"type": "path"},
}
PLACES = ("/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/usr/local/nginx/sbin")


def found(programs, checksum_of):
    """Return the host's facts, and which of a study's needs it meets."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *PLACES])
    return {
        **facts(),
        "machine": platform.machine(),
        "programs": {name: shutil.which(name, path=path) for name in programs},
        "file": checksum_of,
        "file_sha256": checksum(checksum_of) if checksum_of else "",
    }


def checksum(path):
    """SHA-256 of a file; empty where there is none."""
    try:
        return sha256_of(path)
    except OSError:
        return ""


def main():
    """Read the facts and return them to Ansible."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    module.exit_json(changed=False, facts=found(params["programs"], params["checksum_of"]))


if __name__ == "__main__":
    main()
