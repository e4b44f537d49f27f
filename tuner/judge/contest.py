"""Several arms in common blocks: the time plan, and the claims.

Every block holds all arms, side by side, in random order in every round; so any two of them can be
compared as a candidate and a baseline are, by the exact test of the paired differences of blocks.
All claims of one contest are one family: their p are adjusted by Holm's procedure.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tuner.goals.capacity import missed
from tuner.goals.metric import Metric, error_share, quantile_of
from tuner.goals.objective import Objective
from tuner.judge.common_scale import common_scale
from tuner.judge.comparison import Family, RatioClaim
from tuner.judge.plan import STALL_ALLOWANCE, USUAL, BlockPlan, for_slow_server
from tuner.judge.scoring import counted_windows
from tuner.judge.support import LEAST_STARTS
from tuner.measurement.instrument import Mode
from tuner.measurement.window import Measurement
from tuner.record.contenders import PUBLISHED, STOCK, TUNED, Contender
from tuner.record.model import Block
from tuner.stats.margin import Margin
from tuner.stats.paired import minimum_blocks
from tuner.stats.power import LEVEL

FIGURES = ("p50", "p90", "p99", "p99.9", "max")
COMPARED: Mapping[Mode, tuple[str, ...]] = {
    "open": ("p50", "p99", "cpu", "memory"),
    "closed": ("throughput", "cpu", "memory"),
}
"""Figures by which arms are compared, by mode of the load."""
MOST_BLOCKS = 60
_MOST_ROUNDS = 4
_NEARLY = 0.8
"""Share of the longest possible measuring time that is enough for more and shorter blocks."""
_ANSWERS = 1_000
"""Answers of a window in a closed loop if the time allows: their number then varies by 3 %."""
_LEAST_PASSES = 3
_MOST_PASSES = 8
_MOST_RUNGS = 12
_LEAST_RUNGS = 6
_LADDER_SHARE = 0.6
_DEPLOY_ARM_S = 0.35
"""Time for each further instance of a deployment to become live."""


@dataclass(frozen=True, slots=True)
class ContestPlan:
    """A time plan for the common rate and for the ladder."""

    block: BlockPlan
    blocks: int
    ladder: BlockPlan | None
    """One round in each block."""
    rungs: int
    passes: int
    samples_needed: int

    def cost_s(self, arms: int) -> float:
        """Return the expected wall-clock of all blocks."""
        each = self.blocks * block_cost_s(self.block, arms)
        if self.ladder is None:
            return each
        return each + self.rungs * self.passes * block_cost_s(self.ladder, arms)


def block_cost_s(block: BlockPlan, arms: int) -> float:
    """Return the expected wall-clock of a block with this number of arms."""
    return block.cost_s(arms) + _DEPLOY_ARM_S * (arms - 1)


def least_blocks(claims: int) -> int:
    """Return the fewest blocks for a number of claims after Holm's correction."""
    return minimum_blocks(1 - LEVEL / max(1, claims))


