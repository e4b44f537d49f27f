"""The benefit of the stall rule: the scatter of p99 over identical windows.

A/A windows of one instance at one rate. The standard deviation of ln p99 decides how many blocks a
claim needs: the number of pairs grows with its square (docs/statistics.md).

    python -m benchmarks.stalls
"""

from __future__ import annotations

import math
import statistics

import click
from scipy import stats

from benchmarks import finding, options
from benchmarks.finding import Finding, at_most
from benchmarks.lab import Lab, open_lab
from tuner.measurement.stalls import CYCLES

RATE_PER_S = 5_000
WINDOWS = 10
DURATION_S = 5
AIM = 0.10


def run(lab: Lab, chosen: options.Options) -> list[Finding]:
    """Measure the windows; print both p99 of each.

    Raises:
        click.ClickException: there are too few windows for a standard deviation.
    """
    windows, duration_s = chosen.runs or WINDOWS, chosen.duration_s or DURATION_S
    if windows < 3:
        raise click.ClickException("a standard deviation needs --runs of at least 3")
    found = lab.windows("open", RATE_PER_S, range(windows), duration_s=duration_s, rule=CYCLES)
    click.echo(f"{windows} A/A windows of {duration_s} s at {RATE_PER_S}/s, Poisson arrivals")
    for name, p99_us in (
        ("raw p99, µs", [window.raw.p99_us for window in found]),
        ("stall-free p99, µs", [window.stall_free.p99_us for window in found]),
    ):
        click.echo(f"  {name:20}" + " ".join(f"{value:6.0f}" for value in p99_us))
    shares = " ".join(f"{window.excluded_share:6.1%}" for window in found)
    click.echo(f"  {'excluded':20}{shares}")
    if not all(window.realtime for window in found):
        click.echo("  (without real-time priority the server's core is not watched)")
    for window in found:
        for reason in window.invalid:
            click.echo(f"  (window {window.window_id} would not count in a study: {reason})")
    raw = statistics.stdev(math.log(window.raw.p99_us) for window in found)
    free = statistics.stdev(math.log(window.stall_free.p99_us) for window in found)
    low, high = _interval(free, windows)
    click.echo(f"  95 % interval of the stall-free one: {low:.3f} to {high:.3f} (normal theory)")
    return [
        Finding("A/A: sd of ln p99, stall-free", free, aim=at_most(AIM)),
        Finding("A/A: sd of ln p99, raw", raw),
        Finding("A/A: sd of ln p99, raw / stall-free", raw / free),
        Finding("A/A: pairs for the same claim, raw / stall-free", (raw / free) ** 2),
    ]


def _interval(sd: float, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a standard deviation (chi-square)."""
    degrees = count - 1
    least, most = (float(stats.chi2.ppf(share, degrees)) for share in (0.025, 0.975))
    return sd * math.sqrt(degrees / most), sd * math.sqrt(degrees / least)


@click.command()
@options.common
def main(chosen: options.Options) -> None:
    """Print the scatter of p99 with and without the requests that stalls touched."""
    with open_lab() as lab:
        finding.show(run(lab, chosen))


if __name__ == "__main__":
    main()
