"""``tuner dashboard``: open a study's record in optuna-dashboard."""

from __future__ import annotations

import click

from tuner.app import dashboard_server, results
from tuner.app.session import open_store
from tuner.app.web_guard import token_for
from tuner.cli import complete, options
from tuner.errors import DefinitionError, HostError, Interrupted
from tuner.paths import STUDIES
from tuner.report.optunas import in_memory
from tuner.stats.words import counted
from tuner.store.store import sqlite_url

_EPILOG = """
\b
Examples:
  tuner dashboard quickstart
  tuner dashboard quickstart --port 9000
"""


@click.command(epilog=_EPILOG)
@click.argument("name", shell_complete=complete.studies)
@options.storage
@click.option(
    "--host",
    default="127.0.0.1",
    metavar="ADDRESS",
    help="Listen on this address; other than loopback requires a token [127.0.0.1].",
)
@click.option(
    "--port", default=8080, type=click.IntRange(1, 65535), help="Listen on this port [8080]."
)
def command(name: str, storage: str | None, host: str, port: int) -> None:
    """Open the record of the study NAME in optuna-dashboard, until Ctrl-C.

    The study may still run, but use another machine than the one that measures, because the
    dashboard takes CPU time. NAME holds the trials and NAME/blocks the blocks; for a study on
    several hosts they are a copy of the current state. The printed address opens it; with a --host
    that other machines reach it contains a token, which the variable TUNER_TOKEN may set. Requires
    the extra "dashboard": pip install 'servertune[dashboard]'.
    """
    url = storage or sqlite_url(STUDIES / name)
    shown, opened = f"{name} and {name}/blocks", url
    if storage is None and results.is_run(STUDIES / name, name):
        shown = f"the studies of the run {name}"
    else:
        record = open_store(name, storage, writing=False).record()
        if record.hosts:
            # A trial of a shared study holds only its configuration: docs/scale.md.
            shown = f"a copy of {name}, with {counted(len(record.hosts), 'host')}"
            opened = in_memory(record)
    try:
        import optuna_dashboard
    except ImportError as error:
        raise DefinitionError(
            "optuna-dashboard is not installed; run: pip install 'servertune[dashboard]'"
            " (or open report.html, which needs no server)",
            path="tuner dashboard",
        ) from error
    token = token_for(host, "--host")
    url = dashboard_server.address(host, port, token)
    click.echo(f"{url} shows {shown}; press Ctrl-C to stop", err=True)
    try:
        dashboard_server.serve(optuna_dashboard.wsgi(opened), host, port, token)
    except OSError as error:
        raise HostError(
            f"the dashboard cannot listen on {host}:{port}: {error.strerror or error}; use another"
            " --port or --host"
        ) from error
    except (KeyboardInterrupt, Interrupted):
        # As for `tuner proxy`, this is the normal end.
        click.echo("the dashboard has stopped", err=True)