def plan_contest(
    time_s: float,
    arms: int,
    rate_per_s: float,
    *,
    claims: int,
    mode: Mode,
    ladder: bool,
    in_flight: int = 0,
) -> ContestPlan:
    """Plan the blocks: at least as many as the claims need, even beyond the time.

    There are as many as whole arms need starts (`tuner.judge.support`) if the time holds them. With
    more time there are more blocks rather than longer ones: each is a further start of every arm,
    and Holm's procedure needs a small p for the first of many claims. A ladder leaves them the time
    that it has no use for.

    Windows have the 10,000 samples for p99 if the time allows, and fewer otherwise; the record has
    the number. In a closed loop they have 1,000 answers, or fewer likewise.

    Args:
        time_s: time for all blocks.
        arms: number of arms.
        rate_per_s: offered rate; in a closed loop the answers of the slowest arm.
        claims: number of claims.
        mode: mode of the load.
        ladder: whether a ladder takes its part of the time.
        in_flight: requests in flight in a closed loop.
    """
    least = least_blocks(claims)
    wanted = max(least, LEAST_STARTS)
    share = 1 - _LADDER_SHARE if ladder else 1.0
    open_loop = mode == "open"
    samples = Metric("p99").samples_needed if open_loop else _ANSWERS
    allowance = STALL_ALLOWANCE if open_loop else 1.0
    longest_s = max(0.5, share * time_s / (2 * wanted * arms))
    window_s = round(min(max(0.5, samples * allowance / rate_per_s), longest_s, 4.0), 2)
    settle_s = max(0.05, min(0.5, 500 / rate_per_s)) if open_loop else 0.1
    fresh_s = max(0.3, settle_s)
    # After a window in a closed loop the requests in flight are still answered.
    overhead = replace(USUAL, gap_s=USUAL.gap_s + (0.0 if open_loop else in_flight / rate_per_s))

    def block(rounds: int, seconds: float) -> BlockPlan:
        found = BlockPlan(rounds, seconds, fresh_s, settle_s, overhead=overhead)
        return found if open_loop else for_slow_server(found, rate_per_s, in_flight)

    step = block(1, min(1.0, max(0.5, window_s))) if ladder else None
    rungs = passes = 0
    blocks_s = time_s
    if step is not None:
        cost_s = block_cost_s(step, arms)
        slots = (1 - share) * time_s / cost_s
        rungs = max(_LEAST_RUNGS, min(_MOST_RUNGS, int(slots / _LEAST_PASSES)))
        passes = max(_LEAST_PASSES, min(_MOST_PASSES, int(slots / rungs)))
        blocks_s = max(share * time_s, time_s - rungs * passes * cost_s)

    def in_time(rounds: int) -> int:
        return int(blocks_s / block_cost_s(block(rounds, window_s), arms))

    def affordable(blocks: int, fewest: int) -> list[int]:
        """Return the numbers of rounds with which a number of blocks fits."""
        return [n for n in range(fewest, _MOST_ROUNDS + 1) if in_time(n) >= blocks]

    rounds = affordable(wanted, 1) or affordable(least, 2) or [1]
    measured = {n: n * min(MOST_BLOCKS, in_time(n)) for n in rounds}
    enough = _NEARLY * max(measured.values())
    each_rounds = next(n for n in rounds if measured[n] >= enough)
    each = block(each_rounds, window_s)
    held = math.floor(rate_per_s * each.window_s / allowance)
    return ContestPlan(
        block=each,
        blocks=max(least, min(MOST_BLOCKS, in_time(each_rounds))),
        ladder=step,
        rungs=rungs,
        passes=passes,
        samples_needed=max(1, min(samples, held)),
    )


@dataclass(frozen=True, slots=True)
class ArmFigures:
    """One arm over all blocks that count, on one scale with the others (`common_scale`)."""

    label: str
    blocks: int
    latency_us: Mapping[str, float]
    """By the names of ``FIGURES``; stall-free where the stall rule applies."""
    answered_per_s: float
    error_share: float
    cpu_us: float
    """CPU time of the server per answered request."""
    backend_cpu_us: float
    """CPU time of the backends per answered request; NaN without backends or if unknown."""
    memory_mib: float
    answer_bytes: float
    """Bytes received per answered request: head and body, without TLS; NaN if unknown."""
    answer_bytes_error: float
    """Standard error of that between windows, because each draws its own mix."""
    missed: int
    """Windows in which the offered rate was not served."""
    refused: str
    """The server's message, if it refused the configuration."""

    def value(self, name: str) -> float:
        """Return the figure by which pairs are compared (``COMPARED``); NaN if unknown."""
        others = {"throughput": self.answered_per_s, "cpu": self.cpu_us, "memory": self.memory_mib}
        return others.get(name, self.latency_us.get(name, math.nan))


