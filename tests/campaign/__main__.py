"""``python -m tests.campaign --faults 100 --seed 1``: faults by the hundred and their effects."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

# Charts are then drawn in the process of the command, and no fork imports it anew.
import altair as alt  # noqa: F401
import click

from tests.campaign.cases import Case, Choice, cases
from tests.campaign.labs import Labs
from tests.campaign.machine import Campaign, Outcome, rows
from tests.campaign.scenarios import SCENARIOS
from tuner.testing.faults import FAULTS

KINDS = tuple(dict.fromkeys(fault.row for fault in FAULTS.values()))
LABS = tuple(dict.fromkeys(scenario.lab for scenario in SCENARIOS))


def main() -> int:
    """Run the campaign, print its table, and return 1 if an invariant is broken."""
    parser = argparse.ArgumentParser(prog="make campaign", description=__doc__)
    parser.add_argument("--faults", type=int, default=100, metavar="N", help="number of cases")
    parser.add_argument("--seed", type=int, default=1, help="seed of everything that is drawn")
    parser.add_argument("--only", type=int, metavar="CASE", help="one case, with its output")
    parser.add_argument("--kind", choices=KINDS, action="append", help="faults of these rows")
    parser.add_argument("--fault", choices=FAULTS, action="append", help="these faults")
    parser.add_argument("--lab", choices=LABS, action="append", help="commands on these labs")
    parser.add_argument("--command", action="append", help="these scenarios")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tuner-campaign-") as kept, Labs() as labs:
        outcomes = list[Outcome]()
        try:
            outcomes.extend(_played(Campaign(Path(kept), labs), given))
        finally:
            _table(outcomes)
    return int(any(outcome.broken for outcome in outcomes))


def _choice(given: argparse.Namespace) -> Choice:
    return Choice(
        [
            each
            for each in SCENARIOS
            if each.lab in (given.lab or LABS) and each.name in (given.command or [each.name])
        ],
        [
            each
            for each in FAULTS.values()
            if each.row in (given.kind or KINDS) and each.name in (given.fault or FAULTS)
        ],
    )


def _played(campaign: Campaign, given: argparse.Namespace) -> Iterator[Outcome]:
    choice = _choice(given)
    known = campaign.lengths(choice.struck())
    began = time.monotonic()
    for count, case in enumerate(cases(given.faults, given.seed, known, choice), 1):
        if given.only not in (None, case.number):
            continue
        outcome = campaign.play(case)
        for words in outcome.broken:
            click.echo(f"{case.words}: {words}")
        if outcome.broken or given.only is not None:
            _show(outcome)
        elif count % 10 == 0:
            left_s = (time.monotonic() - began) / count * (given.faults - count)
            click.echo(f"{count} of {given.faults}; about {left_s:.0f} s left", err=True)
        yield outcome


def _show(outcome: Outcome) -> None:
    _say_case(outcome.case)
    for ended in (*outcome.struck, outcome.resumed):
        struck = "struck" if ended.struck else "not struck"
        click.echo(f"--- {struck}, exit code {ended.code}, {ended.took_s:.1f} s")
        click.echo(ended.out + ended.err)


def _say_case(case: Case) -> None:
    clock = "; real time decides what it meets" if case.fault.by_the_clock else ""
    click.echo(f"{case.words}{clock}")


def _table(outcomes: Sequence[Outcome]) -> None:
    click.echo(f"\n{'kind':20} {'fault':24} {'cases':>6} {'struck':>7} {'held':>6}")
    for row, name, count, struck, held in rows(outcomes):
        click.echo(f"{row:20} {name:24} {count:6} {struck:7} {held:6}")
    if again := sum(outcome.tried_again for outcome in outcomes):
        click.echo(
            f"\nCommands tried again, because the host disturbed all of their windows: {again}"
        )


if __name__ == "__main__":
    sys.exit(main())
