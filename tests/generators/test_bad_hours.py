"""A host of bad hours on demand: what the generator's ticker sees of it, and how it ends."""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tuner.errors import DefinitionError, HostError
from tuner.paths import loadgen_binary
from tuner.testing import bad_hours as module
from tuner.testing.bad_hours import BadHours, Schedule, bad_hours, main, throttled

CORE = max(os.sched_getaffinity(0))
# The calling process ends by SIGKILL as soon as the cores are stalled.
PARENT = """
import os, signal
from tuner.testing.bad_hours import bad_hours
with bad_hours(({core},)) as running:
    print(running.processes[{core}].pid, flush=True)
    signal.pause()
"""


def allowed() -> bool:
    """Return True if this process may have real-time priority."""
    ask = f"from tuner.testing.bad_hours import prepare; prepare({CORE})"
    return (
        subprocess.run([sys.executable, "-c", ask], capture_output=True, check=False).returncode
        == 0
    )


realtime = pytest.mark.skipif(not allowed(), reason="real-time priority is not allowed here")


def watched(stalls: int, schedule: Schedule) -> tuple[BadHours, list[tuple[int, int]]]:
    """Return the stalls made on a core, and the gaps that the generator's ticker saw meanwhile."""
    command = [str(loadgen_binary()), "ticker", "--cpus", str(CORE), "--gap", "200"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as ticker:
        assert ticker.stdout is not None
        assert json.loads(ticker.stdout.readline())["type"] == "ticker"
        with bad_hours((CORE,), schedule, stalls=stalls) as running:
            running.wait()
        # Its standard input ends, and it writes what is left.
        lines = [json.loads(line) for line in ticker.communicate()[0].splitlines()]
    return running, [tuple(line["monotonic_ns"]) for line in lines if line["type"] == "stall"]


@pytest.mark.root
@realtime
def test_the_ticker_sees_each_stall() -> None:
    """A gap of the ticker covers each stall but for the ticker's period, half a millisecond."""
    running, gaps = watched(60, Schedule(seed=7))
    (core,) = running.stolen
    assert len(core.spans_ns) == 60
    unseen = [
        (start, end)
        for start, end in core.spans_ns
        if end - start > 1_000_000
        and sum(max(0, min(end, e) - max(start, s)) for s, e in gaps) < 0.4 * (end - start)
    ]
    assert unseen == []
    seen_s = sum(end - start for start, end in gaps) / 1e9
    assert seen_s > 0.5 * core.total_s


@pytest.mark.root
@realtime
def test_stalls_have_the_lengths_of_the_schedule() -> None:
    """None is shorter; the same seed gives the same lengths."""
    schedule = Schedule(seed=5)
    with bad_hours((CORE,), schedule, stalls=20) as running:
        running.wait()
    planned = [length for _, length in itertools.islice(schedule.stalls(CORE), 20)]
    made = [(end - start) / 1e9 for start, end in running.stolen[0].spans_ns]
    assert all(real >= length - 1e-6 for real, length in zip(made, planned, strict=True))


def test_the_schedule_is_like_the_measured_one() -> None:
    """60 stalls per second of about 1 ms, some of 10 ms, none longer: 8 % of the core."""
    schedule = Schedule(seed=3)
    drawn = list(itertools.islice(schedule.stalls(0), 20_000))
    lengths = sorted(length for _, length in drawn)
    seconds = sum(gap + length for gap, length in drawn)
    assert len(drawn) / seconds == pytest.approx(60, rel=0.05)
    assert lengths[10_000] == pytest.approx(0.001, rel=0.05)
    assert lengths[-1] == 0.010
    assert sum(length > 0.005 for length in lengths) > 100
    assert sum(lengths) / seconds == pytest.approx(schedule.share, rel=0.05)
    assert schedule.share == pytest.approx(0.079, abs=0.002)


def test_a_seed_and_a_core_have_a_schedule_of_their_own() -> None:
    """The same seed and core give the same stalls."""

    def first(seed: int, cpu: int) -> list[tuple[float, float]]:
        return list(itertools.islice(Schedule(seed=seed).stalls(cpu), 3))

    assert first(1, 0) == first(1, 0)
    assert first(1, 0) != first(1, 1)
    assert first(1, 0) != first(2, 0)


def test_more_than_the_whole_core_is_refused() -> None:
    """The message states the stalls and their share."""
    with pytest.raises(DefinitionError, match=r"900 stalls of 1\.\d+ ms per second take 119%"):
        Schedule(per_s=900)


def test_a_limit_of_the_kernel_below_the_share_is_a_warning(tmp_path: Path) -> None:
    """The kernel cuts real-time processes short there; -1 means no limit (sched(7))."""
    (tmp_path / "sched_rt_period_us").write_text("1000000\n")
    (tmp_path / "sched_rt_runtime_us").write_text("950000\n")
    assert throttled(Schedule(), tmp_path) == ""
    (tmp_path / "sched_rt_runtime_us").write_text("50000\n")
    assert "limits real-time processes to 5% of a core" in throttled(Schedule(), tmp_path)
    (tmp_path / "sched_rt_runtime_us").write_text("-1\n")
    assert throttled(Schedule(), tmp_path) == ""
    assert throttled(Schedule(), tmp_path / "missing") == ""


def test_without_the_right_to_real_time_priority_it_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The message states the reason and three ways out."""

    def deny(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None)
    monkeypatch.setattr(os, "sched_setscheduler", deny)
    with pytest.raises(HostError, match=r"allowed here \(Operation not permitted\); run as root"):
        module.prepare(CORE)


def test_a_core_that_is_not_there_is_refused() -> None:
    """The process of the core reports it, and nothing remains."""
    with pytest.raises(HostError, match="core 100000 cannot be used"), bad_hours((100_000,)):
        pytest.fail("it started")


@pytest.mark.root
@realtime
def test_the_processes_end_with_their_parent() -> None:
    """``kill -9`` of the parent leaves no process behind that takes a core away."""
    script = PARENT.format(core=CORE)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        thief = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
        ended, _, _ = select.select([thief], [], [], 60)
        os.close(thief)
    assert ended
    assert parent.returncode == -signal.SIGKILL


@pytest.mark.root
@realtime
def test_a_command_runs_beneath_it() -> None:
    """The exit code is the command's; the share and the stalls are printed."""
    command = [sys.executable, "-c", "raise SystemExit(4)"]
    done = CliRunner().invoke(main, ["--cpus", str(CORE), "--", *command])
    assert done.exit_code == 4
    assert f"60 stalls/s take 7.9% of core {CORE} (seed 1)" in done.stderr
    assert f"core {CORE}: " in done.stderr


@pytest.mark.root
@realtime
def test_a_command_that_does_not_exist_is_an_error() -> None:
    """Its name is in the message."""
    done = CliRunner().invoke(main, ["--cpus", str(CORE), "--", "no-such-command"])
    assert done.exit_code == 2
    assert "no-such-command cannot be started" in done.stderr
