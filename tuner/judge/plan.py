"""Time plan of a study: pure arithmetic, announced before anything starts.

Costs are estimates for the plan and for the remaining time; results do not use them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tuner.goals.goals import Goals
from tuner.judge.economy import FULL, Economy
from tuner.judge.support import LEAST_STARTS
from tuner.stats.paired import minimum_blocks
from tuner.stats.power import LEVEL
from tuner.stats.sequential import LEAST_WATCHED, LOOKS_SHARE

STALL_ALLOWANCE = 1.6
"""Factor for the length of windows, because stalls exclude a part of them, until it is measured."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """The slices of a block's time, and the worth of its requests."""

    effective_share: float = 1 / STALL_ALLOWANCE
    """Effective samples per request (``tuner.measurement.cycles``)."""
    slice_ms: float = 0.0
    """Length of a slice, ms; 0: every arm has windows of its own."""
    level: int = 0
    """Outstanding requests above which a busy cycle begins."""


ASSUMED = Sampling()
"""The sampling before calibration."""


@dataclass(frozen=True, slots=True)
class Overhead:
    """Cost of a block without windows and warm-ups; typical values, until a study has its own."""

    deploy_s: float = 1.5
    """One Ansible run with its instances, and the writes at the block's end."""
    gap_s: float = 0.02
    """Between two windows: reading the samples and writing the record."""
    switch_s: float = 2.0
    """Before each window, if one instance runs at a time (``docs/kernel.md``)."""


USUAL = Overhead()


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """The windows of one kind of block: every instance once in every round."""

    rounds: int
    window_s: float
    first_warmup_s: float
    """Before the first window of a fresh instance."""
    warmup_s: float
    """Before every other window: the connections stand, the server is warm."""
    exclusive: bool = False
    """True for one instance at a time, started anew for each of its windows."""
    overhead: Overhead = USUAL
    slice_ms: float = 0.0
    """Length of the slices in which the instances share each round, ms; 0: separate windows."""
    effective: float = 0.0
    """Effective samples that each instance should have in the block; 0: any number."""

    def cost_s(self, instances: int) -> float:
        """Return the expected wall-clock of the block."""
        windows, each_s = instances * self.rounds, self.window_s + self.overhead.gap_s
        if self.exclusive:
            return windows * (self.overhead.switch_s + each_s + self.first_warmup_s)
        warm = instances * self.first_warmup_s + (windows - instances) * self.warmup_s
        return self.overhead.deploy_s + windows * each_s + warm

    def measured_s(self, instances: int) -> float:
        """Time of the measured windows."""
        return instances * self.rounds * self.window_s

    def share(self, instances: int) -> float:
        """Return the same as a share."""
        return self.measured_s(instances) / self.cost_s(instances)


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """The resolved plan of a study."""

    capacity: BlockPlan
    aa: BlockPlan
    aa_blocks: int
    aa_instances: int
    search: BlockPlan
    candidates: int
    """Candidates in a search block, without the baseline."""
    confirm: BlockPlan
    starts: BlockPlan | None
    """A block of further starts; None if the blocks of the confirmation are all that there are."""
    load_points: BlockPlan
    samples_needed: int
    """Effective samples that a window needs before the confirmation: a quarter of the planned ones.
    With fewer, calibration plans anew."""
    samples_enough: int
    """The same in the confirmation: a tenth. The host may get worse, but the plan is fixed."""
    look_samples: int
    """The same for windows of the search, which support no claim."""
    points: int = 2
    """Number of other load points, each with a block of its own."""
    seeks: bool = False
    """True if calibration looks for the rate that just meets a latency limit."""

    @property
    def calibration_s(self) -> float:
        """Return the cost of everything before the search."""
        aa_s = self.aa_blocks * self.aa.cost_s(self.aa_instances)
        return self.capacity.cost_s(1) + self.seeks * self.confirm.cost_s(1) + aa_s

    @property
    def points_s(self) -> float:
        """Return the cost of the other load points."""
        return self.points * self.load_points.cost_s(2)

    def starts_s(self, blocks: int, finalists: int = 1) -> float:
        """Return the cost of the further starts that a gain needs after a confirmation.

        Args:
            blocks: of the confirmation.
            finalists: candidates with a gain.
        """
        if self.starts is None:
            return 0.0
        count, copies = blocks_of_copies(LEAST_STARTS - blocks, 1 + finalists)
        return count * self.starts.cost_s((1 + finalists) * copies)

    def blocks_s(self, blocks: int, design: Design) -> float:
        """Return the cost of a confirmation with the further starts that a gain needs."""
        return blocks * self.confirm.cost_s(design.arms) + self.starts_s(blocks, design.finalists)

    def whole_blocks_s(self, search_s: float) -> float:
        """Return the cost of the blocks of a search of this time: whole ones, and at least one.

        Blocks that would not end in time do not begin.
        """
        block_s = self.search.cost_s(self.candidates + 1)
        return max(1, math.floor(search_s / block_s)) * block_s

    def search_of(self, candidates: int) -> BlockPlan:
        """Return a block of the search with fewer candidates than others, as its last ones are.

        It measures each longer, because fewer share its deployment, at no more than the cost of a
        full one.
        """
        most_s = self.search.cost_s(self.candidates + 1)
        return worth_deploying(self.search, candidates + 1, self.search.rounds, most_s)


