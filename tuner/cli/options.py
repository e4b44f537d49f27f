"""Options that several commands share, named as in a study file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from tuner.cli import complete
from tuner.definition.study_keys import IN_PLACE
from tuner.machine.facts import SERVER_NAMES
from tuner.outputs.formats import DOCUMENT_FORMATS
from tuner.report.tidy_columns import TableName
from tuner.store.storage import refuse_secret

_F = TypeVar("_F", bound=Callable[..., Any])
_SERVERS = ", ".join(SERVER_NAMES)

_BINARY = [
    click.option(
        "--server-binary",
        metavar="PATH",
        multiple=True,
        help="Run this program of the server; in a comparison of servers repeat it, once for each"
        " arm [the installed one].",
        shell_complete=complete.files,
    ),
]
_PROGRAM = [
    click.option(
        "--server-binary",
        "program",
        metavar="PATH",
        help="Use this program of the server [the installed one].",
        shell_complete=complete.files,
    ),
]
_WORKLOAD = [
    click.option(
        "--server",
        metavar="NAME",
        help=f"Test this server: {_SERVERS} [nginx].",
        shell_complete=complete.servers,
    ),
    *_BINARY,
    click.option(
        "--objective",
        metavar="NAME",
        multiple=True,
        help="Judge by p99 or another percentile, throughput, capacity, cpu or memory; repeat it"
        " for two objectives [p99].",
        shell_complete=complete.objectives,
    ),
    click.option(
        "--slo", metavar="LIMIT", help="Latency limit of the objective capacity: 'p99<5ms'."
    ),
    click.option(
        "--constraint",
        metavar="LIMIT",
        multiple=True,
        help="Require a limit: 'memory <= 1.2x baseline', 'errors <= 0.1%'; may be repeated.",
    ),
    click.option(
        "--workload",
        metavar="NAME|FILE",
        help="Offer this workload: a YAML file, or static, proxy, https, site-https, page-http3,"
        " api-two-backends, api-two-backends-h1, file-100k-h1, file-100k-h2, https-proxy-20b,"
        " https-proxy-4k, https-proxy-256k, grpc [as the study says].",
        shell_complete=complete.workloads,
    ),
    click.option(
        "--space",
        metavar="NAME|FILE",
        help="Search the parameters of this space, such as nginx/static [by server and workload].",
        shell_complete=complete.spaces,
    ),
    click.option(
        "--layer",
        metavar="kernel|FILE",
        help="Search the kernel's network settings too; requires root (docs/kernel.md).",
        shell_complete=complete.words("kernel", files=".yaml"),
    ),
    click.option(
        "--rate",
        metavar="N",
        help="Offer N requests/s [the rate at which the server's cores are 70 % busy].",
    ),
    click.option(
        "--connections",
        type=int,
        metavar="N",
        help="Keep N connections open [as the workload says].",
    ),
    click.option(
        "--load",
        metavar="NAME",
        help="Use this load generator: native, wrk2 or h2load [native].",
        shell_complete=complete.loads,
    ),
    click.option(
        "--stalls",
        metavar="WHAT",
        help="Exclude the requests touched by stalls from latencies, or keep them [exclude].",
        shell_complete=complete.stalls,
    ),
    click.option(
        "--time",
        metavar="T",
        help="Limit the whole run to this time, such as 90s or 10m [as the study says].",
    ),
    click.option(
        "--seed", type=int, metavar="N", help="Seed all random choices [drawn and printed]."
    ),
]
_COPIES = [
    click.option(
        "--prefix",
        metavar="PATH=FOLDER",
        multiple=True,
        help="Read FOLDER where the configuration names PATH (/etc/nginx=./copy); repeat it for"
        " further folders [the folder of FILE, if its includes share a path].",
    ),
    click.option(
        "--env-file",
        metavar="FILE",
        help="Read the variables that a Caddyfile names from FILE [the environment].",
        shell_complete=complete.files,
    ),
]
_OWN = [
    click.option(
        "--config",
        metavar="FILE",
        help="Tune the server configuration in FILE.",
        shell_complete=complete.files,
    ),
    click.option(
        "--server-name",
        metavar="NAME",
        help="Tune this server of the configuration [its default server].",
    ),
    click.option(
        "--location",
        metavar="PATH",
        help="Send the workload's requests below PATH, such as /app/ [as the workload has them].",
    ),
    click.option(
        "--root",
        metavar="FOLDER",
        help="Serve its files from FOLDER [the root that it names].",
        shell_complete=complete.folders,
    ),
    *_COPIES,
    click.option(
        "--keep-upstreams",
        is_flag=True,
        default=None,
        help="Use the upstreams that the configuration names [those of the lab].",
    ),
]
_IN_PLACE = [
    click.option(
        "--in-place",
        metavar="WORDS",
        is_flag=False,
        flag_value="",
        help="Tune the target's own service instead of a separate instance. This stops and starts"
        " the service with an experimental configuration for every window, which affects its"
        " users, and always restores its files and state (docs/fleet.md). Requires --inventory"
        f" and these WORDS: {IN_PLACE}.",
    ),
]
_MARGIN = [
    click.option(
        "--margin",
        metavar="SHARE",
        help="Claim no difference smaller than this, in either direction [3%].",
    ),
]
_CONFIRMATION = [
    *_MARGIN,
    click.option(
        "--sequential",
        is_flag=True,
        default=None,
        help="Stop the confirmation once its claim is safe and precise [after all its blocks].",
    ),
]
_ABLATE = [
    click.option(
        "--ablate",
        metavar="auto|off",
        help="Find the changes that matter in what is left of the time after the verdict better,"
        " or leave that to `tuner ablate` [auto].",
        shell_complete=complete.words("auto", "off"),
    ),
]
STORAGE_VARIABLE = "TUNER_STORAGE"
"""Environment variable for ``--storage``, which keeps a password out of process lists."""


def _taken(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return the storage, and hide it from the programs that tuner starts."""
    os.environ.pop(STORAGE_VARIABLE, None)
    source = context.get_parameter_source(parameter.name or "")
    if value is not None and source is click.core.ParameterSource.COMMANDLINE:
        refuse_secret(value)
    return value


