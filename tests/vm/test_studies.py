"""Whole studies in machines of other shapes: their figures mean nothing, what they do does."""

from __future__ import annotations

from tests.vm.conftest import Boot
from tests.vm.machine import ACCELERATOR
from tests.vm.test_shapes import TUNER

PAIRS = "two threads of one core (CPUs 0-1)"
QUOTA = "the CPU quota of 0.5 CPUs of the control group /half throttled it"


def study(name: str, *further: str) -> str:
    """Return the commands of a short study, with its terminal in a file and its exit code.

    Its CPUs are virtual and few here, so any outcome will do.
    """
    options = ("--server", "nginx", "--time", "20s", "--name", name, *further)
    return f"code=0; {TUNER} optimize {' '.join(options)} >/mnt/terminal 2>&1 || code=$?\n"


# Processors in software are so slow that a study may end without a valid window.
_WORST = 1 if ACCELERATOR == "kvm" else 3
REPORT = f"""
test $code -le {_WORST} || {{ cat /mnt/terminal; exit $code; }}
cp studies/vm/report.md /mnt/
"""


def test_a_study_of_two_sockets_of_two_cores_of_two_threads(boot: Boot) -> None:
    """From preflight to report, on the placement of the rules."""
    ended = boot(study("vm") + REPORT, "8,sockets=2,cores=2,threads=2")
    assert ended.code == 0, ended.output
    report = (ended.results / "report.md").read_text()
    assert "generator 0, server 2-5, backend 6-7" in report


def test_a_study_on_two_threads_of_one_core_says_so(boot: Boot) -> None:
    """Before it starts, and in its report."""
    ended = boot(study("vm", "--rate", "200") + REPORT, "2,cores=1,threads=2")
    assert PAIRS in (ended.results / "terminal").read_text(), ended.output
    assert ended.code == 0, ended.output
    assert PAIRS in (ended.results / "report.md").read_text()


def test_a_quota_of_half_a_cpu_is_the_reason_of_invalid_windows(boot: Boot) -> None:
    """In version 2 of control groups: no window counts, and the message names the group."""
    quota = """
echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/half
echo '50000 100000' >/sys/fs/cgroup/half/cpu.max
echo $$ >/sys/fs/cgroup/half/cgroup.procs
"""
    ended = boot(quota + study("vm") + "echo $code", "4,cores=4")
    shown = (ended.results / "terminal").read_text()
    assert "the control group /half has a CPU quota of 0.5 CPUs" in shown
    assert QUOTA in shown, shown
    assert ended.output.endswith("3\n"), shown
