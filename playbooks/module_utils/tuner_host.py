"""Facts of a host, of the one that tuner runs on and of every other.

Only Python's standard library, 3.8 or newer, is used: it runs on the target.
"""

from __future__ import annotations

import getpass
import os
import platform
import resource
import socket


def facts():
    """Everything, under the names of ``tuner.machine.facts.HostFacts``."""
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
    }


def realtime_allowed():
    """Return whether a thread may become real-time; a child tries, so nothing changes here."""
    pid = os.fork()
    if pid == 0:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


def virtualisation():
    """Return the virtualisation, from the CPU's hypervisor bit and the firmware's name."""
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
