"""Networks that are down, reset, half-open or slow, wrong answers, and ports that are taken."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

from tuner.hosts import local
from tuner.testing.faults.fault import Fault, FaultTarget, Network, later

ROW = "network"
_NETWORK = frozenset({"network"})
_DOWN_S = (1.0, 4.0)
_RANGE = "net/ipv4/ip_local_port_range"
_USUAL_RANGE = "32768\t60999"
_SERVED = "( sport ge :18080 and sport le :28000 )"
"""Ports that tuner gives to servers."""


def _run(network: Network, *command: str) -> None:
    subprocess.run(network.inside(*command), capture_output=True, check=False)


def _down_s(target: FaultTarget) -> float:
    low, high = _DOWN_S
    return low + target.share * (high - low)


def _up(network: Network) -> str:
    return " ".join(network.inside("ip", "link", "set", network.device, "up"))


def _down(target: FaultTarget) -> None:
    for network in target.networks:
        _run(network, "ip", "link", "set", network.device, "down")
        later(_down_s(target), _up(network))


def _repaired(target: FaultTarget) -> None:
    for network in target.networks:
        _run(network, "ip", "link", "set", network.device, "up")
        _run(network, "tc", "qdisc", "del", "dev", network.device, "root")


def _reset(target: FaultTarget) -> None:
    """Abort every connection of the namespaces; both sides get a reset."""
    for network in target.networks:
        _run(network, "ss", "-K", "state", "established")


def _half_open(target: FaultTarget) -> None:
    """Abort one side of every connection while no packet reaches the other side."""
    for network in target.networks:
        served = " or ".join(f"sport = :{port}" for port in network.served)
        _run(network, "ip", "link", "set", network.device, "down")
        _run(network, "ss", "-K", "state", "established", f"( {served} )" if served else _SERVED)
        later(_DOWN_S[0], _up(network))


def _slow(target: FaultTarget) -> None:
    """Let through a kilobyte per second for some seconds."""
    for network in target.networks:
        limit = ("rate", "8kbit", "burst", "1600", "limit", "16000")
        _run(network, "tc", "qdisc", "add", "dev", network.device, "root", "tbf", *limit)
        end = " ".join(network.inside("tc", "qdisc", "del", "dev", network.device, "root"))
        later(_down_s(target), end)


def _no_names(target: FaultTarget) -> None:
    """Let no name of another host resolve for some seconds."""
    whole = _whole_names(target)
    if not whole.exists():
        shutil.copy(target.names, whole)
    kept = [line for line in whole.read_text().splitlines(keepends=True) if "localhost" in line]
    # In place: the command sees this file and no other one of its name.
    target.names.write_text("".join(kept))
    later(_down_s(target), f"cat {whole} >{target.names}")


def _names_again(target: FaultTarget) -> None:
    if _whole_names(target).exists():
        target.names.write_bytes(_whole_names(target).read_bytes())


def _whole_names(target: FaultTarget) -> Path:
    return target.names.with_suffix(".whole")


def _pages(target: FaultTarget) -> list[Path]:
    """Return the files that the study's servers and backends serve."""
    return [path for path in target.folder.glob("studies/*/lab/site/**/*") if path.is_file()]


def _cut(target: FaultTarget) -> None:
    """Cut each file that is served, so that answers are shorter than those of a moment ago."""
    for path in _pages(target):
        os.truncate(path, path.stat().st_size // 2)


def _taken(_: FaultTarget) -> None:
    """Listen on the next free port between the look that finds it and its use."""
    look: Callable[[int], object] = local.free_ports
    holders: list[socket.socket] = []

    def found(count: int) -> object:
        ports = look(count)
        if not holders:
            holders.append(socket.create_server(("127.0.0.1", ports[0])))  # type: ignore[index]
        return ports

    local.free_ports = found  # type: ignore[assignment]


def _no_ports(_: FaultTarget) -> None:
    """Leave no port for outgoing connections: two, which listeners hold."""
    Path("/proc/sys", _RANGE).write_text("29998 29999", encoding="ascii")
    for port in (29998, 29999):
        # It lives as long as the process, without a name.
        os.dup(socket.create_server(("127.0.0.1", port)).fileno())


def _ports_again(target: FaultTarget) -> None:
    for network in target.networks:
        _run(network, "sh", "-c", f"echo '{_USUAL_RANGE}' >/proc/sys/{_RANGE}")


FAULTS = (
    Fault("link down", ROW, _down, _repaired, needs=_NETWORK, by_the_clock=True),
    Fault("reset", ROW, _reset, needs=_NETWORK),
    Fault("half-open", ROW, _half_open, _repaired, needs=_NETWORK, by_the_clock=True),
    Fault("slow link", ROW, _slow, _repaired, needs=_NETWORK, by_the_clock=True),
    Fault(
        "names unknown", ROW, _no_names, _names_again, needs=frozenset({"names"}), by_the_clock=True
    ),
    Fault(
        "wrong answers",
        ROW,
        _cut,
        needs=frozenset({"here"}),
        ready=lambda target: bool(_pages(target)),
    ),
    Fault("port taken", ROW, _taken, needs=frozenset({"here"})),
    Fault("all ports taken", ROW, _no_ports, _ports_again, needs=frozenset({"here"})),
)
