"""Several real hosts on one machine: Debian, sshd, a network of their own, and faults on demand.

A host is a root that debootstrap made (once, cached), under an overlay of its own, in namespaces of
its own: network, processes, mounts, name. All hosts hang on one bridge, over which the controller
reaches them by SSH with a key of the bed's own. Everything is taken away again, also on failure.

Needs root. ``refusal`` says what is missing.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from tests.fleet.leftovers import CGROUP, bed_folder, pids_in, quietly, sweep

SUITE = "trixie"
COMMON = ("openssh-server", "python3", "iproute2", "procps", "sudo", "ca-certificates")
"""Packages of every host."""
PACKAGES = ("nginx", *COMMON)
OTHERS = ("apache2", "haproxy", *COMMON)
"""Packages of a host with other servers than Nginx."""
SYSTEMD = ("systemd", "systemd-sysv", "dbus")
"""Further packages of a host with systemd as process 1."""
CACHE = Path(os.environ.get("TUNER_BED", "/var/tmp/tuner-bed"))  # noqa: S108 - root's, mode 0700
TOOLS = ("debootstrap", "ip", "unshare", "taskset", "ssh", "ssh-keygen", "mount", "chroot")
BORN_S = 20.0
"""Time limit for a host until its sshd answers, s."""
VOLATILE = (
    "dev",
    "proc",
    "sys",
    "run",
    "tmp",
    "var/tmp",
    "var/log",
    "var/lib/systemd",
    "root/.ansible",
    "root/.cache",
)
"""Below these, nothing is a file of the host's own."""
INIT = """
import os, subprocess, sys
subprocess.run(["mount", "-t", "proc", "proc", "/proc"], check=True)
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
for folder in ("/run/sshd", "/run/lock"):
    os.makedirs(folder, exist_ok=True)
for service in sys.argv[1:]:
    subprocess.run(["service", service, "start"], check=True, stdin=subprocess.DEVNULL)
subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-o", "UsePAM=no", "-o", "UseDNS=no",
                  "-o", "PasswordAuthentication=no", "-o", "PermitRootLogin=prohibit-password"])
while True:
    os.wait()
"""
"""Process 1: mounts what the host needs, starts sshd and services, and reaps whatever dies."""

_SHELL = """
hostname "$1"
mount --rbind /dev "$2/dev"
exec chroot "$2" python3 -c "$3" $4
"""
_SYSTEMD_SHELL = """
hostname "$1"
mount -t proc proc "$2/proc"
mount -t tmpfs -o mode=0755 tmpfs "$2/run"
mount -t sysfs -o ro sysfs "$2/sys"
mount -t cgroup2 cgroup2 "$2/sys/fs/cgroup"
mount --rbind /dev "$2/dev"
export container=tuner
cd "$2"
pivot_root . mnt
umount --lazy /mnt
exec /lib/systemd/systemd --system --show-status=no --unit=multi-user.target \\
    systemd.mask=console-getty.service systemd.mask=getty.target systemd.mask=apt-daily.timer \\
    systemd.mask=apt-daily-upgrade.timer
"""
"""Requirements of systemd in a container (systemd.io/CONTAINER_INTERFACE).

With a root of its own, not chroot's: a unit's own mounts (``ProtectSystem=``) would else show its
processes' paths as this machine has them.
"""
_JOINED = ("sh", "-ec", 'echo $$ >"$0"; exec "$@"')
"""Begins a command, with the file that takes processes into a control group."""


def systemd_refusal() -> str:
    """Why no host can have systemd as its process 1 here; empty if one can."""
    asked = ("unshare", "--mount", "--cgroup", "mount", "-t", "cgroup2", "cgroup2", "/mnt")
    probe = subprocess.run(asked, capture_output=True, text=True, check=False)
    return "" if probe.returncode == 0 else f"no cgroup2 for systemd: {probe.stderr.strip()}"


def refusal() -> str:
    """Why there can be no bed on this machine; empty if there can."""
    if os.geteuid() != 0:
        return "not root: no hosts in namespaces"
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    missing = [tool for tool in TOOLS if shutil.which(tool, path=path) is None]
    if missing:
        return f"no {', '.join(missing)} on this machine: no hosts in namespaces"
    probe = subprocess.run(
        ["unshare", "--mount", "--net", "--pid", "--fork", "true"], capture_output=True, check=False
    )
    if probe.returncode != 0:
        return f"namespaces are not allowed here: {probe.stderr.decode().strip()}"
    try:
        base_root()
    except (subprocess.SubprocessError, OSError) as error:
        return f"no Debian root could be built: {error}"
    return ""


