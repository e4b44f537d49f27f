"""One block: deploy its instances side by side, measure them in random order, store every window.

If only one instance can run at a time (with settings of the whole host), each is started anew for
each of its windows, also in random order.

A block is a randomised complete block: every round measures every instance once, in an order
drawn from the study's seed and the block's number, so that the comparison of instances within a
round is fair by design under any drift of the host (Fisher 1935; Abedi and Brecht, ICPE 2017).
Ports, folders, and the order of starting and connecting follow from slots, which are drawn too.
"""

from __future__ import annotations

import contextlib
import math
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tuner.errors import (
    ChangedServerError,
    HostError,
    InstrumentError,
    Interrupted,
    LeaseLostError,
)
from tuner.generators.generator import Endpoint, Next, Slices, WindowPlan, WindowSpec
from tuner.goals.capacity import next_rate
from tuner.goals.constraint import Constraint
from tuner.hosts.deployer import InstanceSpec, InstanceState
from tuner.judge.arms import excluded_share
from tuner.judge.plan import BlockPlan
from tuner.judge.rounds import good_rounds, least_effective, spoilt_rounds
from tuner.judge.scoring import BASELINE, window_id
from tuner.measurement import core_wait, quota
from tuner.measurement.error_log import complaints, signal_of
from tuner.measurement.instrument import Mode
from tuner.measurement.measuring import measure
from tuner.measurement.resources import Resources
from tuner.measurement.stall_cause import likely_work
from tuner.measurement.window import Measurement, RawWindow
from tuner.phases.bench import Bench, Polling
from tuner.phases.resource_watch import ResourceWatch
from tuner.record.model import Block, BlockInstance, BlockState, Phase
from tuner.space.configuration import Configuration
from tuner.stats.diagnostics import LEAST_STALLED, unequal_stalls_p
from tuner.stats.slots import slots_of
from tuner.stats.words import p_in_words
from tuner.store.several_hosts import LEASE_S

Drop = Callable[[Sequence[Measurement]], Mapping[str, str]]
"""Windows so far → instances that leave the block, with the reason."""
Witness = Callable[[RawWindow], None]
"""Receives each window with its samples, before it is judged."""


UNEQUAL_STALLS = 0.01
"""Level of the test for stalls that depend on the arm, which make a block invalid."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One planned instance of a block."""

    label: str
    configuration: Configuration
    trial: int | None = None
    program: str = ""
    """Path of its server's program, if arms of one server have different ones."""


@dataclass(frozen=True, slots=True)
class BlockSpec:
    """A block before it runs."""

    phase: Phase
    index: int
    arms: tuple[Arm, ...]
    plan: BlockPlan
    mode: Mode
    rate_per_s: float
    needs_all: bool
    """Every round must be valid for all arms; else a block is invalid only if its baseline is.

    A round with an invalid window is measured again, whole, at the block's end; a block that
    would need more than a quarter of its rounds again is invalid. A block with fewer effective
    samples than planned, since the host got worse, has up to twice as many rounds.
    """
    seek: Constraint | None = None
    """The latency limit of a capacity search; ``rate_per_s`` is then each arm's first rate."""
    may_lack: frozenset[str] = frozenset()
    """Labels of arms that may be missing even so, because the server may refuse them."""
    patient: bool = False
    """True if rounds that the host spoilt are measured again, up to twice as many as planned;
    otherwise they are limited like other invalid ones."""
    halts: bool = False
    """True if idle CPUs halt in this block even where they poll in the others."""

    @property
    def allowed_bad(self) -> int:
        """Rounds that may be measured again."""
        return math.ceil(self.plan.rounds / 4) if self.needs_all else 0

    @property
    def spare_rounds(self) -> int:
        """Rounds by which the block may be longer, for bad ones or for too few samples."""
        if self.patient:
            return 2 * self.plan.rounds
        grows = self.needs_all and self.plan.effective > 0
        return self.plan.rounds if grows else self.allowed_bad


def keep_all(_: Sequence[Measurement]) -> Mapping[str, str]:
    """Return no instances to drop: the rule of blocks that keep all."""
    return {}


def see_nothing(_: RawWindow) -> None:
    """Ignore a window."""


