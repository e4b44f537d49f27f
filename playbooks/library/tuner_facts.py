#!/usr/bin/python
"""Ansible module: what a host is, as far as a measurement on it depends on that.

Only Python's standard library, 3.8 or newer, is used: the module runs on the host.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import platform
import resource
import shutil
import socket

from ansible.module_utils.basic import AnsibleModule

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
    description: A file whose SHA-256 is told; empty where there is none.
    type: path
"""

ARGUMENTS = {
    "programs": {"type": "list", "elements": "str", "default": []},
    "checksum_of": {"type": "path"},
}
PLACES = ("/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/usr/local/nginx/sbin")


def facts(programs, checksum_of):
    """Everything, under the names of ``tuner.facts.HostFacts`` and a few of its own."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *PLACES])
    return {
        "hostname": socket.gethostname(),
        "cpus": sorted(os.sched_getaffinity(0)),
        "cpu_model": field("/proc/cpuinfo", "model name"),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "distribution": distribution(),
        "virtualisation": virtualisation(),
        "file_limit": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        "somaxconn": int(text("/proc/sys/net/core/somaxconn") or 0),
        "realtime": realtime_allowed(),
        "user": getpass.getuser(),
        "kernel_tls": os.path.exists("/proc/net/tls_stat"),
        "machine": platform.machine(),
        "programs": {name: shutil.which(name, path=path) for name in programs},
        "file": checksum_of,
        "file_sha256": checksum(checksum_of) if checksum_of else "",
    }


def checksum(path):
    """SHA-256 of a file; empty where there is none."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as stream:
            for piece in iter(lambda: stream.read(1 << 20), b""):
                digest.update(piece)
    except OSError:
        return ""
    return digest.hexdigest()


def realtime_allowed():
    """Whether a thread may become real-time: tried in a child, so that nothing here changes."""
    pid = os.fork()
    if pid == 0:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


def virtualisation():
    """From the hypervisor bit of the CPU and the firmware's name, as far as they tell."""
    if "hypervisor" not in field("/proc/cpuinfo", "flags").split():
        return "none"
    product = text("/sys/class/dmi/id/sys_vendor").strip()
    kind = text("/sys/hypervisor/type").strip()
    return kind or product or "hypervisor of unknown kind"


def distribution():
    """The name that the distribution gives itself."""
    for line in text("/etc/os-release").splitlines():
        key, _, value = line.partition("=")
        if key == "PRETTY_NAME":
            return value.strip('"')
    return platform.system()


def field(path, name):
    """The first line ``name: value`` of a file of the kernel's."""
    for line in text(path).splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def text(path):
    """A file's text; empty where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def main():
    """Read and tell."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    module.exit_json(changed=False, facts=facts(params["programs"], params["checksum_of"]))


if __name__ == "__main__":
    main()
