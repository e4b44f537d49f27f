"""Idle CPUs that poll against ones that halt: noise, and stalls that depend on the arm.

Blocks of three Nginx alternate between both ways in the same minutes: two with the stock
configuration, and one tuned by hand, which needs less CPU time where there is a backend. A virtual
CPU that halts waits for the hypervisor at each wake-up. So the tuned one, which halts more often,
has more stalls, and its ratio to the stock one differs between the two ways.

    python -m benchmarks.idle --workload proxy
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import click

from benchmarks import finding
from benchmarks.blocks import METRICS, TWIN, at_load_point, differences, noise
from benchmarks.finding import Finding, at_most
from benchmarks.lab import setting
from tuner.errors import HostError
from tuner.judge.scoring import BASELINE, windows_of
from tuner.phases.block import Arm
from tuner.record.model import Block

HAND = "hand"
POLLING = "polling"
HALTING = "halting"
_WAYS = {POLLING: False, HALTING: True}


def run(workload: str, server: str, blocks: int) -> list[Finding]:
    """Measure blocks of both ways in turn.

    Raises:
        HostError: idle CPUs cannot poll here.
    """
    seen: dict[str, list[Block]] = {}
    with at_load_point(server, workload) as point:
        found = point.found
        if not found.polls:
            raise HostError("idle CPUs do not poll here; `tuner doctor` says why")
        hand = found.space.adopt(found.space.baseline(HAND), found.baseline, found.definition.allow)
        arms = (*point.twins(), Arm(HAND, hand))
        for index in range(blocks):
            # Each way comes first in every other pair.
            for name in sorted(_WAYS, reverse=index % 2 == 1):
                block = point.block(
                    index,
                    arms,
                    slice_ms=point.sampling.slice_ms,
                    rule=point.cycles,
                    same_arrivals=True,
                    halts=_WAYS[name],
                )
                if block is not None:
                    seen.setdefault(name, []).append(block)
    compared = noise(seen, POLLING, {HALTING: at_most(1.0)})
    return [*_stalls(seen), *compared, *_gains(seen)]


def _stalls(seen: Mapping[str, Sequence[Block]]) -> list[Finding]:
    """Return the share of each arm's time in stalls."""
    found = []
    for name, blocks in seen.items():
        for arm in (BASELINE, TWIN, HAND):
            shares = [w.stalled_share or 0.0 for b in blocks for w in windows_of(b, arm)]
            found.append(Finding(f"{name}: time of {arm} in stalls", statistics.fmean(shares)))
    return found


def _gains(seen: Mapping[str, Sequence[Block]]) -> list[Finding]:
    """Return how the tuned configuration compares with the stock one."""
    found = []
    for metric in METRICS:
        for name, blocks in seen.items():
            values = differences(blocks, metric, HAND)
            if values:
                mean = statistics.fmean(values)
                found.append(Finding(f"{metric.name}: mean ln ratio hand / stock, {name}", mean))
    return found


@click.command()
@click.option("--blocks", type=click.IntRange(min=3), default=10, show_default=True)
@click.option("--workload", default="proxy", show_default=True)
@click.option("--server", default="nginx", show_default=True)
def main(blocks: int, workload: str, server: str) -> None:
    """Compare idle CPUs that poll with ones that halt, on this machine."""
    click.echo(setting())
    finding.show(run(workload, server, blocks))


if __name__ == "__main__":
    main()