def run_block(
    bench: Bench, spec: BlockSpec, drop: Drop = keep_all, witness: Witness = see_nothing
) -> Block:
    """Run a block once, and store it in the record with any outcome.

    Raises:
        Interrupted: the user stopped; the block's windows so far are in the record.
        HostError, InstrumentError: the block could not be run at all.
        ChangedServerError: a server runs another program than in earlier blocks.
        LeaseLostError: another worker took over the block.
        ClaimedError: another worker measures one of its trials.
    """
    plan = spec.plan
    silence_s = plan.window_s + plan.first_warmup_s + plan.warmup_s
    planned = _planned(spec, bench.seed)
    number = bench.store.open_block(
        spec.phase, spec.index, bench.seed, planned, lease_s=LEASE_S + 3 * silence_s
    )
    run = _Run(bench, spec, number, planned, drop=drop, witness=witness)
    try:
        run.deploy()
        run.measure()
    except (Interrupted, KeyboardInterrupt):
        with contextlib.suppress(LeaseLostError):
            run.close("failed", "interrupted")
        raise
    except LeaseLostError:
        # Another worker ended it with its windows so far.
        raise
    except (HostError, InstrumentError, ChangedServerError) as error:
        run.close("failed", str(error))
        raise
    return run.close(*run.outcome())


