"""Machines of several sockets, cores, threads and nodes: what is drawn, and who runs where.

QEMU has one kind of core under KVM, so big and small cores are in ``tests/machine`` only.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.vm.conftest import Boot
from tests.vm.machine import Ended

TUNER = f"{Path(sys.executable).parent}/tuner"
DOCTOR = f"{TUNER} doctor --json --quick >/mnt/doctor.json || test $? = 3\n"
"""Its exit code is 3 without a server, which does not matter here."""


def memory(nodes: list[str]) -> list[str]:
    """Return QEMU's options for memory nodes with these CPUs."""
    size = f"size={3072 // len(nodes)}M"
    return [
        option
        for i, cpus in enumerate(nodes)
        for option in (
            *("-object", f"memory-backend-ram,id=m{i},{size}"),
            *("-numa", f"node,nodeid={i},memdev=m{i},cpus={cpus}"),
        )
    ]


@dataclass(frozen=True, slots=True)
class Shape:
    """A machine, and how tuner must see and use it."""

    smp: str
    drawn: str
    """Beginning of the first line of the topology."""
    cores: tuple[tuple[int, ...], ...]
    generator: tuple[int, ...]
    server: tuple[int, ...]
    nodes: tuple[str, ...] = ()
    before: str = ""
    """Commands before tuner starts."""
    arguments: str = ""


PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7))
SHAPES = {
    "sockets, cores and threads": Shape(
        "8,sockets=2,cores=2,threads=2",
        "8 CPUs, 4 cores of up to 2 threads, 2 sockets, 1 memory node",
        PAIRS,
        (0,),
        (2, 3, 4, 5, 6, 7),
    ),
    "two memory nodes of four cores": Shape(
        "16,sockets=2,cores=4,threads=2",
        "16 CPUs, 8 cores of up to 2 threads, 2 sockets, 2 memory nodes",
        tuple((cpu, cpu + 1) for cpu in range(0, 16, 2)),
        (0,),
        (2, 3, 4, 5, 6, 7),
        nodes=("0-7", "8-15"),
    ),
    "nodes that are too small": Shape(
        "4,sockets=2,cores=2",
        "4 CPUs, 4 cores, 2 sockets, 2 memory nodes",
        ((0,), (1,), (2,), (3,)),
        (0,),
        (1, 2, 3),
        nodes=("0-1", "2-3"),
    ),
    "siblings": Shape(
        "2,cores=1,threads=2",
        "2 CPUs, 1 core of up to 2 threads, 1 socket",
        ((0, 1),),
        (0,),
        (1,),
    ),
    "a core with one thread, and an isolated one": Shape(
        "8,sockets=1,cores=4,threads=2",
        "7 CPUs, 4 cores of up to 2 threads, 1 socket",
        ((0, 1), (2, 3), (4, 5), (6,)),
        (6,),
        (0, 1, 2, 3, 4, 5),
        before="echo 0 >/sys/devices/system/cpu/cpu7/online\n",
        arguments="isolcpus=6",
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_shape_is_drawn_and_used_by_the_rules(boot: Boot, name: str) -> None:
    """Generator and server share no physical core of two, and stay in a node that is enough."""
    shape = SHAPES[name]
    options = memory(list(shape.nodes)) if shape.nodes else []
    ended = boot(shape.before + DOCTOR, shape.smp, *options, arguments=shape.arguments)
    row = topology_row(ended)
    assert row["text"].startswith(shape.drawn)
    threads: dict[int, list[int]] = {}
    for cpu in row["topology"]["cpus"]:
        threads.setdefault(cpu["core"], []).append(cpu["id"])
    assert tuple(map(tuple, threads.values())) == shape.cores
    placement = row["placement"]
    assert (tuple(placement["generator"]), tuple(placement["server"])) == (
        shape.generator,
        shape.server,
    )


CARD = """
echo 'irqs of eth0 all on the generator'
ip link set eth0 up
ip addr add 10.0.2.15/24 dev eth0
for irq in $(ls /sys/class/net/eth0/device/../msi_irqs); do
    echo 0 >/proc/irq/$irq/smp_affinity_list
done
ping -c 3 10.0.2.2 || busybox ping -c 3 10.0.2.2
cat >/mnt/notes.py <<'END'
from tuner.app.cpu_notes import generator_notes
from tuner.hosts import local
print(*generator_notes(local.facts().layout, (0,)), sep="\\n")
END
{python} /mnt/notes.py | grep 'network card' >/mnt/before
cat /proc/interrupts
remedy=$(sed 's/.*idle cores\\?: //' /mnt/before)
echo "$remedy"
eval "$remedy"
ping -c 3 10.0.2.2 || busybox ping -c 3 10.0.2.2
{python} /mnt/notes.py | grep 'network card' >/mnt/after || true
"""


def test_the_remedy_takes_a_cards_interrupts_off_the_generator(boot: Boot) -> None:
    """A real card: its interrupts are named, and the command of the note moves them."""
    card = ("-netdev", "user,id=n", "-device", "virtio-net-pci,netdev=n,vectors=4")
    script = CARD.replace("{python}", f"PYTHONPATH={Path.cwd()} {sys.executable}")
    ended = boot(script, "4,cores=4", *card)
    assert ended.code == 0, ended.output
    before = (ended.results / "before").read_text()
    assert "of the network card eth0" in before, ended.output
    assert "run on the generator's CPU 0" in before
    assert "do echo 1-3 > /proc/irq/$irq/smp_affinity_list" in before
    assert (ended.results / "after").read_text() == "", ended.output


def topology_row(ended: Ended) -> dict[str, Any]:
    """Return doctor's row with the topology as data."""
    assert ended.code == 0, ended.output
    rows = json.loads((ended.results / "doctor.json").read_text())
    rows = rows["checks"] if isinstance(rows, dict) else rows
    found: dict[str, Any] = next(row for row in rows if "topology" in row)
    return found
