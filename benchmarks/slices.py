"""The noise of identical instances, in slices against windows that follow one another.

Blocks of two identical Nginx alternate between the ways to measure, in the same minutes and with
the same measured time, so that all meet the same host: slices with the same arrivals for both arms,
slices with arrivals of their own, and windows. The figure is the standard deviation of a block's
log ratio, which says how many blocks a claim needs. The stall rule is that of busy cycles for all;
`--spans` measures windows with spans around stalls, as earlier versions of tuner did.

    python -m benchmarks.slices --blocks 10
    python -m benchmarks.slices --workload proxy
"""

from __future__ import annotations

import click

from benchmarks import finding
from benchmarks.blocks import at_load_point, noise
from benchmarks.finding import Finding, at_most
from benchmarks.lab import setting
from tuner.measurement.stalls import StallRule
from tuner.record.model import Block

SLICES = "slices"
OWN_ARRIVALS = "slices with own arrivals"
WINDOWS = "windows"
AIM = 1 / 3
"""Largest noise of slices, as a share of that of windows."""


def run(workload: str, server: str, blocks: int, *, spans: bool) -> list[Finding]:
    """Measure blocks of all kinds in turn."""
    seen: dict[str, list[Block]] = {}
    with at_load_point(server, workload) as point:
        busy = point.utilisation
        before = StallRule(recovery=1.5 * busy / (1 - busy)) if spans else point.cycles
        slice_ms = point.sampling.slice_ms
        kinds = {
            SLICES: (slice_ms, point.cycles, True),
            OWN_ARRIVALS: (slice_ms, point.cycles, False),
            WINDOWS: (0.0, before, False),
        }
        for index in range(blocks):
            for name, (length_ms, rule, same) in kinds.items():
                block = point.block(
                    index, point.twins(), slice_ms=length_ms, rule=rule, same_arrivals=same
                )
                if block is not None:
                    seen.setdefault(name, []).append(block)
    return noise(seen, SLICES, {WINDOWS: at_most(AIM), OWN_ARRIVALS: None})


@click.command()
@click.option("--blocks", type=click.IntRange(min=3), default=10, show_default=True)
@click.option("--workload", default="static", show_default=True)
@click.option("--server", default="nginx", show_default=True)
@click.option("--spans", is_flag=True, help="Windows with spans around stalls, as in 0.1.")
def main(blocks: int, workload: str, server: str, *, spans: bool) -> None:
    """Compare the noise of slices and of windows on this machine."""
    click.echo(setting())
    finding.show(run(workload, server, blocks, spans=spans))


if __name__ == "__main__":
    main()
