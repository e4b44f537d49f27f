"""``tuner rollback``: restore the files that ``tuner apply`` replaced."""

from __future__ import annotations

import time

import click

from tuner.app.reached import reached
from tuner.app.session import open_store
from tuner.cli import complete
from tuner.errors import HostError
from tuner.hosts.inventory import limited, read_inventory
from tuner.record.model import Applied

_EPILOG = """
\b
Examples:
  tuner rollback mine --inventory prod.yml
  tuner rollback mine --inventory prod.yml --limit web1
"""


@click.command(epilog=_EPILOG)
@click.argument("name", shell_complete=complete.studies)
@click.option(
    "--inventory",
    required=True,
    metavar="FILE",
    help="Use the hosts of the group targets.",
    shell_complete=complete.files,
)
@click.option(
    "--limit", metavar="HOSTS", help="Restore only hosts a,b; or all except '!a,!b' [all hosts]."
)
@click.option("--storage", metavar="URL", help="Use this Optuna storage [SQLite in studies/NAME/].")
def command(name: str, *, inventory: str, limit: str | None, storage: str | None) -> None:
    """Restore the files that `tuner apply NAME` replaced on the hosts of an inventory.

    Changes nothing on a host that this study did not change, so it is safe to run at any time.
    """
    store = open_store(name, storage)
    hosts = read_inventory(inventory, generators=False)
    among = limited(hosts.targets, limit)
    with reached(hosts) as there:
        click.echo(f"restoring: {', '.join(host.name for host in among)}", err=True)
        given = there.services.give_back(among, f"{name} ")
    for host, paths in given.files.items():
        words = f"restored {', '.join(paths)}" if paths else f"no files of {name} to restore"
        click.echo(f"{host}: {words}")
        if paths:
            store.add_applied(Applied(host, time.time(), "rolled back", tuple(paths), name))
    if given.failed:
        words = "; ".join(f"{host}: {reason}" for host, reason in given.failed.items())
        raise HostError(f"not rolled back: {words}; fix this, then run the same command again")