_STORAGE = [
    click.option(
        "--storage",
        metavar="URL",
        envvar=STORAGE_VARIABLE,
        callback=_taken,
        help=f"Use this Optuna storage [${STORAGE_VARIABLE}, or SQLite in studies/NAME/].",
    )
]
_SEARCH = [
    click.option(
        "--baseline",
        metavar="NAME|FILE",
        multiple=True,
        help="Compare with stock, distro, hand, published, or a YAML file; repeat it for further"
        " baselines [stock].",
        shell_complete=complete.baselines,
    ),
    click.option(
        "--only",
        multiple=True,
        metavar="PARAMETER",
        help="Search only this parameter, and those that it needs; may be repeated [all].",
        shell_complete=complete.parameters,
    ),
    click.option(
        "--allow",
        multiple=True,
        metavar="PARAMETER",
        help="Search this parameter although it has a trade-off.",
        shell_complete=complete.trades,
    ),
    click.option(
        "--force",
        multiple=True,
        metavar="PARAMETER",
        help="Search this parameter although it is on the never-list.",
        shell_complete=complete.never,
    ),
    click.option(
        "--choose",
        metavar="RULE",
        help="Choose the point of a front by weights or by a limit [the best product of ratios].",
    ),
    click.option(
        "--trials",
        type=int,
        metavar="N",
        help="Try at most N configurations [as many as the time allows].",
    ),
    click.option(
        "--sampler",
        metavar="NAME|MODULE:CLASS",
        help="Let this sampler of Optuna make the proposals: tpe, gp, cmaes, nsgaii, qmc, random,"
        " or a class of your own (docs/sampler.md) [auto: tuner's own search].",
        shell_complete=complete.samplers,
    ),
    click.option(
        "--finalists",
        type=int,
        metavar="N",
        help="Confirm the N best configurations of the search [1].",
    ),
]
_INVENTORY = [
    click.option(
        "--inventory",
        metavar="FILE",
        help="Use the targets, generators and backends of this Ansible inventory [this machine].",
        shell_complete=complete.files,
    ),
]
_CPUS = [
    click.option(
        "--generator-cpus",
        metavar="CPUS",
        help="Run the load generator on these CPUs, such as 0 or 0-3 [one thread of one core].",
    ),
    click.option(
        "--server-cpus",
        metavar="CPUS",
        help="Run the server on these CPUs [the other cores of the memory node].",
    ),
    click.option(
        "--backend-cpus",
        metavar="CPUS",
        help="Run a proxy's backend on these CPUs [a third of the server's cores].",
    ),
    click.option(
        "--idle-cpus",
        metavar="auto|poll|halt",
        help="Let idle CPUs of the serving host poll while it is measured, or halt"
        " [poll on a virtual host].",
        shell_complete=complete.idle_cpus,
    ),
]
_STUDY = [
    click.option(
        "--name",
        help="Name the study and write its results to studies/NAME/ [the study file's name].",
    ),
    *_STORAGE,
    *_INVENTORY,
    *_CPUS,
]
_CI = [
    click.option(
        "--junit",
        metavar="FILE",
        type=Path,
        help="Write JUnit XML for a CI server.",
        shell_complete=complete.files,
    ),
]
_DOCUMENT = [
    click.option(
        "--format",
        "document",
        type=click.Choice(DOCUMENT_FORMATS),
        help="Print the record for another tool, instead of the result.",
    ),
    click.option(
        "--table",
        type=click.Choice(get_args(TableName)),
        help="Print this table with --format csv [windows].",
    ),
    click.option(
        "--arm",
        metavar="ARM",
        help="Print one arm as an hgrm or hlog document [the only one; all].",
    ),
    click.option(
        "--out",
        metavar="FILE",
        type=Path,
        help="Write the document of --format to FILE [standard output].",
    ),
]
_METRICS = [
    click.option(
        "--metrics",
        metavar="ADDRESS",
        help="Serve OpenMetrics of the running study at this HOST:PORT, such as 127.0.0.1:9464.",
    ),
]
_DRY_RUN = [
    click.option(
        "--dry-run",
        "dry",
        is_flag=True,
        help="Show what would be measured, send each configuration one request of each kind, and"
        " stop.",
    ),
]
_FOREIGN = [
    click.option(
        "--foreign",
        is_flag=True,
        help="Accept a record that another user or machine made [ask].",
    ),
]
_WAIT = [
    click.option(
        "--wait",
        is_flag=True,
        help="Wait until no other study uses the same cores [exit with code 3].",
    ),
]
_OUTPUT = [
    click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
    click.option("--quiet", "-q", is_flag=True, help="Print no progress."),
]


