"""``tuner proxy``: run Optuna's gRPC proxy in front of a database, for many workers."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import click

from tuner.cli import options
from tuner.errors import DefinitionError, Interrupted, StoreError
from tuner.store.storage import DEFAULT_PROXY_PORT, open_storage, refuse_unshared, without_secret

_EPILOG = """
\b
Examples:
  tuner proxy --storage postgresql+psycopg://tuner@localhost/tuner
  tuner proxy --listen 10.0.0.5:13000 --threads 64
  tuner worker proxy-study --storage grpc://10.0.0.5:13000
"""


@click.command(epilog=_EPILOG)
@options.storage
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=f"127.0.0.1:{DEFAULT_PROXY_PORT}",
    show_default=True,
    help="Listen on this address. The proxy has no password, so use a trusted network.",
)
@click.option(
    "--threads",
    type=click.IntRange(1, 1024),
    default=32,
    show_default=True,
    help="Serve this number of calls at the same time.",
)
def command(storage: str | None, listen: str, threads: int) -> None:
    """Serve a storage to workers without access to the database.

    Workers connect with --storage grpc://HOST:PORT. The database's password stays on this host, and
    the database has the connections of one process instead of those of every worker.
    """
    refuse_unshared(storage)
    assert storage is not None  # noqa: S101 - refused above
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit():
        raise DefinitionError(f"{listen!r} is not an address; write HOST:PORT", path="--listen")
    opened = open_storage(storage, lambda text: click.echo(text, err=True))
    served = without_secret(storage)
    click.echo(f"serving {served} at grpc://{listen}; press Ctrl-C to stop", err=True)
    try:
        _serve(opened, host, int(port), threads)
    except ImportError as error:
        raise StoreError(
            f"the proxy needs grpcio: pip install 'servertune[grpc]' ({error})"
        ) from None
    except RuntimeError as error:
        raise StoreError(f"the proxy cannot listen on {listen}: {error}") from None
    except (KeyboardInterrupt, Interrupted):
        # This is the normal end, which a service manager must not take for a failure.
        click.echo("the proxy has stopped", err=True)


def _serve(storage: Any, host: str, port: int, threads: int) -> None:
    import optuna

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        optuna.storages.run_grpc_proxy_server(
            storage, host=host, port=port, thread_pool=ThreadPoolExecutor(threads)
        )
