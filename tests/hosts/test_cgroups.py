"""CPU quotas of control groups, as files of both versions, and a real one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.machine.machines import write
from tuner.hosts.cgroups import quota, throttling
from tuner.hosts.counters import read

V1 = Path("/sys/fs/cgroup/cpu")
MOUNTS_V1 = "31 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct"
MOUNTS_V2 = "32 30 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate"


def test_version_2_has_one_file(tmp_path: Path) -> None:
    """The smallest quota on the way up limits the process; "max" is none."""
    top = "sys/fs/cgroup"
    write(
        tmp_path,
        {
            "proc/self/mountinfo": MOUNTS_V2,
            "proc/self/cgroup": "0::/shop/web",
            "proc/7/cgroup": "0::/shop/web",
            f"{top}/shop/web/cpu.max": "max 100000",
            f"{top}/shop/cpu.max": "150000 100000",
            f"{top}/shop/cpu.stat": "nr_periods 9\nnr_throttled 4\nthrottled_usec 70000",
        },
    )
    assert quota(str(tmp_path)) == {"group": "/shop", "cpus": 1.5}
    assert throttling([7], str(tmp_path)) == {
        "/shop": {"quota_cpus": 1.5, "periods": 4, "withheld_s": pytest.approx(0.07)}
    }


def test_version_1_has_quota_and_period(tmp_path: Path) -> None:
    """Minus one is no quota; throttled time is in nanoseconds."""
    top = "sys/fs/cgroup/cpu,cpuacct"
    write(
        tmp_path,
        {
            "proc/self/mountinfo": MOUNTS_V1,
            "proc/self/cgroup": "4:memory:/x\n3:cpu,cpuacct:/a/b",
            "proc/7/cgroup": "3:cpu,cpuacct:/a/b",
            f"{top}/a/b/cpu.cfs_quota_us": "50000",
            f"{top}/a/b/cpu.cfs_period_us": "100000",
            f"{top}/a/b/cpu.stat": "nr_periods 9\nnr_throttled 2\nthrottled_time 30000000",
            f"{top}/a/cpu.cfs_quota_us": "-1",
            f"{top}/a/cpu.cfs_period_us": "100000",
        },
    )
    assert quota(str(tmp_path)) == {"group": "/a/b", "cpus": 0.5}
    found = throttling([7, 8], str(tmp_path))
    assert found == {"/a/b": {"quota_cpus": 0.5, "periods": 2, "withheld_s": pytest.approx(0.03)}}


def test_a_container_sees_its_own_group_as_the_root(tmp_path: Path) -> None:
    """Docker mounts the container's group; its path is the host's without a namespace."""
    mount = "31 30 0:29 /docker/4f2 /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu"
    files = {
        "proc/self/mountinfo": mount,
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
    }
    for name, path in (("host", "/docker/4f2"), ("own", "/")):
        write(tmp_path / name, {**files, "proc/self/cgroup": f"3:cpu:{path}"})
        assert quota(str(tmp_path / name)) == {"group": "/", "cpus": 2.0}
    write(tmp_path / "other", {**files, "proc/self/cgroup": "3:cpu:/system.slice"})
    assert quota(str(tmp_path / "other")) is None


def test_without_control_groups_there_is_no_quota(tmp_path: Path) -> None:
    """Neither files nor mounts."""
    assert quota(str(tmp_path)) is None
    assert throttling([1], str(tmp_path)) == {}


@pytest.fixture
def scarce() -> Iterator[Path]:
    """A control group with a twentieth of a CPU in periods of 20 ms; it is removed at the end."""
    group = V1 / f"tuner-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text("20000")
        (group / "cpu.cfs_quota_us").write_text("1000")
    except OSError as error:
        pytest.skip(f"no control group of version 1 can be made here: {error}")
    yield group
    group.rmdir()


@pytest.mark.root
def test_a_real_quota_is_seen_to_throttle(scarce: Path) -> None:
    """A process that spins waits for its next periods, by the kernel's own count."""
    program = (
        "import time; input(); end = time.process_time() + 0.01\n"
        "while time.process_time() < end: pass\n"
        "print(1, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        (scarce / "cgroup.procs").write_text(str(process.pid))
        assert quota(pid=str(process.pid)) == {"group": f"/{scarce.name}", "cpus": 0.05}
        before = read([process.pid]).throttling[f"/{scarce.name}"]
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
        after = read([process.pid]).throttling[f"/{scarce.name}"]
        process.stdin.write("\n")
        process.stdin.flush()
        process.wait()
    assert after.quota_cpus == 0.05
    assert after.periods - before.periods >= 2
    assert after.withheld_s > before.withheld_s