class _Run:
    """A block in progress: the one mutable thing in the phases."""

    def __init__(
        self,
        bench: Bench,
        spec: BlockSpec,
        number: int,
        planned: Sequence[BlockInstance],
        *,
        drop: Drop,
        witness: Witness,
    ) -> None:
        self._bench = bench
        self._spec = spec
        self._number = number
        self._drop = drop
        self._witness = witness
        self._started = bench.clock()
        self._instances = {i.instance: i for i in planned}
        self._logs: dict[str, str] = {}
        """Error log of each instance."""
        self._endpoints: list[Endpoint] = []
        """In the order of slots, in which the generator connects."""
        self._alone: dict[str, tuple[InstanceSpec, int]] = {}
        """Instance and port for each label, if only one can run at a time."""
        self._windows: list[Measurement] = []
        self._stopped = False
        self._dead = ""
        """Why the block cannot continue: a server ended, not due to its configuration."""
        self._watch = ResourceWatch(bench.read_counters, bench.generator, bench.backend_pids)

    def deploy(self) -> None:
        ports = self._bench.free_ports(len(self._spec.arms))
        arms = sorted(self._spec.arms, key=lambda arm: self._instances[arm.label].slot or 0)
        specs = [
            replace(
                self._bench.of_program(arm.program).make_instance(
                    _folder(slot), arm.configuration, port
                ),
                instance=arm.label,
            )
            for slot, (arm, port) in enumerate(zip(arms, ports, strict=True))
        ]
        self._logs = {spec.instance: spec.error_log for spec in specs if spec.error_log}
        if self._bench.exclusive:
            self._alone = {
                spec.instance: (spec, port) for spec, port in zip(specs, ports, strict=True)
            }
            return
        states = self._bench.deployer.deploy(specs)
        for spec, port in zip(specs, ports, strict=True):
            self._begun(states[spec.instance], port)

    def _begun(self, state: InstanceState, port: int) -> Endpoint | None:
        """Record the state of an instance; return its endpoint if it is live."""
        label = state.instance
        self._instances[label] = replace(
            self._instances[label], state=state.state, message=state.message
        )
        if state.state == "failed":
            raise HostError(f"{label} did not start: {state.message}")
        if state.state == "refused":
            if label == BASELINE:
                raise HostError(f"the server refuses the baseline itself: {state.message}")
            return None
        self._runs_the_same(state.code)
        endpoint = Endpoint(label, f"{self._bench.address}:{port}", state.pids)
        self._endpoints.append(endpoint)
        return endpoint

    def _runs_the_same(self, code: Mapping[str, str]) -> None:
        """Note the files that a server executes.

        Raises:
            ChangedServerError: some of them had another content in earlier blocks.
        """
        known = self._bench.code
        changed = sorted(path for path in code if known.get(path, code[path]) != code[path])
        if changed:
            raise ChangedServerError(changed)
        if code.keys() - known.keys():
            known.update(code)
            self._bench.store.set_code(known)

    def measure(self) -> None:
        started = self._alone or {endpoint.instance for endpoint in self._endpoints}
        # Orders are drawn from the arms as they are listed, whatever their slots.
        live = [arm.label for arm in self._spec.arms if arm.label in started]
        if (live in ([], [BASELINE]) and len(self._spec.arms) > 1) or self._lacking():
            return
        random = np.random.default_rng([self._bench.seed, self._number])
        rounds = [
            self._order(live, random, round_)
            for round_ in range(self._spec.plan.rounds + self._spec.spare_rounds)
        ]
        if self._slices:
            self._run_in_slices([window for round_ in rounds for window in round_])
            return
        if self._spec.seek is None:
            self._run(tuple(window for round_ in rounds for window in round_))
            return
        for round_ in rounds:
            # The next rates depend on earlier windows, so every round is a separate plan.
            self._run(self._at_next_rates(round_, self._spec.seek))
            if self._stopped:
                return

    def _run(self, windows: tuple[WindowSpec, ...]) -> None:
        if not self._alone:
            there = {label for window in windows for label in window.instances}
            endpoints = tuple(e for e in self._endpoints if e.instance in there)
            plan = WindowPlan(self._bench.workload, endpoints, windows)
            self._offer(plan, self._after)
            return
        for window in windows:
            if not self._stopped and window.instance in self._staying:
                self._run_alone(window)

    def _offer(self, plan: WindowPlan, after: Callable[[RawWindow], Next]) -> None:
        """Run a plan, while idle CPUs of the serving host poll or halt."""
        with self._polling() if self._polling is not None else contextlib.nullcontext():
            self._watch.begin(plan)
            self._bench.generator.run(plan, after)

    @property
    def _polling(self) -> Polling | None:
        return None if self._spec.halts else self._bench.polling

    @property
    def _slices(self) -> bool:
        """True if the instances share every round in slices."""
        plan = self._spec.plan
        return bool(plan.slice_ms) and not self._alone and self._spec.seek is None

    @property
    def _freezes(self) -> bool:
        """True if servers are stopped while it is not their turn."""
        return self._bench.freezes and all(endpoint.pids for endpoint in self._endpoints)

    def _run_in_slices(self, rounds: Sequence[WindowSpec]) -> None:
        """Measure rounds that all instances share; one that leaves is not in the later ones."""
        left = list(rounds)
        while left and not self._stopped:
            staying = self._staying
            self._run(tuple(_among(window, staying) for window in left))
            measured = {window.round for window in self._windows}
            left = [window for window in left if int(window.window_id) not in measured]
            if self._staying == staying:
                # The generator has offered all that there was.
                return

    def _run_alone(self, window: WindowSpec) -> None:
        """Measure one window of an instance that is started alone for it."""
        spec, port = self._alone[window.instance]
        endpoint = self._begun(self._bench.deployer.switch(spec), port)
        if endpoint is not None:
            plan = WindowPlan(self._bench.workload, (endpoint,), (window,))
            self._offer(plan, self._after_alone)

    def _order(
        self, live: Sequence[str], random: np.random.Generator, round_: int
    ) -> tuple[WindowSpec, ...]:
        """Return one round in random order; all its windows share the arrival schedule's seed.

        In slices a round is one window; the generator orders its slices by the same seed.
        Common random numbers (Law, Simulation Modeling and Analysis, ch. 11): within a round
        every instance gets the same arrivals, in slices those of each set.
        """
        spec = self._spec
        fresh = round_ == 0 or spec.seek is not None or self._bench.exclusive
        seed = int(random.integers(2**53))
        if self._slices:
            order = tuple(live[place] for place in random.permutation(len(live)))
            window = WindowSpec(
                window_id=f"{round_:02d}",
                instance="",
                mode=spec.mode,
                rate_per_s=spec.rate_per_s,
                seed=seed,
                warmup_s=spec.plan.first_warmup_s if fresh else spec.plan.warmup_s,
                duration_s=spec.plan.window_s,
                slices=Slices(
                    order,
                    spec.plan.slice_ms,
                    freeze=self._freezes,
                    same_arrivals=self._bench.same_arrivals and spec.mode == "open",
                ),
            )
            return (window,)
        return tuple(
            WindowSpec(
                window_id=window_id(round_, live[place]),
                instance=live[place],
                mode=spec.mode,
                rate_per_s=spec.rate_per_s,
                seed=seed,
                warmup_s=spec.plan.first_warmup_s if fresh else spec.plan.warmup_s,
                duration_s=spec.plan.window_s,
            )
            for place in random.permutation(len(live))
        )

    def _at_next_rates(
        self, round_: Sequence[WindowSpec], slo: Constraint
    ) -> tuple[WindowSpec, ...]:
        """Return a round with the next rate of each remaining instance."""
        return tuple(
            replace(
                window,
                rate_per_s=next_rate(
                    [w for w in self._windows if w.instance == window.instance],
                    slo,
                    self._spec.rate_per_s,
                ),
            )
            for window in round_
            if window.instance in self._staying
        )

    def _after(self, raw: RawWindow) -> Next:
        self._witness(raw)
        used = self._watch.end(raw.window_id, raw.instance)
        answer = self._judge(raw, used)
        self._watch.go_on()
        return answer

    def _after_alone(self, raw: RawWindow) -> Next:
        """Judge the only window of a plan; instances that leave are not in this plan."""
        self._after(raw)
        return Next()

    def _judge(self, raw: RawWindow, used: Resources | None) -> Next:
        window = measure(raw, self._bench.rule, self._bench.gates, self._bench.workload.wire)
        window = replace(window, resources=used, polled=self._polling is not None)
        throttled = quota.reason(window)
        if throttled:
            # The quota may be the reason for errors and for a missed rate, too.
            window = _with_cause(window, throttled)
        if not window.valid:
            waited = core_wait.reason(window)
            more = (*self._log_excerpt(window), *([waited] if waited else []))
            window = replace(window, invalid=(*window.invalid, *more))
        window = self._survived(window)
        self._windows.append(window)
        self._bench.store.add_window(self._number, window)
        windows = len(self._spec.arms) * self._spec.plan.rounds
        self._bench.progress.window(
            f"window {len(self._windows)} of {windows}{_stalled(self._windows)}"
        )
        leaving = {
            label: reason
            for label, reason in self._drop(self._windows).items()
            if self._instances[label].state == "live"
        }
        for label, reason in leaving.items():
            self._instances[label] = replace(
                self._instances[label], state="dropped", message=reason
            )
        alone = len(self._spec.arms) > 1 and self._staying == {BASELINE}
        self._stopped = alone or self._enough() or bool(self._dead)
        return Next(drop=tuple(leaving), stop=self._stopped)

    def _survived(self, window: Measurement) -> Measurement:
        """Return the window, invalid if one of the server's processes ended in it.

        The end of a server counts as the host's fault at first: a kill, or a lack of memory. After
        an end in a second deployment the configuration counts as bad.
        """
        words = self._ended(window)
        if not words:
            return window
        digest = self._instances[window.instance].digest
        program = next(a.program for a in self._spec.arms if a.label == window.instance)
        deaths = self._bench.deaths.setdefault(f"{digest} {program}".rstrip(), set())
        deaths.add((self._number, window.window_id if self._alone else ""))
        if len(deaths) > 1:
            again = f"{words}; it did in {len(deaths)} deployments of this configuration"
            return _with_cause(window, again, bad=True)
        if self._watch.is_dead(window.instance) and not self._alone:
            self._dead = f"{window.instance}: {words}"
        return _with_cause(window, words)

    def _ended(self, window: Measurement) -> str:
        """Return how the server ended during the window; empty if it is running."""
        ended = self._watch.ended(window.instance)
        log, read = self._logs.get(window.instance), self._bench.read_log
        tail = read(log) if ended and log and read else b""
        for pid in ended:
            number = signal_of(pid, tail)
            if number is not None:
                return f"the server's process {pid} was ended by {_name_of(number)} in the window"
        if self._watch.is_dead(window.instance):
            return f"the server's main process {ended[0]} is gone: killed, or crashed"
        # A child may end normally, such as Nginx's cache loader.
        if ended and not window.valid:
            return f"the server's process {ended[0]} ended in the window"
        return ""

    def _log_excerpt(self, window: Measurement) -> tuple[str, ...]:
        """Return the server's messages about failed requests as a further reason, if any."""
        log, read = self._logs.get(window.instance), self._bench.read_log
        if log is None or read is None or window.valid or not (window.errors or window.bad):
            return ()
        lines = complaints(read(log))
        return (f"its error log: {' | '.join(lines)}",) if lines else ()

    @property
    def _staying(self) -> frozenset[str]:
        """Return labels of the instances that run, or will, and have not left."""
        return frozenset(
            i.instance for i in self._instances.values() if i.state in ("planned", "live")
        )

    @property
    def _staying_windows(self) -> list[Measurement]:
        staying = self._staying
        return [window for window in self._windows if window.instance in staying]

    def _enough(self) -> bool:
        """Return whether all rounds are complete, or cannot be completed."""
        last = self._windows[-1].round
        there = {window.instance for window in self._windows if window.round == last}
        if not self._spec.needs_all or not self._staying <= there:
            return False
        rounds, planned = last + 1, self._spec.plan.rounds
        staying = self._staying_windows
        good = good_rounds(staying, len(self._staying))
        if good >= planned:
            effective = least_effective(staying)
            return effective >= self._spec.plan.effective or rounds >= 2 * planned
        bad = rounds - good
        if self._spec.patient:
            bad -= len(spoilt_rounds(staying))
        return bad > self._spec.allowed_bad

    def outcome(self) -> tuple[BlockState, str]:
        """Return state and reason by the validity rule."""
        staying = self._staying_windows
        wrong = [window for window in staying if not window.valid]
        problem = self._lacking() or self._dead
        if problem:
            return "invalid", problem
        good = good_rounds(staying, len(self._staying))
        if self._spec.needs_all and good < self._spec.plan.rounds:
            return "invalid", f"{wrong[0].instance}: {'; '.join(wrong[0].invalid)}"
        unequal = self._unequal_stalls()
        if unequal:
            return "invalid", unequal
        baseline = [w for w in wrong if w.instance == BASELINE]
        valid = sum(w.valid and w.instance == BASELINE for w in self._windows)
        if baseline and valid < len(baseline):
            return "invalid", f"the baseline itself: {'; '.join(baseline[0].invalid)}"
        return "complete", ""

    def _lacking(self) -> str:
        """Return why a block lacks a required arm; empty if it has all."""
        if not self._spec.needs_all:
            return ""
        refused = (
            f"the server refuses {i.instance}: {i.message}"
            for i in self._instances.values()
            if i.state == "refused" and i.instance not in self._spec.may_lack
        )
        return next(refused, "")

    def _unequal_stalls(self) -> str:
        """Return why stalls make the block invalid: they depend on the arm.

        It applies only if all arms stay. The level is 1 %, because a false alarm costs a
        repetition.
        """
        if not self._spec.needs_all or self._bench.rule is None:
            return ""
        shares: dict[int, list[float]] = {}
        staying = self._staying_windows
        for window in sorted(staying, key=lambda window: window.instance):
            shares.setdefault(window.round, []).append(window.stalled_share or 0.0)
        table = [row for row in shares.values() if len(row) == len(self._staying)]
        p_value = unequal_stalls_p(table) if table else 1.0
        means = np.mean(table, axis=0) if table else np.zeros(1)
        if p_value > UNEQUAL_STALLS or np.ptp(means) < LEAST_STALLED:
            return ""
        most = sorted(self._staying)[int(means.argmax())]
        why = likely_work(window for window in staying if window.instance == most)
        return (
            f"stalls took {means.min():.1%} to {means.max():.1%} of the arms' time, most in"
            f" {most}, more than chance allows ({p_in_words(p_value)}): they depend on what is"
            " measured"
        ) + (f"; {why}" if why else "")

    def close(self, state: BlockState, reason: str) -> Block:
        instances = tuple(self._instances.values())
        took_s = self._bench.clock() - self._started
        measured_s = sum(window.duration_s for window in self._windows)
        share = measured_s / took_s if took_s > 0 else 0.0
        self._bench.store.close_block(self._number, state, reason, instances, share)
        return Block(
            number=self._number,
            phase=self._spec.phase,
            index=self._spec.index,
            seed=self._bench.seed,
            state=state,
            reason=reason,
            started_unix_s=0.0,
            ended_unix_s=took_s,
            instances=instances,
            windows=tuple(self._windows),
        )