def base_root(packages: Sequence[str] = PACKAGES) -> Path:
    """Return the root that hosts start from: built once, some 300 MB and a minute."""
    # By what is in it, so that a change of the list builds another one.
    name = hashlib.sha256(" ".join((SUITE, *packages)).encode()).hexdigest()[:8]
    CACHE.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = CACHE.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & 0o022:
        # Anybody may make a folder in /var/tmp, and hosts run what is in here as root.
        raise OSError(f"{CACHE} is not a folder that only root may write; remove it")
    root = CACHE / f"{SUITE}-{name}"
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            building = root.with_suffix(".building")
            shutil.rmtree(building, ignore_errors=True)
            include = f"--include={','.join(packages)}"
            command = ["debootstrap", "--variant=minbase", include, SUITE, str(building)]
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=False,
                env=_environment(),
                timeout=900,
            )
            if done.returncode != 0:
                said = (done.stdout + done.stderr).strip()[-500:]
                raise OSError(f"debootstrap ended with {done.returncode}: {said}")
            (building / "root" / ".ssh").mkdir(mode=0o700, exist_ok=True)
            building.rename(root)
    return root


@dataclass
class BedHost:
    """One host: its root as the controller sees it, its address, its process 1."""

    name: str
    address: str
    folder: Path
    namespace: str
    port: str
    """The bridge's end of its cable."""
    cpus: str
    services: tuple[str, ...] = ()
    systemd: bool = False
    """True if systemd is its process 1, which starts what Debian's packages enabled."""
    packages: tuple[str, ...] = PACKAGES
    clock_ahead_s: int = 0
    """Its monotonic clock minus ours (time_namespaces(7)), which they share if this is 0."""
    process: subprocess.Popen[bytes] | None = None

    @property
    def root(self) -> Path:
        """The host's file system."""
        return self.folder / "root"

    @property
    def base(self) -> Path:
        """The root that it started from."""
        return base_root((*self.packages, *SYSTEMD) if self.systemd else self.packages)

    @property
    def group(self) -> Path:
        """Return the host's control group, below which systemd makes its own."""
        return self.folder / CGROUP / self.namespace

    def start(self) -> None:
        """Switch it on; returns when its sshd listens."""
        # A kill leaves the runtime files of daemons behind, which a boot would have removed.
        shutil.rmtree(self.root / "run", ignore_errors=True)
        (self.root / "run").mkdir(exist_ok=True)
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *((*_JOINED, str(self.group / "cgroup.procs")) if self.systemd else ()),
                    *("ip", "netns", "exec", self.namespace, "taskset", "-c", self.cpus),
                    *("unshare", "--mount", "--pid", "--uts", "--ipc", "--fork"),
                    *(("--cgroup",) if self.systemd else ()),
                    *(
                        ("--time", f"--monotonic={self.clock_ahead_s}")
                        if self.clock_ahead_s
                        else ()
                    ),
                    *("--kill-child=SIGKILL", "sh", "-ec"),
                    _SYSTEMD_SHELL if self.systemd else _SHELL,
                    *("sh", self.name, str(self.root), INIT, " ".join(self.services)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
                start_new_session=True,
            )
        deadline = time.monotonic() + BORN_S
        while not _listens(self.namespace, self.address):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name}: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)
        if self.systemd:
            # sshd may be there before the other services; what fails in a namespace is no matter.
            whole = self.inside("systemctl", "is-system-running", "--wait")
            subprocess.run(whole, capture_output=True, check=False, timeout=60)

    def kill(self) -> None:
        """Pull the plug: every process of it is gone at once."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
            while pids_in(self.namespace):
                time.sleep(0.01)

    def unplug(self) -> None:
        """Cut its cable: packets are lost without an error."""
        _run("ip", "link", "set", self.port, "down")

    def plug(self) -> None:
        """Mend its cable."""
        _run("ip", "link", "set", self.port, "up")

    def run(self, *command: str) -> str:
        """Run a command on the host; return its output.

        Raises:
            subprocess.CalledProcessError: it failed.
        """
        return subprocess.run(
            self.inside(*command), capture_output=True, text=True, check=True, timeout=60
        ).stdout

    def inside(self, *command: str) -> list[str]:
        """Return the command as the controller starts it in the host's namespaces."""
        assert self.process is not None
        first = _children(self.process.pid)[0]
        return [
            *("nsenter", f"--target={first}", "--mount", "--pid", "--net", "--uts", "--ipc"),
            *("--root", "--wd", *command),
        ]

    def pids(self) -> list[int]:
        """Return the host's processes, as the controller numbers them."""
        return pids_in(self.namespace)

    def files(self) -> Mapping[str, str]:
        """Return the differences from the root that all hosts start from, by path.

        Read from the overlay's upper layer, which holds that and little else.
        """
        upper, base = self.folder / "disk" / "upper", self.base
        found = {}
        for folder, folders, names in os.walk(upper):
            here = Path(folder).relative_to(upper)
            folders[:] = [name for name in folders if str(here / name) not in VOLATILE]
            for name in (*folders, *names):
                path = here / name
                now = _described(upper / path)
                if not (base / path).exists() or _described(base / path) != now:
                    found[str(path)] = now
        return found


