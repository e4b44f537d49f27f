"""``tuner apply``: apply a study's recommendation to hosts, one after another."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from tuner.app.caller import Caller
from tuner.app.canary import FIGURES, ProbeOptions, Probes, metric_of, read_figure
from tuner.app.planning import HostPlan, planned, wanted
from tuner.app.provenance import confirm_applying
from tuner.app.reached import Reached, reached
from tuner.app.recommended import FORCEABLE, Recommended, recommended
from tuner.app.roll_out import RollOut
from tuner.app.session import open_store
from tuner.cli import complete, options
from tuner.cli.callers import as_caller
from tuner.cli.groups import GroupedCommand
from tuner.errors import DefinitionError
from tuner.goals.constraint import Constraint
from tuner.hosts.inventory import limited, read_inventory
from tuner.judge.results import evaluate
from tuner.servers.catalog import server as server_of
from tuner.store.store import Store

_EPILOG = """
\b
Examples:
  tuner apply mine --inventory prod.yml --check
  tuner apply mine --inventory prod.yml --canary 1 --watch 'p99<5ms' \\
    --probe http://{host}/
  tuner apply mine --inventory prod.yml --yes
  tuner apply mine --inventory prod.yml --limit '!web3'
  tuner apply mine --inventory prod.yml --force-verdict equivalent
  tuner rollback mine --inventory prod.yml
