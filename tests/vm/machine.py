"""Virtual machines of any shape under QEMU, on this machine's own files.

A machine boots a Linux kernel with an initial RAM file system of BusyBox and a few modules. Its
root is this machine's, shared read-only over 9p below an overlay in its memory: it has the
checkout, its environment and the servers as they are, and changes none of them. One script runs
there as root, and a shared folder takes its results. No root is needed here.
"""

from __future__ import annotations

import lzma
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

QEMU = "qemu-system-x86_64"
MEMORY_MIB = 3072
MODULES = ("virtio_pci", "9p", "9pnet_virtio", "overlay", "virtio_net")
"""Kernel modules of a machine, without those that they require."""
ACCELERATOR = os.environ.get("TUNER_VM_ACCELERATOR", "kvm")
"""``kvm``, or ``tcg`` for processors in software, which are some twenty times slower."""
BOOT_S = 60.0
"""Time limit for a machine that runs nothing, s."""
LIMIT_S = 200.0 if ACCELERATOR == "kvm" else 1500.0
"""Time limit for a machine with a script, s."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_9P = "trans=virtio,version=9p2000.L,msize=512000"
INIT = f"""#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read module; do insmod /modules/$module; done </modules/order
mount -t 9p -o {_9P},cache=loose,ro root /below
mount -t tmpfs tmpfs /memory
mkdir /memory/upper /memory/work
mount -t overlay -o lowerdir=/below,upperdir=/memory/upper,workdir=/memory/work overlay /root
mount -t tmpfs -o mode=1777 tmpfs /root/tmp
mount -t tmpfs -o mode=1777 tmpfs /root/var/tmp
mount -t tmpfs tmpfs /root/run
mkdir -m 1777 /root/run/lock /dev/shm /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t devpts devpts /dev/pts
mount -t 9p -o {_9P} results /root/mnt
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for each in proc sys dev; do mount -o move /$each /root/$each; done
ip link set lo up
exec switch_root /root /bin/sh -c 'export PATH={_PATH} HOME=/tmp/home; mkdir -p $HOME; \
cd $HOME; sh -e /mnt/script >/mnt/output 2>&1; echo $? >/mnt/code; sync; exec busybox poweroff -f'
"""
"""Process 1: mounts the file systems, runs the script, and switches the machine off."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The result of a machine's script."""

    code: int
    output: str
    """Standard output and error of the script."""
    results: Path
    """Folder that the script had at ``/mnt``."""


def refusal() -> str:
    """Return why there can be no virtual machine here; empty if there can."""
    if os.uname().machine != "x86_64":
        return f"virtual machines are of x86_64 only, and this is {os.uname().machine}"
    if ACCELERATOR == "kvm" and not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "/dev/kvm is missing or not accessible: no virtual machines"
    missing = [name for name in (QEMU, "busybox", "zstd") if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} missing (.ci/require vm): no virtual machines"
    if _is_dynamic(Path(shutil.which("busybox") or "")):
        return "busybox needs libraries (.ci/require vm installs a static one): no virtual machines"
    if not _kernels():
        return "no readable kernel with 9p in /boot (.ci/require vm): no virtual machines"
    return ""