@dataclass
class Bed:
    """The hosts, and how Ansible reaches them."""

    folder: Path
    hosts: Mapping[str, BedHost]
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> BedHost:
        return self.hosts[name]

    @property
    def inventory(self) -> Path:
        """An inventory of these hosts, host keys checked."""
        return self.folder / "hosts.yml"


@contextlib.contextmanager
def bed(
    groups: Mapping[str, Sequence[str]],
    *,
    services: Mapping[str, tuple[str, ...]] | None = None,
    sizes: Mapping[str, str] | None = None,
    systemd: Sequence[str] = (),
    packages: Mapping[str, tuple[str, ...]] | None = None,
    cpus: Mapping[str, str] | None = None,
    clocks: Mapping[str, int] | None = None,
) -> Iterator[Bed]:
    """Hosts by group, as in an inventory; all is gone afterwards.

    What a killed test run left behind is removed first.

    Args:
        groups: names of hosts by group (``targets``, ``generators``, ``backends``).
        services: what a host starts when it is switched on.
        sizes: how large a host's disk is (``64m``), where that matters.
        systemd: hosts whose process 1 is systemd; ``services`` are then those of the packages.
        packages: Debian's packages of a host, where they are not those with Nginx.
        cpus: the CPUs of a host (``0-1``), where they are not the generators' (the first) or the
            others' (the last).
        clocks: seconds by which a host's monotonic clock is ahead of ours.
    """
    names = list(dict.fromkeys(name for members in groups.values() for name in members))
    tag = hashlib.sha256(f"{os.getpid()}-{time.monotonic_ns()}".encode()).hexdigest()[:4]
    sweep()
    folder = bed_folder(tag)
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        _key(folder / "id")
        network, bridge = _network(), f"tb{tag}"
        _run("ip", "link", "add", bridge, "type", "bridge")
        stack.callback(quietly, "ip", "link", "del", bridge)
        _run("ip", "addr", "add", f"{network}.1/24", "dev", bridge)
        _run("ip", "link", "set", bridge, "up")
        first, *_, last = 2 * sorted(os.sched_getaffinity(0))
        hosts = {}
        for number, name in enumerate(names):
            # Generator and target on cores of their own, as two machines would be.
            generates = name in groups.get("generators", ())
            host = BedHost(
                name,
                f"{network}.{number + 10}",
                folder / name,
                f"{bridge}-{name}",
                f"{bridge}p{number}",
                (cpus or {}).get(name, str(first if generates else last)),
                (services or {}).get(name, ()),
                systemd=name in systemd,
                packages=(packages or {}).get(name, PACKAGES),
                clock_ahead_s=(clocks or {}).get(name, 0),
            )
            _plug_in(host, bridge, stack, (sizes or {}).get(name, "50%"))
            _identify(host, folder)
            host.start()
            hosts[name] = host
        made = Bed(folder, hosts, groups)
        _inventory(made)
        yield made