CLOSED = BlockPlan(rounds=6, window_s=0.5, first_warmup_s=0.5, warmup_s=0.1)
"""A block in a closed loop, for a server that answers some hundred requests a second or more."""
_ANSWERS = 200
"""Answers that a window in a closed loop should have: their number then varies by 7 % at most, as
that of Poisson arrivals does. The capacity is the lowest of several windows."""
_LONGEST_CLOSED_S = 2.0
"""Longest window or warm-up for them."""
_ARM_S = 9.0
"""Measured time of an arm in a block whose values are claims; less in a study below ten minutes."""
_POINT_S = 3.0
"""Measured time of an arm at one of the other load points; likewise."""
_LOOK_S = 2.0
"""Measured time of a configuration in a block of the search; likewise.

Four cheap looks at four configurations find more than one dear look at one: most configurations
are worse by far than the noise of a short look, and the few that are not are looked at again
(``benchmarks/efficiency.py`` measures it on a recorded table).
"""
_START_ROUNDS = 4
"""Rounds of a further start, with windows half as long as those of the search.

It has to show a bad kind of start only. The median of four short windows keeps disturbances out;
fewer and longer ones would take gains away on hosts with bursts.
"""
_LOOK_SHARE = 0.25
"""Share of the samples of a claim that a window of the search holds."""
_CANDIDATES = 8
_LEAST_ROUNDS = 4
"""Fewest rounds before a candidate can be dropped."""
_LEAST_RUNGS = 7
"""Least windows of a capacity: three to five bracket it, the others refine it."""
_MOST_ROUNDS = 12
_CONCLUSIVE_ROUNDS = 8
"""Fewest rounds for the test of a block's stalls to reach its level (docs/statistics.md)."""
MEASURED_SHARE = 0.77
"""Least share of a block's wall-clock that goes to windows, in studies long enough.

75 % of the search and of the confirmation, and something for the time between two blocks."""
_LONGEST_BLOCK = 1 / 16
"""Longest block as a share of the study, since a claim counts blocks."""
_LONGEST_LOOK = 1 / 12
"""The same for a block of the search, which leaves five in a study of ten minutes."""
_GROW_BELOW = 0.7
"""Share of a block's planned samples below which it has more rounds."""
_STRETCHES = (1.0, 1.25, 1.5, 2.0)
"""Factors by which windows may exceed their samples' need, to have fewer gaps."""
_SETTLED_SHARE = 1 / 8
"""Longest warm-up of a running instance, as a share of its window."""


