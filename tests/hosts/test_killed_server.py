"""A server that somebody kills while it is measured: a real Nginx, killed in a real window."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from tests.hosts.modules import ModuleDeployer
from tests.hosts.nginxes import NginxLab, needs_nginx, nginx_lab
from tests.phases.rig import HAND, STOCK, rig
from tuner.generators.generator import Next, WindowPlan
from tuner.generators.native import NativeGenerator
from tuner.hosts import counters, local, log_end
from tuner.judge.plan import BlockPlan
from tuner.judge.scoring import BASELINE
from tuner.machine.facts import CoreSplit
from tuner.measurement.stalls import StallRule
from tuner.measurement.window import Measurement, RawWindow
from tuner.paths import loadgen_binary
from tuner.phases.bench import Bench
from tuner.phases.block import Arm, BlockSpec, run_block
from tuner.record.model import Block
from tuner.workload.wire import Wire
from tuner.workload.workload import Request, Workload

pytestmark = needs_nginx

Victims = Callable[[Sequence[int]], Sequence[int]]
"""Chooses, from the process ids of an instance, those to kill."""
WORKLOAD = Workload(
    "one page",
    "",
    Wire(),
    (Request(1.0, "GET", "/index.html", (), b"", 200, 3, None),),
    8,
    "poisson",
    2.0,
    (),
    None,
)
SPEC = BlockSpec(
    phase="search",
    index=0,
    arms=(Arm(BASELINE, STOCK), Arm("c1", HAND, 0)),
    plan=BlockPlan(2, 1.0, 0.2, 0.1),
    mode="open",
    rate_per_s=300.0,
    needs_all=False,
)


class Killing:
    """The real generator, while processes of an instance are killed under load."""

    def __init__(
        self, generator: NativeGenerator, victims: Callable[[Sequence[int]], Sequence[int]]
    ):
        self._generator = generator
        self._victims = victims
        self.name, self.instrument, self.refuses = (
            generator.name,
            generator.instrument,
            generator.refuses,
        )

    def run(self, plan: WindowPlan, after: Callable[[RawWindow], Next]) -> None:
        """Run the plan; once c1 has served some requests, kill."""
        [pids] = [endpoint.pids for endpoint in plan.endpoints if endpoint.instance == "c1"]
        done = threading.Event()

        def kill() -> None:
            begun = waits(pids)
            while waits(pids) < begun + 50 and not done.wait(0.002):
                pass
            for pid in self._victims(pids):
                os.kill(pid, signal.SIGKILL)

        thread = threading.Thread(target=kill)
        thread.start()
        try:
            self._generator.run(plan, after)
        finally:
            done.set()
            thread.join()


def waits(pids: Sequence[int]) -> int:
    """Return how often processes have waited; the number grows with every request."""
    return sum(found.waits for found in counters.read(pids).processes.values())


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NginxLab]:
    """A lab with one page."""
    with nginx_lab(tmp_path_factory.mktemp("killed") / "study", ModuleDeployer) as made:
        made.deployer.publish({"index.html": b"one"})
        yield made


@pytest.fixture
def bench(lab: NginxLab) -> Bench:
    """The phases' ports, all of them real."""
    return replace(
        rig().bench(),
        deployer=lab.deployer,
        make_instance=lambda label, _, port: lab.spec(label, port),
        free_ports=local.free_ports,
        workload=WORKLOAD,
        rule=None,
        read_counters=counters.read,
        read_log=log_end.log_end,
    )


def run(bench: Bench, victims: Victims) -> Block:
    """Run a block in which these processes of ``c1`` are killed."""
    cpus = sorted(os.sched_getaffinity(0))
    cores = CoreSplit(tuple(cpus[:1]), tuple(cpus[-1:]), (), shared=len(cpus) == 1)
    generator = NativeGenerator(loadgen_binary(), cores, StallRule())
    return run_block(replace(bench, generator=Killing(generator, victims)), SPEC)


def of_c1(block: Block) -> Measurement:
    """Return the first invalid window of the instance that is killed."""
    return next(w for w in block.windows if w.instance == "c1" and not w.valid)


def test_a_killed_server_spoils_its_block_and_is_no_bad_configuration(bench: Bench) -> None:
    """The block is invalid and ends at once; the second time in a row it is the configuration's."""
    first = run(bench, lambda pids: pids)
    window = of_c1(first)
    assert first.state == "invalid"
    assert first.reason.startswith("c1: the server's ")
    assert not window.bad
    assert window is first.windows[-1]
    second = run(bench, lambda pids: pids)
    assert of_c1(second).bad
    assert "in 2 deployments of this configuration" in of_c1(second).invalid[0]


def test_a_killed_worker_makes_its_window_invalid_with_the_signal(bench: Bench) -> None:
    """Nginx starts another one and says so in its log; the block goes on."""
    block = run(bench, lambda pids: pids[1:2])
    window = of_c1(block)
    assert window.invalid[0].endswith("was ended by SIGKILL in the window")
    assert not window.bad
    assert len([w for w in block.windows if w.instance == "c1"]) == 2


def test_a_server_that_lives_is_not_said_to_be_gone(bench: Bench) -> None:
    """Neither here nor after one that was killed."""
    block = run(bench, lambda _: ())
    assert not [words for w in block.windows for words in w.invalid if "process" in words]
