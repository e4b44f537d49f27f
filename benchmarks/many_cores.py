"""The generator on many cores, as far as the cores of this machine can show it.

``loadgen/benches/many_cores`` measures the code of the generator itself, in a process of its own
for each part and without a server:

- the claim of a request from the schedule that all threads share, by one thread, two and sixteen,
  which do nothing else;
- the tickers of one core and of sixty-four, which share the cores that there are;
- the memory and the gap between windows at 1,000,000 requests/s.

    python -m benchmarks.many_cores
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from benchmarks import finding, options
from benchmarks.finding import Finding, at_most, median_of
from benchmarks.lab import setting

Round = dict[str, Any]
"""Raw figures of a round, as the Rust program prints them."""

RUNS = 5
THREADS = 16
RATE_PER_S = 1_000_000
SHARE_NS = THREADS * 1e9 / RATE_PER_S
"""Time of a thread for each of its requests, if sixteen threads send at this rate: 16 µs. Of two
threads each has 2 µs."""
CLAIM_AIM = 0.2
"""Largest share of it that a claim may take."""
TICKER_AIM = 0.02
"""Largest share of a server's core that its ticker may take."""
_MANIFEST = Path(__file__).parents[1] / "loadgen" / "Cargo.toml"


def measure(part: str, runs: int) -> list[Round]:
    """Return the figures of a part, round by round.

    Raises:
        click.ClickException: it could not be built or run.
    """
    command = ["cargo", "bench", "--quiet", "--locked", "--manifest-path", str(_MANIFEST)]
    command += ["--bench", "many_cores", "--", part, str(runs)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise click.ClickException(f"cargo: {error.strerror}") from error
    if done.returncode != 0:
        raise click.ClickException(f"{' '.join(command)} failed:\n{done.stderr}")
    found: list[Round] = json.loads(done.stdout)
    return found


def _ratio(
    question: str, rounds: Iterable[Round], of: Callable[[Round], float], **how: Any
) -> Finding:
    return median_of(question, [of(one) for one in rounds], **how)


def claims(rounds: list[Round]) -> list[Finding]:
    """Return what a claim costs, by the number of threads, and what it could cost sixteen cores."""
    return [
        _ratio("claim: uncontended", rounds, lambda r: r["claim_ns"]["alone"], unit=" ns"),
        _ratio("claim: two cores / alone", rounds, lambda r: _to_alone(r, "claim_ns", "two")),
        _ratio("claim: 16 threads / alone", rounds, lambda r: _to_alone(r, "claim_ns", "sixteen")),
        _ratio(
            "claim: two cores / two cores with a schedule each",
            rounds,
            lambda r: r["claim_ns"]["two"] / r["claim_ns"]["apart"],
        ),
        _ratio("a cache line from core to core", rounds, lambda r: r["transfer_ns"], unit=" ns"),
        _ratio(
            "claim: 16 threads / a request's 16 µs",
            rounds,
            lambda r: r["claim_ns"]["sixteen"] / SHARE_NS,
            aim=at_most(CLAIM_AIM),
        ),
        _ratio(
            "claim: bound for 16 cores / a request's 16 µs",
            rounds,
            lambda r: bound_ns(r) / SHARE_NS,
            aim=at_most(CLAIM_AIM),
        ),
        _ratio(
            "claim: time of the shared line at 1,000,000/s on 16 cores, at most",
            rounds,
            line_share,
            aim=at_most(1.0),
        ),
        _ratio(
            "claim and record: two cores / alone",
            rounds,
            lambda r: _to_alone(r, "books_ns", "two"),
        ),
        _ratio(
            "claim and record: what a second core adds / a request's 2 µs",
            rounds,
            lambda r: (r["books_ns"]["two"] - r["books_ns"]["alone"]) / (2e9 / RATE_PER_S),
            aim=at_most(CLAIM_AIM),
        ),
        *_paced(rounds),
    ]


def bound_ns(one: Round) -> float:
    """Return the largest cost of a claim on sixteen cores that share a cache.

    In the worst case all other threads take the line once between a thread's look at the next
    request and its claim, and the line is handed on one by one.
    """
    return float(one["claim_ns"]["alone"] + THREADS * one["transfer_ns"])


def line_share(one: Round) -> float:
    """Return the share of time in which the line travels, if all threads take it for each request.

    They would have to be idle, all of them, and try to claim each request. Above 1 the shared
    schedule could be the limit.
    """
    return float(THREADS * one["transfer_ns"] * RATE_PER_S / 1e9)


def _to_alone(one: Round, what: str, case: str) -> float:
    return float(one[what][case] / one[what]["alone"])


def _paced(rounds: list[Round]) -> list[Finding]:
    """Return how late requests are claimed at the rate, and how many claims are lost to others."""
    found = []
    for place, threads in enumerate((1, 2, THREADS)):
        title = (
            f"claim at 1,000,000/s by {threads} threads" if threads > 1 else "claim at 1,000,000/s"
        )
        paced = [one["paced"][place] for one in rounds]
        late_ns = [float(one["late_p50_ns"]) for one in paced]
        found.append(median_of(f"{title}: p50 of the lateness", late_ns, unit=" ns"))
        if threads > 1:
            lost = [float(one["lost"]) for one in paced]
            found.append(median_of(f"{title}: claims lost / won", lost))
    return found


def tickers(rounds: list[Round]) -> list[Finding]:
    """Return what a ticker takes from its core, alone and as one of sixty-four."""
    if any(one["share_of_one"] is None for one in rounds):
        click.echo("(tickers need real-time priority: left out)")
        return []
    return [
        _ratio(
            "ticker: share of its core",
            rounds,
            lambda r: r["share_of_one"],
            aim=at_most(TICKER_AIM),
        ),
        _ratio(
            "ticker: share of one among 64 on these cores",
            rounds,
            lambda r: r["share_of_many"] / r["tickers_on_core"],
            aim=at_most(TICKER_AIM),
        ),
        _ratio("tickers: start and end of 64", rounds, lambda r: r["start_many_ms"], unit=" ms"),
        _ratio(
            "tickers: start and end, 64 / one",
            rounds,
            lambda r: r["start_many_ms"] / r["start_one_ms"],
        ),
        _ratio(
            "tickers of another host: share of a core for the reader of 64",
            rounds,
            lambda r: r["reader_of_many_share"],
            aim=at_most(TICKER_AIM),
        ),
        _ratio(
            "tickers of another host: reader of 64 / of one",
            rounds,
            lambda r: r["reader_of_many_share"] / r["reader_of_one_share"],
        ),
    ]


def gaps(rounds: list[Round]) -> list[Finding]:
    """Return the work between windows and the memory, at 1,000,000 requests/s."""
    found = []
    for title, windows in (
        ("alone", [one["alone"][0] for one in rounds]),
        ("two in slices", [one["slices"] for one in rounds]),
    ):
        shares = [_gap_s(window) for window in windows]
        found.append(median_of(f"gap / window at 1,000,000/s, {title}", shares))
    twice = [_gap_s(one["alone"][1]) / _gap_s(one["alone"][0]) for one in rounds]
    found.append(median_of("gap by request: window of 2 s / of 1 s", twice))
    largest = max(one["slices"]["requests"] for one in rounds)
    bytes_each = max(one["peak_bytes"] for one in rounds) / largest
    return [*found, Finding("memory: peak by request", bytes_each, " B")]


def _gap_s(window: Round) -> float:
    """Return the time between windows for a second of the window."""
    steps = ("schedule_ns", "record_ns", "samples_ns", "figures_ns")
    return float(sum(window[step] for step in steps)) * RATE_PER_S / 1e9


def run(chosen: options.Options) -> list[Finding]:
    """Measure all parts."""
    runs = chosen.runs or RUNS
    return [
        *claims(measure("claim", runs)),
        *tickers(measure("ticker", runs)),
        *gaps(measure("gap", runs)),
    ]


@click.command()
@options.only_runs
def main(chosen: options.Options) -> None:
    """Measure what many cores cost the generator."""
    click.echo(setting())
    finding.show(run(chosen))


if __name__ == "__main__":
    main()