def plan_blocks(
    goals: Goals,
    rate_per_s: float,
    time_s: float,
    *,
    exclusive: bool = False,
    overhead: Overhead = USUAL,
    economy: Economy = FULL,
    sampling: Sampling = ASSUMED,
) -> StudyPlan:
    """Choose windows with enough samples that still leave time for blocks.

    Many short windows are better than few long ones: a disturbance of the host spoils one of
    them, and the median over rounds does not follow it. A window holds the samples that the
    goals need if that takes at most a hundredth of the study; at lower rates it holds fewer,
    and the record declares how many. In the search a quarter is enough. Where every window costs
    a start of its own, windows are twice as long, and so fewer. Where a deployment is dear, blocks
    are longer (``worth_deploying``).

    Args:
        goals: goals of the study.
        rate_per_s: its load point.
        time_s: its time limit.
        exclusive: whether every window needs its own start.
        overhead: costs of deployments and gaps here.
        economy: step of shortening (``tuner.judge.forecast`` chooses it).
        sampling: slices, and the worth of a request, from calibration.
    """
    needed = goals.samples_needed
    longest_s = max(0.5, time_s / 100)
    effective_per_s = rate_per_s * sampling.effective_share
    sample_s = needed / effective_per_s if goals.mode == "open" else 0.5
    # A capacity has many windows of its own, and each may be shorter.
    shortest_s, shortest_confirm_s = (0.4, 0.5) if goals.seek else (0.5, 0.75)
    look = 1.0 if goals.seek else _LOOK_SHARE
    if exclusive:
        shortest_s, shortest_confirm_s = 2 * shortest_s, 2 * shortest_confirm_s
    search_s = min(max(shortest_s, look * sample_s), longest_s)
    confirm_s = min(max(shortest_confirm_s, sample_s), 1.5 * longest_s)
    # In the shortest studies even the full plan's windows are below the shortest.
    search_s = min(search_s, max(shortest_s, economy.looks * search_s))
    confirm_s = min(confirm_s, max(shortest_confirm_s, economy.windows * confirm_s))
    looked = max(1, math.floor(look * needed))
    if goals.mode == "open":
        needed = min(needed, math.floor(effective_per_s * confirm_s))
        looked = min(looked, math.floor(effective_per_s * search_s))
    brief = min(1.0, time_s / 600)
    least = _LEAST_RUNGS if goals.seek else _LEAST_ROUNDS

    def block(measured_s: float, window_s: float, settled: float = 1.0) -> BlockPlan:
        settle_s = min(0.5, 500 / rate_per_s)
        return BlockPlan(
            rounds=_rounds(brief * measured_s, window_s, least),
            window_s=window_s,
            first_warmup_s=max(0.25, settle_s),
            warmup_s=max(0.03, settled * min(settle_s, _SETTLED_SHARE * window_s)),
            exclusive=exclusive,
            overhead=overhead,
            slice_ms=0.0 if exclusive or goals.seek else sampling.slice_ms,
        )

    confirm = worth_deploying(
        block(_ARM_S, confirm_s), 2, _CONCLUSIVE_ROUNDS, _LONGEST_BLOCK * time_s
    )
    if goals.mode == "open" and goals.seek is None:
        # On a host that got worse since calibration a block is longer, up to twice.
        samples = effective_per_s * confirm.rounds * confirm.window_s
        confirm = replace(confirm, effective=_GROW_BELOW * samples)
    looks = block(_LOOK_S, search_s, 0.5)
    return StudyPlan(
        capacity=replace(CLOSED, exclusive=exclusive, overhead=overhead),
        aa=confirm,
        aa_blocks=3,
        aa_instances=3,
        search=worth_deploying(looks, _CANDIDATES + 1, least, _LONGEST_LOOK * time_s),
        candidates=_CANDIDATES,
        confirm=confirm,
        starts=(
            None
            if exclusive or goals.seek
            else replace(looks, rounds=_START_ROUNDS, window_s=looks.window_s / 2)
        ),
        load_points=block(_POINT_S, confirm_s),
        samples_needed=_gate(needed, goals),
        samples_enough=_gate(needed, goals, part=10),
        look_samples=_gate(looked, goals),
        points=economy.points if goals.mode == "open" and goals.seek is None else 0,
        seeks=goals.seek is not None,
    )


def _gate(planned: int, goals: Goals, part: int = 4) -> int:
    if goals.seek or goals.mode == "closed":
        return planned
    return samples_that_count(planned, goals.samples_least, part)


