"""Interrupts of network cards and the CPUs that handle them: see the kernel's irq-affinity.

The agent runs this file on other hosts, so it needs only the standard library of Python 3.8. What
is missing is left out: containers show few of these files, and virtual devices have no interrupts.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tuner.hosts.kernel_files import entries_of, text_of


def network_interrupts(root: str = "/") -> list[dict[str, Any]]:
    """Return the interrupts of all network cards that have had one since the boot.

    Args:
        root: folder that holds ``proc`` and ``sys``; another one in tests.

    Returns:
        ``device``, the card's name; ``irq``, the number; ``cpus``, a list such as ``0-3`` of those
        that handle it; ``per_s``, its mean rate since the boot.
    """
    proc = Path(root) / "proc"
    counts, up_s = _counts(text_of(proc / "interrupts")), _up_s(text_of(proc / "uptime"))
    found = []
    for card in entries_of(Path(root) / "sys" / "class" / "net"):
        for irq in _irqs(card / "device"):
            if counts.get(irq) and up_s:
                folder = proc / "irq" / str(irq)
                # The kernel chooses one of the allowed CPUs; not all kernels show which.
                cpus = text_of(folder / "effective_affinity_list").strip()
                cpus = cpus or text_of(folder / "smp_affinity_list").strip()
                per_s = round(counts[irq] / up_s, 1)
                found.append({"device": card.name, "irq": irq, "cpus": cpus, "per_s": per_s})
    return found


def _irqs(device: Path) -> list[int]:
    """Return the interrupts of a device.

    They are those of its PCI function: its own folder, or the one above a virtio device.
    """
    try:
        place = device.resolve(strict=True)
    except (OSError, RuntimeError):
        return []
    for folder in (place, place.parent):
        messages = sorted(int(each.name) for each in entries_of(folder / "msi_irqs"))
        if messages:
            return messages
    # Without message-signalled interrupts there is one line; 0 stands for none.
    line = text_of(place / "irq").strip()
    return [int(line)] if re.match(r"^[1-9]\d{0,5}$", line) else []


def _counts(text: str) -> dict[int, int]:
    """Return the number of interrupts on all CPUs together, by interrupt."""
    head, _, rest = text.partition("\n")
    width, found = len(head.split()), {}
    for line in rest.splitlines():
        name, _, values = line.partition(":")
        if name.strip().isdigit():
            counts = values.split()[:width]
            found[int(name)] = sum(int(count) for count in counts if count.isdigit())
    return found


def _up_s(text: str) -> float:
    seconds = re.match(r"^\d+(\.\d+)?", text)
    return float(seconds.group()) if seconds else 0.0
