"""``python -m tests.campaign --faults 100 --seed 1``: faults by the hundred on a simulated lab."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import click

from tests.campaign.machine import Campaign, Outcome, cases, rows


def main() -> int:
    """Run the campaign, print its table, and return 1 if an invariant is broken."""
    parser = argparse.ArgumentParser(prog="make campaign", description=__doc__)
    parser.add_argument("--faults", type=int, default=100, metavar="N", help="number of cases")
    parser.add_argument("--seed", type=int, default=1, help="seed of everything that is drawn")
    parser.add_argument("--only", type=int, metavar="CASE", help="one case, with its output")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tuner-campaign-") as kept:
        outcomes = _play(Campaign(Path(kept)), given)
    click.echo(f"\n{'row':22} {'fault':18} {'cases':>6} {'broken':>7}")
    for row, name, count, broken in rows(outcomes):
        click.echo(f"{row:22} {name:18} {count:6} {broken:7}")
    return int(any(outcome.broken for outcome in outcomes))


def _play(campaign: Campaign, given: argparse.Namespace) -> list[Outcome]:
    known = campaign.lengths()
    outcomes: list[Outcome] = []
    began = time.monotonic()
    for case in cases(given.faults, given.seed, known):
        if given.only not in (None, case.number):
            continue
        outcome = campaign.play(case)
        outcomes.append(outcome)
        for words in outcome.broken:
            click.echo(f"{case.words}: {words}")
        if given.only is not None:
            for ended in (*outcome.struck, outcome.resumed):
                click.echo(
                    f"--- exit code {ended.code}, {ended.took_s:.1f} s\n{ended.out}{ended.err}"
                )
        elif len(outcomes) % 10 == 0:
            each_s = (time.monotonic() - began) / len(outcomes)
            left_s = each_s * (given.faults - len(outcomes))
            click.echo(f"{len(outcomes)} of {given.faults}; about {left_s:.0f} s left", err=True)
    return outcomes


if __name__ == "__main__":
    sys.exit(main())
