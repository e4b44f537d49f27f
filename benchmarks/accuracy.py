"""Accuracy: latency quantiles that several generators report, and those of a packet capture.

Each generator offers the same rate to the same server from the same core, in turn, and reports
its corrected latency. The true latency is the time of the server and the kernel, so of two
generators that count all requests the one with the lower latency is more accurate. The capture
shows that ours counts all requests: its latency is slightly above the time between request and
response packets, and never below it.

Over TLS, HTTP/2 and HTTP/3 there is no capture, because encrypted packets do not show requests.

    python -m benchmarks.accuracy --peers DIR
    python -m benchmarks.accuracy --peers DIR --wire HTTP/3
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import click
import numpy as np

from benchmarks import finding, options, peers
from benchmarks.capture import Exchanges, capture, exchanges
from benchmarks.finding import Finding, at_most, median_of
from benchmarks.lab import CLEARTEXT, Lab, open_lab
from tuner.measurement.stalls import CYCLES, StallRule
from tuner.measurement.window import Measurement
from tuner.workload.arrivals import Arrival
from tuner.workload.wire import Tls, Wire

WIRES = {
    "HTTP/1.1": Wire("http1"),
    "HTTP/1.1 over TLS": Wire("http1", Tls()),
    "HTTP/2 over TLS": Wire("http2", Tls()),
    "HTTP/3": Wire("http3", Tls()),
}
RATES_PER_S = (1_000, 5_000, 20_000, 50_000)
RUNS = 5
DURATION_S = 3
AIMED_PER_S = (1_000, 5_000, 20_000)
AIMS = {(name, rate): 0.7 for name in ("zrk", "oha") for rate in AIMED_PER_S}
AIMS["wrk2", 5_000] = 0.1
"""Largest ratio of our p50 to theirs."""
WIRE_AIM_US = 10.0
OURS, POISSON, STALL_FREE = "ours", "ours, Poisson", "ours, stall-free"

_CALM = 0.5
"""Share of the capacity up to which our generator should be the most accurate."""
_HIGHEST_UTILISATION = 0.9
"""Highest share of the capacity; above it the server's queue hides differences of generators."""
_HELD = 0.98
"""Least share of the rate that a tool must offer."""


@dataclass(frozen=True, slots=True)
class Load:
    """The load for every tool, and the stall rule for ours."""

    rate_per_s: int
    runs: int
    duration_s: int
    rule: StallRule


@dataclass(frozen=True, slots=True)
class Point:
    """The figures of one tool in one run."""

    p50_us: float
    p99_us: float
    held: bool


def run(lab: Lab, chosen: options.Options) -> list[Finding]:
    """Compare the tools at every rate and print the tables; leave out a tool that fails."""
    tools, missing = peers.open_loop(chosen.peers_dir, lab.wire)
    for name in missing:
        click.echo(f"({name} is neither in --peers nor on the PATH: left out)")
    duration_s, runs = chosen.duration_s or DURATION_S, chosen.runs or RUNS
    capacity_per_s = lab.capacity_per_s(duration_s)
    click.echo(
        f"Corrected latency as reported, medians of {runs} windows of {duration_s} s in turn;"
        f" closed-loop capacity {capacity_per_s:.0f}/s.\nArrivals are constant but in Poisson rows."
    )
    found: list[Finding] = []
    for rate in RATES_PER_S:
        utilisation = rate / capacity_per_s
        if utilisation > _HIGHEST_UTILISATION:
            click.echo(f"({rate}/s is {utilisation:.0%} of the capacity here: left out)")
            continue
        load = Load(rate, runs, duration_s, CYCLES)
        points = _compare(lab, tools, load)
        _print(rate, points)
        names = [tool.name for tool in tools if tool.name in points]
        found += _ratios(lab.wire, rate, points, names, calm=utilisation <= _CALM)
        if lab.wire == CLEARTEXT:
            found += _packets(lab, load)
    return found


def _compare(lab: Lab, tools: Sequence[peers.Peer], load: Load) -> dict[str, list[Point]]:
    """Return figures of every tool; the order of the tools rotates by one with each run."""
    arrivals: tuple[tuple[str, Arrival], ...] = ((OURS, "constant"), (POISSON, "poisson"))
    points: dict[str, list[Point]] = {}
    failed: set[str] = set()

    def ours(seed: int) -> None:
        for name, arrival in arrivals:
            (window,) = lab.windows(
                "open",
                load.rate_per_s,
                [seed],
                duration_s=load.duration_s,
                arrival=arrival,
                rule=load.rule,
            )
            held = window.completed >= _HELD * window.offered
            raw, free = window.raw, window.stall_free
            points.setdefault(name, []).append(Point(raw.p50_us, raw.p99_us, held))
            if name == OURS:
                points.setdefault(STALL_FREE, []).append(Point(free.p50_us, free.p99_us, held))

    def theirs(tool: peers.Peer) -> None:
        try:
            answer = tool.window(lab, load.rate_per_s, load.duration_s)
        except click.ClickException as error:
            click.echo(f"({error.message.strip()}\n {tool.name} is left out at this rate)")
            points.pop(tool.name, None)
            failed.add(tool.name)
            return
        held = answer.achieved_per_s >= _HELD * load.rate_per_s
        points.setdefault(tool.name, []).append(Point(answer.p50_us, answer.p99_us, held))

    for index in range(load.runs):
        turn = index % (len(tools) + 1)
        order: list[peers.Peer | None] = [None, *tools]
        for tool in order[turn:] + order[:turn]:
            if tool is None:
                ours(index)
            elif tool.name not in failed:
                theirs(tool)
    return points