def _among(window: WindowSpec, staying: frozenset[str]) -> WindowSpec:
    """Return a window that only the remaining instances share."""
    assert window.slices is not None  # noqa: S101 - every window of a block in slices has them
    there = tuple(label for label in window.slices.instances if label in staying)
    return replace(window, slices=replace(window.slices, instances=there))


def _with_cause(window: Measurement, cause: str, *, bad: bool = False) -> Measurement:
    """Return the window, invalid for a cause that may explain its other reasons too."""
    return replace(window, invalid=(cause, *window.invalid), bad=bad, lacking=False)


def _name_of(number: int) -> str:
    """Return a signal's name, or its number if it has none here."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _stalled(windows: Sequence[Measurement]) -> str:
    """Return the share of requests touched by stalls so far, in words; empty if 0."""
    touched = excluded_share(windows)
    # NaN without requests.
    return f", stalls touched {touched:.1%} of the requests" if touched > 0 else ""


def _planned(spec: BlockSpec, seed: int) -> tuple[BlockInstance, ...]:
    slots = slots_of(seed, spec.phase, spec.index, len(spec.arms))
    return tuple(
        BlockInstance(arm.label, arm.configuration.digest, arm.trial, "planned", "", slot)
        for arm, slot in zip(spec.arms, slots, strict=True)
    )


def _folder(slot: int) -> str:
    """Return the folder's name in a slot: one length for all, and nothing about the arm."""
    return f"slot{slot:02}"
