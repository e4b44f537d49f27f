"""Runs in a network namespace of its own: the Ansible deployer switches between two instances.

``python switching.py FOLDER LEASE_S [wait]`` tells each step as a line of JSON.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.hosts.namespaces import CHANGED
from tests.hosts.nginxes import NginxLab, ask
from tuner.errors import HostError
from tuner.hosts import local
from tuner.hosts.ansible import AnsibleDeployer, KernelLoan

SOMAXCONN, CORKING = "net.core.somaxconn", "net.ipv4.tcp_autocorking"


def values() -> dict[str, str]:
    """Return the namespace's settings."""
    paths = {name: Path("/proc/sys", *name.split(".")) for name in CHANGED}
    return {name: " ".join(path.read_text().split()) for name, path in paths.items()}


def tell(step: str, **found: Any) -> None:
    """One line for the test."""
    sys.stdout.write(json.dumps({"step": step, "values": values(), **found}) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Switch, be disturbed, be refused, stop."""
    folder, lease_s = Path(sys.argv[1]), float(sys.argv[2])
    made = NginxLab(folder / "study")
    loan = KernelLoan(lease_s=lease_s, folder=str(folder / "guard"))
    deployer = AnsibleDeployer(made.lab, folder / "work", user=local.lab_user(), loan=loan)
    ports = local.free_ports(2)
    one = replace(made.spec("baseline", ports[0]), kernel={SOMAXCONN: "1111"}, open_files=4_096)
    two = replace(made.spec("candidate", ports[1]), kernel={SOMAXCONN: "2222", CORKING: "0"})
    try:
        tell("before")
        state = deployer.switch(one)
        tell("one", state=state.state, answer=ask(one.live_url), limit=limit(state.pids[0]))
        if sys.argv[3:] == ["wait"]:
            time.sleep(600)
        state = deployer.switch(two)
        tell("two", state=state.state, answer=ask(two.live_url), other=ask(one.live_url))
        Path("/proc/sys/net/core/somaxconn").write_text("3333")
        try:
            deployer.switch(one)
        except HostError as error:
            tell("disturbed", message=str(error))
        state = deployer.switch(replace(two, kernel={SOMAXCONN: "-1"}))
        tell("refused", state=state.state, message=state.message)
    finally:
        deployer.stop()
        shutil.rmtree(made.lab, ignore_errors=True)
    tell("after", token=one.live_token, tokens=two.live_token, answer=ask(one.live_url))


def limit(pid: int) -> str:
    """Limit of open files of a process."""
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return next(line.split()[3] for line in lines if line.startswith("Max open files"))


if __name__ == "__main__":
    main()
