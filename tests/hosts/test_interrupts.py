"""Interrupts of network cards, from the files in which kernels show them."""

from __future__ import annotations

from pathlib import Path

from tests.machine.machines import write
from tuner.hosts.interrupts import network_interrupts
from tuner.hosts.sysfs import topology
from tuner.machine.topology import Interrupt, topology_of

VIRTIO = """\
           CPU0       CPU1
 36:          0    2718175 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
 37:          0          0 PCI-MSIX-0000:00:03.0   0-edge      virtio2-config
 38:          0      72378 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
 39:      61307          0 PCI-MSIX-0000:00:03.0   2-edge      virtio2-output.0
NMI:          0          0   Non-maskable interrupts
LOC:    6535326   18095166   Local timer interrupts
ERR:          0
"""
"""A cloud machine; its card is a virtio device of a PCI function."""


def card(root: Path, name: str, place: str) -> None:
    """Link a network card to its device."""
    link = root / "sys" / "class" / "net" / name / "device"
    link.parent.mkdir(parents=True)
    (root / place).mkdir(parents=True, exist_ok=True)
    link.symlink_to(root / place)


def laid_out(root: Path, interrupts: str, affinity: dict[str, str], up_s: float = 1000.0) -> None:
    """Write the files of ``proc``."""
    write(root, {"proc/interrupts": interrupts, "proc/uptime": f"{up_s} 1.00"})
    write(root, {f"proc/irq/{name}": text for name, text in affinity.items()})


def test_a_virtio_card_has_those_of_its_pci_function(tmp_path: Path) -> None:
    """The CPU that the kernel chose counts; a line without interrupts is none."""
    pci = "sys/devices/pci0000:00/0000:00:03.0"
    card(tmp_path, "eth0", f"{pci}/virtio2")
    write(tmp_path, {f"{pci}/msi_irqs/{irq}": "msix" for irq in (37, 38, 39)})
    chosen = {"38/effective_affinity_list": "1", "39/effective_affinity_list": "0"}
    allowed = {f"{irq}/smp_affinity_list": "0-1" for irq in (37, 38, 39)}
    laid_out(tmp_path, VIRTIO, {**chosen, **allowed})
    assert topology_of(topology(str(tmp_path))).interrupts == (
        Interrupt("eth0", 38, (1,), 72.4),
        Interrupt("eth0", 39, (0,), 61.3),
    )


def test_a_card_of_several_queues_has_one_for_each(tmp_path: Path) -> None:
    """Without the chosen CPU all that are allowed count; several ports have lines of their own."""
    text = """\
            CPU0       CPU1       CPU2       CPU3
  16:        900          0          0          0  IR-IO-APIC   16-fasteoi   ehci_hcd:usb1
 120:      10000          0          0          0  IR-PCI-MSI 524288-edge      eth0-TxRx-0
 121:          0      20000          0          0  IR-PCI-MSI 524289-edge      eth0-TxRx-1
 122:          0          0          0          7  IR-PCI-MSI 526336-edge      eth1
"""
    for name, number, irqs in (("eth0", "1", (120, 121)), ("eth1", "2", (122,))):
        place = f"sys/devices/pci0000:00/0000:01:00.{number}"
        card(tmp_path, name, place)
        write(tmp_path, {f"{place}/msi_irqs/{irq}": "msix" for irq in irqs})
    laid_out(tmp_path, text, {f"{irq}/smp_affinity_list": "0-1" for irq in (120, 121)})
    assert network_interrupts(str(tmp_path)) == [
        {"device": "eth0", "irq": 120, "cpus": "0-1", "per_s": 10.0},
        {"device": "eth0", "irq": 121, "cpus": "0-1", "per_s": 20.0},
        {"device": "eth1", "irq": 122, "cpus": "", "per_s": 0.0},
    ]


def test_a_card_without_messages_has_a_line(tmp_path: Path) -> None:
    """Old cards share one; the file has 0 where there is none."""
    card(tmp_path, "eth0", "sys/devices/pci0000:00/0000:02:01.0")
    card(tmp_path, "eth1", "sys/devices/pci0000:00/0000:02:02.0")
    write(tmp_path, {"sys/devices/pci0000:00/0000:02:01.0/irq": "19"})
    write(tmp_path, {"sys/devices/pci0000:00/0000:02:02.0/irq": "0"})
    text = "    CPU0\n 0: 5 IO-APIC timer\n 19: 3000 IO-APIC 19-fasteoi eth0"
    laid_out(tmp_path, text, {"19/smp_affinity_list": "0"})
    found = network_interrupts(str(tmp_path))
    assert found == [{"device": "eth0", "irq": 19, "cpus": "0", "per_s": 3.0}]


def test_what_is_missing_is_left_out(tmp_path: Path) -> None:
    """Containers have virtual devices, and may have no file at all."""
    assert network_interrupts(str(tmp_path)) == []
    (tmp_path / "sys/class/net/lo").mkdir(parents=True)
    card(tmp_path, "eth0", "sys/devices/pci0000:00/0000:00:03.0")
    write(tmp_path, {"sys/devices/pci0000:00/0000:00:03.0/msi_irqs/38": "msix"})
    assert network_interrupts(str(tmp_path)) == []
    write(tmp_path, {"proc/interrupts": VIRTIO})
    assert network_interrupts(str(tmp_path)) == []