def study_file(function: _F) -> _F:
    """Add ``--study FILE``, a YAML file with these options."""
    option = click.option(
        "--study",
        "study_file",
        metavar="FILE|NAME",
        help="Read these options from a study file; options override it [static; for optimize"
        " without --config, quickstart].",
        shell_complete=complete.study_files,
    )
    return option(function)


def workload(function: _F) -> _F:
    """Add the options for server, workload and duration."""
    return _apply(function, _WORKLOAD)


def server_binary(function: _F) -> _F:
    """Add the option for the program of a study's server."""
    return _apply(function, _BINARY)


def program(function: _F) -> _F:
    """Add the option for the program of a server that is not measured against another."""
    return _apply(function, _PROGRAM)


def own(function: _F) -> _F:
    """Add the options for the user's own configuration."""
    return _apply(function, _OWN)


def copies(function: _F) -> _F:
    """Add the options for a configuration that was copied from another machine."""
    return _apply(function, _COPIES)


def in_place(function: _F) -> _F:
    """Add the option for tuning the target's own service."""
    return _apply(function, _IN_PLACE)


def margin(function: _F) -> _F:
    """Add the option for the smallest difference worth having."""
    return _apply(function, _MARGIN)


def confirmation(function: _F) -> _F:
    """Add the options for the confirmation."""
    return _apply(function, _CONFIRMATION)


def ablate(function: _F) -> _F:
    """Add the option for the ablation in a study's time."""
    return _apply(function, _ABLATE)


def storage(function: _F) -> _F:
    """Add the option for the storage of an existing study."""
    return _apply(function, _STORAGE)


def inventory(function: _F) -> _F:
    """Add the options for the hosts of a worker, and for their CPUs."""
    return _apply(function, [*_INVENTORY, *_CPUS])


def cpus(function: _F) -> _F:
    """Add the options for the CPUs of generator, server and backend, and for idle ones."""
    return _apply(function, _CPUS)


def search(function: _F) -> _F:
    """Add the options for the search."""
    return _apply(function, _SEARCH)


def study(function: _F) -> _F:
    """Add the options for the name, storage, hosts and CPUs of a study."""
    return _apply(function, _STUDY)


def dry_run(function: _F) -> _F:
    """Add the option that starts no study and writes no files."""
    return _apply(function, _DRY_RUN)


def foreign(function: _F) -> _F:
    """Add the option that accepts a record from elsewhere."""
    return _apply(function, _FOREIGN)


def wait(function: _F) -> _F:
    """Add the option that queues the command behind another study."""
    return _apply(function, _WAIT)


def output(function: _F) -> _F:
    """Add the options for output."""
    return _apply(function, _OUTPUT)


def document(function: _F) -> _F:
    """Add the options for a document for another tool."""
    return _apply(function, _DOCUMENT)


def metrics(function: _F) -> _F:
    """Add the option for metrics of running studies."""
    return _apply(function, _METRICS)


def ci(function: _F) -> _F:
    """Add the options for CI servers."""
    return _apply(function, _CI)


def _apply(function: _F, options: list[Callable[[Any], Any]]) -> _F:
    for option in reversed(options):
        function = option(function)
    return function