def run(
    script: str,
    folder: Path,
    *,
    smp: str,
    options: Sequence[str] = (),
    arguments: str = "",
    limit_s: float = LIMIT_S,
) -> Ended:
    """Boot a machine, run a script in it as root, and return when the machine is off.

    Args:
        script: commands for ``sh -e``.
        folder: an empty folder, which the script has as ``/mnt``.
        smp: CPUs as QEMU's option ``-smp`` describes them.
        options: further options of QEMU.
        arguments: further arguments of the kernel.
        limit_s: time until the machine must be off, s.

    Raises:
        RuntimeError: the machine was not off in time, or it did not boot.
    """
    version = _kernels()[-1]
    initial, results = folder / "initial", folder / "results"
    results.mkdir(parents=True)
    initial.write_bytes(_initial(version))
    (results / "script").write_text(script, encoding="utf-8")
    command = [
        *(QEMU, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
        *("-machine", "q35", "-accel", ACCELERATOR, "-cpu", _processor(), "-m", f"{MEMORY_MIB}"),
        *("-smp", smp, "-kernel", _image(version), "-initrd", str(initial)),
        *("-append", f"console=ttyS0 quiet panic=-1 mitigations=off {arguments}".strip()),
        *("-serial", f"file:{folder / 'console'}"),
        *_shared("root", Path("/"), ",readonly=on"),
        *_shared("results", results, ""),
        *options,
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit_s)
        said = done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        said = f"not ended within {limit_s:.0f} s"
    output = _text(results / "output")
    code = _text(results / "code").strip()
    if not code:
        console = _text(folder / "console")[-3000:]
        raise RuntimeError(f"{said}\n{console}\n{output[-3000:]}\n{shlex.join(command)}")
    return Ended(int(code), output, results)


def _processor() -> str:
    """Return QEMU's name of the processor.

    Without ``topoext`` an AMD processor shows no threads. Within a machine that is virtual itself,
    KVM may report ``arch-capabilities`` and refuse to set their register on AMD.
    """
    if ACCELERATOR != "kvm":
        return "max,vendor=GenuineIntel"
    threads = ",topoext=on" if " topoext " in _text(Path("/proc/cpuinfo")) else ""
    return f"host,arch-capabilities=off{threads}"


def _shared(tag: str, path: Path, further: str) -> list[str]:
    """Return the options that share a folder with a machine."""
    share = f"local,id={tag},path={path},security_model=none,multidevs=remap{further}"
    return ["-fsdev", share, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]


def _kernels() -> list[str]:
    """Return the versions of installed kernels that a machine can boot, the newest last."""
    found = [path.name for path in Path("/lib/modules").glob("*")]
    usable = [each for each in found if os.access(_image(each), os.R_OK) and _modules(each)]
    return sorted(usable, key=lambda name: [int(n) for n in re.findall("[0-9]+", name)])


def _image(version: str) -> str:
    return f"/boot/vmlinuz-{version}"


def _modules(version: str) -> list[Path]:
    """Return the files of the modules, each after those that it requires; empty if one is missing.

    See modules.dep(5): a module's requirements follow its name, and each comes before its own.
    """
    top = Path("/lib/modules") / version
    requires = {}
    for line in _text(top / "modules.dep").splitlines():
        name, _, others = line.partition(":")
        requires[Path(name).name.partition(".")[0]] = [*reversed(others.split()), name]
    built_in = {Path(line).stem for line in _text(top / "modules.builtin").splitlines()}
    wanted = [name for name in MODULES if name not in built_in]
    if not all(name in requires for name in wanted):
        return []
    return [top / path for path in dict.fromkeys(p for name in wanted for p in requires[name])]


def _initial(version: str) -> bytes:
    """Return the initial RAM file system."""
    busybox = Path(shutil.which("busybox") or "").read_bytes()
    modules = {path.name.split(".")[0] + ".ko": _unpacked(path) for path in _modules(version)}
    folders = ("bin", "proc", "sys", "dev", "below", "memory", "root", "modules")
    entries: list[tuple[str, int, bytes]] = [(name, 0o40755, b"") for name in folders]
    entries += [("bin/busybox", 0o100755, busybox), ("init", 0o100755, INIT.encode())]
    entries += [(f"modules/{name}", 0o100644, content) for name, content in modules.items()]
    order = "".join(f"{name}\n" for name in modules)
    entries += [("modules/order", 0o100644, order.encode()), ("TRAILER!!!", 0, b"")]
    return b"".join(_cpio(number, *entry) for number, entry in enumerate(entries, 1))


def _cpio(number: int, name: str, mode: int, content: bytes) -> bytes:
    """Return a file of an initial file system (kernel, early-userspace/buffer-format)."""
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % each for each in fields) + name.encode() + b"\0"
    return _padded(head) + _padded(content)


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 4)


def _unpacked(path: Path) -> bytes:
    """Return a module; distributions compress them in different ways."""
    if path.suffix == ".zst":
        return subprocess.run(("zstd", "-dc", path), capture_output=True, check=True).stdout
    content = path.read_bytes()
    return lzma.decompress(content) if path.suffix == ".xz" else content


def _is_dynamic(program: Path) -> bool:
    """Return whether a program names a loader of libraries."""
    return b"/ld-linux" in program.read_bytes()[:4096]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