def _plug_in(host: BedHost, bridge: str, stack: contextlib.ExitStack, size: str) -> None:
    """Disk, cable and namespace of a host, with their removal."""
    disk = host.folder / "disk"
    disk.mkdir(parents=True)
    host.root.mkdir()
    _run("mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "tmpfs", str(disk))
    stack.callback(quietly, "umount", "--lazy", str(disk))
    (disk / "upper").mkdir()
    (disk / "work").mkdir()
    layers = f"lowerdir={host.base},upperdir={disk / 'upper'},workdir={disk / 'work'}"
    _run("mount", "-t", "overlay", "-o", layers, "overlay", str(host.root))
    stack.callback(quietly, "umount", "--lazy", str(host.root))
    _run("ip", "netns", "add", host.namespace)
    stack.callback(quietly, "ip", "netns", "del", host.namespace)
    _run("ip", "link", "add", host.port, "type", "veth", "peer", "eth0", "netns", host.namespace)
    stack.callback(quietly, "ip", "link", "del", host.port)
    _run("ip", "link", "set", host.port, "master", bridge, "up")
    within = ("ip", "-n", host.namespace)
    _run(*within, "addr", "add", f"{host.address}/24", "dev", "eth0")
    _run(*within, "link", "set", "eth0", "up")
    _run(*within, "link", "set", "lo", "up")
    if host.systemd:
        mounted = host.folder / CGROUP
        mounted.mkdir()
        _run("mount", "-t", "cgroup2", "cgroup2", str(mounted))
        stack.callback(quietly, "umount", "--lazy", str(mounted))
        host.group.mkdir()
        stack.callback(_disband, host.group)
    stack.callback(_end, host)


def _end(host: BedHost) -> None:
    host.kill()
    # A process that was started in the namespace by hand (``run``) and not by process 1.
    for pid in pids_in(host.namespace):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _disband(group: Path) -> None:
    """Remove a control group, whose last processes may still be ending."""
    deadline = time.monotonic() + BORN_S
    while group.exists() and time.monotonic() < deadline:
        quietly("find", str(group), "-depth", "-type", "d", "-delete")


def _identify(host: BedHost, folder: Path) -> None:
    """Host key, the bed's key, and the entry in known_hosts."""
    for old in (host.root / "etc/ssh").glob("ssh_host_*"):
        old.unlink()
    _key(host.root / "etc/ssh/ssh_host_ed25519_key")
    shown = (host.root / "etc/ssh/ssh_host_ed25519_key.pub").read_text().split()
    with (folder / "known_hosts").open("a") as known:
        known.write(f"{host.address} {shown[0]} {shown[1]}\n")
    ssh = host.root / "root/.ssh"
    ssh.mkdir(mode=0o700, exist_ok=True)
    (ssh / "authorized_keys").write_text((folder / "id.pub").read_text())


def _inventory(made: Bed) -> None:
    known = f"-o UserKnownHostsFile={made.folder / 'known_hosts'} -o GlobalKnownHostsFile=/dev/null"
    variables = {
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(made.folder / "id"),
        "ansible_ssh_common_args": known,
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    reported = {
        "all": {"vars": variables},
        **{
            group: {"hosts": {name: {"ansible_host": made[name].address} for name in members}}
            for group, members in made.groups.items()
        },
    }
    made.inventory.write_text(yaml.safe_dump(reported))


def _network() -> str:
    """Return the first three numbers of addresses that nobody here has."""
    taken = subprocess.run(["ip", "-4", "addr"], capture_output=True, text=True, check=True).stdout
    start = os.getpid() % 250
    for step in range(250):
        network = f"10.213.{(start + step) % 250}"
        if f"{network}." not in taken:
            return network
    raise RuntimeError("no network of 10.213.0.0/16 is free")


def _listens(namespace: str, address: str) -> bool:
    reported = subprocess.run(
        ["ip", "netns", "exec", namespace, "ss", "-Hltn", "sport", "=", ":22"],
        capture_output=True,
        text=True,
        check=False,
    )
    return address in reported.stdout or "0.0.0.0:22" in reported.stdout


def _key(path: Path) -> None:
    _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "bed", "-f", str(path))


def _children(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def _described(path: Path) -> str:
    state = path.lstat()
    kind = stat.S_IFMT(state.st_mode)
    if stat.S_ISLNK(state.st_mode):
        content = str(path.readlink())
    elif stat.S_ISREG(state.st_mode):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
    else:
        content = ""
    described = f"{kind:o} {stat.S_IMODE(state.st_mode):o} {state.st_uid}:{state.st_gid} {content}"
    return " ".join((described, *_attributes(path)))


def _attributes(path: Path) -> Iterator[str]:
    """Yield the extended attributes of a file, such as its ACL, without those of the overlay."""
    for name in sorted(os.listxattr(path, follow_symlinks=False)):
        if not name.startswith("trusted.overlay."):
            yield f"{name}={os.getxattr(path, name, follow_symlinks=False).hex()}"


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, env=_environment(), timeout=60)


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"}


def listens(port: int) -> bool:
    """Return whether a program listens on a port of the loopback address."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def until(what: str, holds: Callable[[], bool], patience_s: float) -> None:
    """Wait for something that must come."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if holds():
            return
        time.sleep(0.2)
    pytest.fail(f"{what} did not come within {patience_s:.0f} s")