def pairs(contenders: Sequence[Contender]) -> tuple[tuple[str, str], ...]:
    """Return the pairs to compare: arms of one server, and arms of one kind across servers.

    ``tuned`` and ``tuned`` are of one kind. The second arm of a pair is compared with the first.
    """
    if len(contenders) == 2:
        return ((contenders[0].label, contenders[1].label),)
    order = {STOCK: 0, PUBLISHED: 1, TUNED: 3}
    found = []
    for one, other in itertools.combinations(contenders, 2):
        if one.server == other.server:
            first, second = sorted((one, other), key=lambda c: order.get(c.kind, 2))
            found.append((first.label, second.label))
        elif one.kind == other.kind:
            found.append((one.label, other.label))
    return tuple(found)


def family(contenders: Sequence[Contender], mode: Mode, margin: Margin) -> Family:
    """Return the claims of a contest: every figure of every pair, adjusted for each other.

    Args:
        contenders: the accepted arms.
        mode: mode of the load, which determines the figures.
        margin: smallest difference worth having.
    """
    claims = (
        RatioClaim(second, first, Objective(figure), margin)
        for first, second in pairs(contenders)
        for figure in COMPARED[mode]
    )
    return Family(tuple(claims), "stepwise")


def complete(blocks: Iterable[Block]) -> list[Block]:
    """Return the complete blocks of a contest, in order; of repeated ones the last."""
    latest = {
        block.index: block
        for block in blocks
        if block.phase == "contest" and block.state == "complete"
    }
    return [latest[index] for index in sorted(latest)]


def arms_figures(blocks: Sequence[Block], labels: Sequence[str]) -> tuple[ArmFigures, ...]:
    """Return the figures of all arms over the blocks that count."""
    names = [name for name in FIGURES if name != "max"] + ["throughput", "cpu", "memory"]
    scales = {name: common_scale(blocks, labels, Metric(name)) for name in names}
    return tuple(_arm_figures(blocks, label, scales) for label in labels)


def _arm_figures(
    blocks: Sequence[Block], label: str, scales: Mapping[str, Mapping[str, float]]
) -> ArmFigures:
    by_block = [found for found in (counted_windows(block, label) for block in blocks) if found]
    windows = [window for found in by_block for window in found]

    def typical(metric: str) -> float:
        return scales[metric].get(label, math.nan)

    held = statistics.median(w.stall_free.count for w in windows) if windows else 0
    sizes = [w.bytes_in / w.completed for w in windows if w.completed and w.bytes_in]
    # The longest of all, and no typical one, which may lie below the typical p99.9.
    longest = max((window.stall_free.max_us for window in windows), default=math.nan)
    latency = {
        # With fewer requests the percentile would equal the maximum.
        name: typical(name) if held * (1 - (quantile_of(name) or 0)) >= 1 else math.nan
        for name in FIGURES
        if name != "max"
    }
    return ArmFigures(
        label=label,
        blocks=len(by_block),
        latency_us=latency | {"max": longest},
        answered_per_s=typical("throughput"),
        error_share=statistics.fmean(map(error_share, windows)) if windows else math.nan,
        cpu_us=typical("cpu"),
        backend_cpu_us=_backend_cpu_us(windows),
        memory_mib=typical("memory"),
        answer_bytes=statistics.fmean(sizes) if sizes else math.nan,
        answer_bytes_error=(
            statistics.stdev(sizes) / math.sqrt(len(sizes)) if len(sizes) > 1 else math.nan
        ),
        missed=sum(map(missed, windows)),
        refused=next(
            (
                instance.message
                for block in blocks
                for instance in block.instances
                if instance.instance == label and instance.state == "refused"
            ),
            "",
        ),
    )


def _backend_cpu_us(windows: Sequence[Measurement]) -> float:
    """Return CPU time of the backends by answered request, of all windows together.

    Linux counts CPU time in ticks of 10 ms (proc(5)), the time of many requests.
    """
    spent_s = answered = 0.0
    for window in windows:
        found = window.resources
        if found is not None and found.backend is not None:
            spent_s += found.backend.cpu_s
            answered += window.completed_per_s * found.loaded_s
    return spent_s / answered * 1e6 if answered else math.nan