def _print(rate_per_s: int, points: dict[str, list[Point]]) -> None:
    heads = f"{'p50 µs':>9} {'p99 µs':>9}  ours/its p50   p50 of runs"
    click.echo(f"\n{rate_per_s:>6}/s  {'':18} {heads}")
    base_us = _p50_us(points[OURS])
    for name in sorted(points, key=lambda name: (not name.startswith(OURS), name)):
        rows = points[name]
        p50_us, p99_us = _p50_us(rows), statistics.median(row.p99_us for row in rows)
        each = " ".join(f"{row.p50_us:.0f}" for row in rows)
        note = "" if all(row.held for row in rows) else "  (did not hold the rate)"
        ratio = base_us / p50_us
        click.echo(f"{'':8}  {name:18} {p50_us:9.1f} {p99_us:9.1f}  {ratio:12.2f}   {each}{note}")


def _ratios(
    wire: Wire, rate_per_s: int, points: dict[str, list[Point]], names: Sequence[str], *, calm: bool
) -> list[Finding]:
    """Return the ratios of ours to theirs by run, which cancel drift, and those of the spread."""
    found = []
    where = f"{wire.words} at {rate_per_s}/s"
    for name in names:
        runs = [
            our.p50_us / its.p50_us for our, its in zip(points[OURS], points[name], strict=True)
        ]
        limit = AIMS.get((name, rate_per_s)) if wire == CLEARTEXT else None
        finest = at_most(1.0) if calm else None
        aim = finest if limit is None else at_most(limit)
        found.append(median_of(f"{where}: p50, ours / {name}", runs, aim=aim))
        if len(runs) > 1:
            ratio = _spread(points[STALL_FREE]) / _spread(points[name])
            found.append(Finding(f"{where}: spread of p99, ours / {name}", ratio, "", finest))
    return found


def _spread(rows: Sequence[Point]) -> float:
    """Return the standard deviation of the p99 between runs, in µs."""
    return statistics.stdev(row.p99_us for row in rows)


def _packets(lab: Lab, load: Load) -> list[Finding]:
    """Return the difference of our raw p50 and the capture's, in captured windows."""
    question = f"p50 at {load.rate_per_s}/s: ours − packets in a capture"
    try:
        with capture(lab) as path:
            windows = lab.windows(
                "open",
                load.rate_per_s,
                range(load.runs),
                duration_s=load.duration_s,
                arrival="constant",
            )
        seen = exchanges(path.read_bytes(), lab.port)
        path.unlink()
        pairs = [(window, _packets_us(seen, window)) for window in windows]
    except click.ClickException as error:
        click.echo(f"(no capture at {load.rate_per_s}/s: {error.message})")
        return []
    click.echo(
        f"{'':8}  captured: ours p50 "
        + _list(window.raw.p50_us for window, _ in pairs)
        + ", service "
        + _list(window.service.p50_us for window, _ in pairs)
        + ", packets "
        + _list(wire_us for _, wire_us in pairs)
        + " µs"
    )
    above = [window.raw.p50_us - wire_us for window, wire_us in pairs]
    aim = at_most(WIRE_AIM_US) if load.rate_per_s in AIMED_PER_S else None
    return [median_of(question, above, unit=" µs", aim=aim)]


def _packets_us(seen: Exchanges, window: Measurement) -> float:
    """Return the capture's p50 in a window.

    Raises:
        click.ClickException: the capture and the window have different numbers of requests.
    """
    inside = seen.between(window.started_unix_s, window.duration_s)
    if abs(len(inside.took_ns) - window.offered) > 0.01 * window.offered:
        raise click.ClickException(
            f"the capture holds {len(inside.took_ns)} requests of a window of {window.offered}"
        )
    return float(np.median(inside.took_ns)) / 1e3


def _p50_us(rows: Sequence[Point]) -> float:
    return statistics.median(row.p50_us for row in rows)


def _list(values: Iterable[float]) -> str:
    return " ".join(f"{value:.1f}" for value in values)


def run_all(chosen: options.Options, names: Sequence[str]) -> list[Finding]:
    """Run the comparison over each of these wires, with a separate server."""
    found: list[Finding] = []
    for name in names:
        click.secho(f"\nAccuracy over {name}", bold=True)
        try:
            with open_lab(WIRES[name], path=chosen.peers_dir) as lab:
                found += run(lab, chosen)
        except click.ClickException as error:
            # The findings of the others took minutes and must not be lost.
            click.echo(f"({name}: {error.message})")
    return found


@click.command()
@click.option("--wire", "names", type=click.Choice(list(WIRES)), multiple=True, default=list(WIRES))
@options.common
def main(chosen: options.Options, names: tuple[str, ...]) -> None:
    """Compare the reported latencies of several generators and of a packet capture."""
    finding.show(run_all(chosen, names))


if __name__ == "__main__":
    main()