def samples_that_count(planned: int, least: int, part: int) -> int:
    """Return the effective samples below which a window does not count.

    They are a part of the planned ones, because a host gets better and worse, and never fewer than
    a quantile needs: a window with fewer samples than planned is noisier, not wrong.

    Args:
        planned: effective samples of a window, as planned.
        least: samples below which the quantile has no figure.
        part: the divisor of the planned samples, at least 2.
    """
    return max(1, min(planned // 2, max(least, planned // part)))


def blocks_of_copies(starts: int, arms: int) -> tuple[int, int]:
    """Return the fewest blocks with a number of starts of each arm, and the starts in each.

    A block has as many instances as one of the search, or one of each arm if those are more.

    Args:
        starts: further starts of each arm; none if it is not positive.
        arms: baseline and candidates.
    """
    if starts <= 0:
        return 0, 0
    blocks = math.ceil(starts / max(1, _CANDIDATES // arms))
    return blocks, math.ceil(starts / blocks)


def for_slow_server(plan: BlockPlan, per_s: float, in_flight: int) -> BlockPlan:
    """Return a block in a closed loop that lasts long enough for a slow server.

    Its windows have answers enough. Its warm-ups last until each request in flight has been
    answered once: a server that works at all of them at once first answers none. After a window it
    takes as long until the last of them is answered, so a window is not shorter than that:
    otherwise most of the time would go into what surrounds the windows.

    Args:
        plan: the block for a fast server.
        per_s: answers of the server, per second.
        in_flight: requests in flight, a fixed number.
    """
    warmup_s = min(in_flight / per_s, _LONGEST_CLOSED_S)
    window_s = max(warmup_s, min(_ANSWERS / per_s, _LONGEST_CLOSED_S))
    return replace(
        plan,
        window_s=max(plan.window_s, window_s),
        first_warmup_s=max(plan.first_warmup_s, warmup_s),
        warmup_s=max(plan.warmup_s, warmup_s),
    )


def worth_deploying(plan: BlockPlan, instances: int, least: int, most_s: float) -> BlockPlan:
    """Return the cheapest block that measures ``MEASURED_SHARE`` of its time.

    It has more rounds or longer windows, within ``most_s``; if that is not enough, it is the one
    with the largest share.

    Args:
        plan: the block for the samples and the study's time, the lower limit.
        instances: number of its instances.
        least: fewest rounds to keep.
        most_s: limit for the cost of the block.
    """
    if plan.exclusive or plan.share(instances) >= MEASURED_SHARE:
        return plan
    fewest = min(least, plan.rounds)
    possible, enough = [plan], []
    for stretch in _STRETCHES:
        for rounds in range(max(fewest, math.ceil(plan.rounds / stretch)), 2 * _MOST_ROUNDS):
            option = replace(plan, rounds=rounds, window_s=stretch * plan.window_s)
            # More rounds only cost more.
            if option.cost_s(instances) > most_s:
                break
            if option.share(instances) >= MEASURED_SHARE:
                enough.append(option)
                break
            possible.append(option)
    if enough:
        return min(enough, key=lambda option: option.cost_s(instances))
    return max(possible, key=lambda option: option.share(instances))


def _rounds(measured_s: float, window_s: float, least: int) -> int:
    return max(least, min(_MOST_ROUNDS, round(measured_s / window_s)))


@dataclass(frozen=True, slots=True)
class Design:
    """The design of a confirmation: number of finalists, and when it may stop."""

    finalists: int = 1
    """Candidates that are confirmed in the same blocks."""
    sequential: bool = False
    """Look after every block, and stop once the claim is safe; else only after the last one."""
    others: int = 0
    """Further baselines in the same blocks."""

    @property
    def arms(self) -> int:
        """Instances of a block: the baselines and the finalists."""
        return 1 + self.finalists + self.others

    @property
    def level(self) -> float:
        """Two-sided level of each finalist's test."""
        return LEVEL / self.finalists

    @property
    def least_blocks(self) -> int:
        """Below this number of blocks no interval is finite, nor one against a further baseline."""
        return minimum_blocks(1 - self.level / max(1, self.others))

    def watches(self, blocks: int) -> bool:
        """Return whether a confirmation of this length has looks before its last block."""
        return self.sequential and blocks >= LEAST_WATCHED

    def end_level(self, blocks: int) -> float:
        """Return the two-sided level of each finalist's test after the last of the blocks."""
        return self.level * (1 - LOOKS_SHARE * self.watches(blocks))

    def least_of(self, objectives: int) -> int:
        """Return the same for the verdict of a study with one or two objectives.

        At half the level, which Holm's procedure for two begins with, 6 blocks have no interval.
        """
        return max(self.least_blocks, {1: 6, 2: 7}[objectives])


FIXED = Design()
_CONFIRM_SHARE = 0.45
"""Share of the confirmation in the time of a study with a search."""
_ALONE_SHARE = 0.9
"""Share of calibration and confirmation without one; the rest is for repeated blocks."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Shares of the study's time, from which the phases are cut."""

    time_s: float
    search: bool = True
    """True if a part of it is for a search."""

    def confirm_s(self, plan: StudyPlan) -> float:
        """Most that the confirmation may take: its blocks and the other load points.

        Further starts take the time of the search, or of repeated blocks.
        """
        least_s = _CONFIRM_SHARE * self.time_s
        if self.search:
            return least_s
        return max(least_s, _ALONE_SHARE * self.time_s - plan.calibration_s)

    def confirm_blocks(self, plan: StudyPlan, design: Design = FIXED) -> int:
        """Most blocks that fit; at least those below which no interval is finite."""
        rest_s = self.confirm_s(plan) - plan.points_s
        return max(design.least_blocks, int(rest_s / plan.confirm.cost_s(design.arms)))

    def search_s(
        self, spent_s: float, plan: StudyPlan, blocks: int, design: Design = FIXED
    ) -> float:
        """Return the time left for the search after ``blocks`` of confirmation."""
        reserve_s = plan.blocks_s(blocks, design) + plan.points_s
        return max(plan.search.cost_s(plan.candidates + 1), self.time_s - spent_s - reserve_s)