"""


@click.command(cls=GroupedCommand, epilog=_EPILOG)
@click.argument("name", shell_complete=complete.studies)
@click.option(
    "--inventory",
    required=True,
    metavar="FILE",
    help="Use the hosts of the group targets.",
    shell_complete=complete.files,
)
@click.option(
    "--limit", metavar="HOSTS", help="Change only hosts a,b; or all except '!a,!b' [all hosts]."
)
@click.option("--diff", is_flag=True, help="Show the change on each host without making it.")
@click.option(
    "--check",
    is_flag=True,
    help="Like --diff, and validate the result with each host's own server.",
)
@click.option(
    "--yes", is_flag=True, help="Do not ask for confirmation; required without a terminal."
)
@options.foreign
@click.option(
    "--canary", type=click.IntRange(1), metavar="N", help="Change N hosts, then stop [all hosts]."
)
@click.option(
    "--watch", metavar="LIMIT", help="Restore all hosts if a host misses this limit: 'p99<5ms'."
)
@click.option(
    "--probe",
    metavar="URL",
    default="http://{host}/",
    help="Request this URL of each host before and after its change [http://{host}/].",
)
@click.option(
    "--probes",
    type=click.IntRange(10, 1_000_000),
    default=2_000,
    help="Send this number of requests before and after the change [2000].",
)
@click.option(
    "--probe-rate",
    type=click.FloatRange(1, 10_000),
    default=100.0,
    metavar="RATE",
    help="Send this number of requests/s [100].",
)
@click.option(
    "--file",
    "target",
    metavar="PATH",
    help="Main configuration file on the hosts [the server's usual one].",
)
@click.option(
    "--service", metavar="NAME", help="Name of the service on the hosts [the server's name]."
)
@click.option(
    "--figure",
    metavar="NAME",
    help=f"Compare this figure before and after: {FIGURES} [the study's objective].",
)
@click.option(
    "--server-name",
    default="",
    metavar="NAME",
    help="Change this server of the hosts' files, for a study of the lab [the default server].",
)
@click.option(
    "--force-verdict",
    "accepted",
    type=click.Choice(FORCEABLE),
    help="Apply the tuned configuration although the verdict is this one [only better].",
)
@click.option(
    "--candidate",
    is_flag=True,
    help="Apply all changes, also those that an ablation left out [the recommended ones].",
)
@click.option("--storage", metavar="URL", help="Use this Optuna storage [SQLite in studies/NAME/].")
@as_caller
def command(
    name: str,
    *,
    caller: Caller,
    inventory: str,
    limit: str | None,
    diff: bool,
    check: bool,
    yes: bool,
    canary: int | None,
    watch: str | None,
    probe: str,
    probes: int,
    probe_rate: float,
    figure: str | None,
    target: str | None,
    service: str | None,
    server_name: str,
    accepted: str | None,
    candidate: bool,
    storage: str | None,
) -> None:
    """Apply the recommended configuration of the study NAME to the hosts of an inventory.

    Requires the verdict "better". After an ablation, applies only the smallest difference that
    keeps the gain. Reads each host's files and merges the change into them, so that
    the host's own lines stay; refuses a conflict with its file and line. For a study of the lab,
    sets the changed settings in the host's own files. Each host's own server validates the result
    before a file is replaced. Shows the change, then asks for confirmation. Changes no host if
    one is refused, unless --limit leaves that one out.

    Changes one host after another: probe, back up, replace, validate, reload, probe again. Restarts
    the service instead if a changed setting, or the environment of its process, needs it. Restores
    every changed host, byte for byte, if a server refuses its files, does not run with them, or
    performs worse than before. The hosts restore themselves if tuner ends before the roll-out does.
    Use `tuner rollback` to restore them later. The study's record lists all changes.
    """
    shows_only = diff or check
    if not (yes or shows_only or sys.stdin.isatty()):
        raise DefinitionError(
            "no terminal to ask for confirmation; preview the change with --check, then pass --yes",
            path="--yes",
        )
    store = open_store(name, storage)
    record = store.record()
    confirm_applying(record, caller, shows_only=shows_only)
    given = recommended(evaluate(record), name, accepted, candidate=candidate)
    gained = given.study.gained
    asked = ProbeOptions(
        probe,
        probes,
        probe_rate,
        metric_of(gained) if figure is None else read_figure(figure),
        _limit(watch),
        claimed=gained.slo,
    )
    hosts = read_inventory(inventory, generators=False)
    want = wanted(
        given, inventory=inventory, target=target, service=service, server_name=server_name
    )
    among = limited(hosts.targets, limit)
    chosen = among[:canary] if canary else among
    with reached(hosts) as there:
        found = planned(chosen, want, there.agent, there.home, validate=check or not diff)
        plans = found.plans
        _show([*given.statements(), *asked.statements], plans)
        found.check(among, limit)
        if shows_only:
            return
        if any(plan.is_needed for plan in plans) and not yes:
            click.confirm("apply these changes?", abort=True)
        program = server_of(given.record.server.name).usual_place.service
        judge = Probes(asked, lambda host: there.agent(host).usage(program))
        _roll_out(there, given, store, judge).run(plans, among[len(chosen) :])
    left = [host.name for host in hosts.targets if host not in chosen]
    if left:
        click.echo(f"not changed (--limit, --canary): {', '.join(left)}")


def _roll_out(there: Reached, given: Recommended, store: Store, judge: Probes) -> RollOut:
    return RollOut(
        there.services,
        judge,
        store.add_applied,
        given.claim,
        say=click.echo,
        note=lambda words: click.echo(words, err=True),
    )


def _show(statements: Sequence[str], plans: Sequence[HostPlan]) -> None:
    for statement in statements:
        click.echo(f"note: {statement}", err=True)
    for plan in plans:
        click.echo(plan.words, nl=False)


def _limit(text: str | None) -> Constraint | None:
    """Return the limit of ``--watch``.

    Raises:
        DefinitionError: the text is not a limit, or a probe cannot measure its metric.
    """
    if text is None:
        return None
    try:
        limit = Constraint.parse(text)
    except ValueError as error:
        raise DefinitionError(str(error), path="--watch") from error
    if limit.metric.quantile is None or limit.relative:
        raise DefinitionError(
            f"{text!r}: a probe measures only latencies; write a percentile and a time, such as"
            " 'p99<5ms'",
            path="--watch",
        )
    return limit
