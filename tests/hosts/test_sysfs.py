"""The topology as the kernel shows it: of this machine, and of real ones laid out as files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.machine.machines import NAMES, laid_out, machine, write
from tuner.hosts.agent import Agent
from tuner.hosts.inventory import Host
from tuner.hosts.sysfs import cpu_list, topology
from tuner.machine.topology import Cpu, Topology, topology_of

CPU = "sys/devices/system/cpu"


@pytest.mark.parametrize("name", NAMES)
def test_a_real_machine_is_read(tmp_path: Path, name: str) -> None:
    """Cores, sockets, nodes, caches, capacities and offline CPUs are those of the machine."""
    expected = machine(name).topology
    laid_out(expected, tmp_path)
    assert topology_of(topology(str(tmp_path))) == expected


@pytest.mark.parametrize("name", ["laptop-2-cores", "xeon-4-nodes", "power7-64"])
def test_old_kernels_have_masks_alone(tmp_path: Path, name: str) -> None:
    """Masks of any width say the same as lists."""
    expected = machine(name).topology
    laid_out(expected, tmp_path, masks=True)
    assert topology_of(topology(str(tmp_path))).cores == expected.cores


def test_this_machine_is_read() -> None:
    """The CPUs that this process may use are among those that are online."""
    found = topology_of(topology())
    assert set(found.allowed) == os.sched_getaffinity(0)
    assert set(found.allowed) <= {cpu.id for cpu in found.cpus}


def test_another_host_is_read_by_the_same_code(tmp_path: Path) -> None:
    """Through the agent, as over SSH."""
    agent = Agent(Host("here", {"ansible_connection": "local"}), str(tmp_path / "socket"))
    try:
        there, here = agent.topology(), topology_of(topology())
        # Rates since the boot change between two looks.
        assert replace(there, interrupts=()) == replace(here, interrupts=())
        assert [each.irq for each in there.interrupts] == [each.irq for each in here.interrupts]
    finally:
        agent.close()


def test_without_any_file_the_rest_is_unknown(tmp_path: Path) -> None:
    """Only the number of CPUs is known then, from Python itself."""
    found = topology_of(topology(str(tmp_path)))
    assert len(found.cpus) == os.cpu_count()
    assert found.cpus[0] == Cpu(0, 0)
    assert found.allowed == tuple(cpu.id for cpu in found.cpus)
    assert (found.quota, found.governor, found.turbo, found.irqbalance) == (None, "", None, False)


def test_without_sysfs_the_allowed_cpus_are_all(tmp_path: Path) -> None:
    """A container may hide /sys."""
    write(tmp_path, {"proc/self/status": "Cpus_allowed_list:\t2-3"})
    assert topology_of(topology(str(tmp_path))) == Topology((Cpu(2, 2), Cpu(3, 3)), (2, 3))


def test_intels_small_cores_have_a_list_of_their_own(tmp_path: Path) -> None:
    """Their nominal frequencies count too, where the kernel has no capacities."""
    write(
        tmp_path,
        {
            f"{CPU}/online": "0-3",
            **{f"{CPU}/cpu{i}/cpufreq/base_frequency": "1900000" for i in (0, 1)},
            f"{CPU}/cpu2/cpufreq/base_frequency": "1400000",
            "sys/devices/cpu_atom/cpus": "3",
        },
    )
    found = topology_of(topology(str(tmp_path)))
    assert [cpu.capacity for cpu in found.cpus] == [1024, 1024, 755, None]
    assert found.small == {2, 3}


def test_frequency_settings_and_irqbalance_are_read(tmp_path: Path) -> None:
    """Different settings are listed."""
    write(
        tmp_path,
        {
            f"{CPU}/online": "0-1",
            f"{CPU}/cpu0/cpufreq/scaling_governor": "powersave",
            f"{CPU}/cpu1/cpufreq/scaling_governor": "performance",
            f"{CPU}/cpu0/cpufreq/energy_performance_preference": "balance_power",
            f"{CPU}/cpufreq/boost": "1",
            f"{CPU}/isolated": "1",
            "proc/812/comm": "irqbalance",
        },
    )
    found = topology_of(topology(str(tmp_path)))
    assert found.governor == "performance, powersave"
    assert found.energy_preference == "balance_power"
    assert (found.turbo, found.irqbalance, found.isolated) == (True, True, (1,))


@pytest.mark.parametrize(
    ("affinity", "cpuset", "allowed"),
    [
        ("0-2", "0-3", (0, 1, 2, 3)),
        ("0-1", "0-3", (0, 1)),
        ("0-2", "0-2", (0, 1, 2)),
        ("0-2", "", (0, 1, 2)),
    ],
    ids=["as begun", "the user's choice", "another set", "an unknown set"],
)
def test_a_process_may_use_isolated_cpus_unless_the_user_or_its_set_excludes_them(
    tmp_path: Path, affinity: str, cpuset: str, allowed: tuple[int, ...]
) -> None:
    """The kernel begins all processes on the CPUs that are not isolated."""
    write(
        tmp_path,
        {
            f"{CPU}/online": "0-3",
            f"{CPU}/isolated": "3",
            "proc/self/status": f"Cpus_allowed_list:\t{affinity}",
            "proc/self/cgroup": "0::/study",
            "proc/self/mountinfo": "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
            "sys/fs/cgroup/study/cpu.max": "max 100000",
            "sys/fs/cgroup/cpuset.cpus.effective": cpuset,
        },
    )
    assert topology_of(topology(str(tmp_path))).allowed == allowed


def test_a_last_cache_that_leaves_out_its_own_cpu_is_unknown(tmp_path: Path) -> None:
    """Some kernels list caches wrongly; a private first level is no shared cache either."""
    index = f"{CPU}/cpu0/cache"
    write(
        tmp_path,
        {
            f"{CPU}/online": "0-1",
            f"{index}/index0/level": "1",
            f"{index}/index0/shared_cpu_list": "0",
            f"{index}/index3/level": "3",
            f"{index}/index3/shared_cpu_list": "1",
        },
    )
    assert topology_of(topology(str(tmp_path))).cpus[0].cache is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0-2,5\n", [0, 1, 2, 5]), ("", []), ("(null)", []), ("3-1", [])],
)
def test_lists_that_are_none_are_empty(text: str, expected: list[int]) -> None:
    """The kernel has several ways to write nothing."""
    assert cpu_list(text) == expected
