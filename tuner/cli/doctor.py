"""``tuner doctor``: whether this machine can measure, and how finely."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import click

from tuner.cli.notes import noise_notes
from tuner.cli.session import sweep_strays
from tuner.errors import HostError, TunerError
from tuner.facts import split_cores
from tuner.hosts import local
from tuner.load.native import NativeGenerator
from tuner.paths import data_dir, loadgen_binary
from tuner.servers import nginx
from tuner.stalls import StallRule

_OK, _WARN, _FAIL = "ok", "warning", "missing"
Row = tuple[str, str, str]
"""What was looked at, how it is, and what it means."""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(as_json: bool) -> None:
    """Say whether this machine can run a study, and what will limit its precision.

    Ends with exit code 3 if something that is needed is missing.
    """
    rows = [row for check in _CHECKS for row in _safely(check)]
    if as_json:
        keys = ("what", "state", "text")
        click.echo(json.dumps([dict(zip(keys, row, strict=True)) for row in rows], indent=2))
    else:
        for what, state, text in rows:
            colour = {_OK: "green", _WARN: "yellow", _FAIL: "red"}[state]
            click.echo(f"{what:<12} {click.style(f'{state:<8}', fg=colour)} {text}")
    if any(state == _FAIL for _, state, _ in rows):
        raise HostError("this machine cannot run a study yet; see what is missing above")


def _safely(check: Callable[[], list[Row]]) -> list[Row]:
    try:
        return check()
    except TunerError as error:
        return [(check.__name__.strip("_"), _FAIL, str(error))]


def _host() -> list[Row]:
    host = local.facts()
    cores = split_cores(host.cpus, backend=False)
    text = f"{host.cpu_model}, {len(host.cpus)} cores, {host.distribution}, Linux {host.kernel}"
    rows = [
        ("host", _OK, f"{text}; virtualisation: {host.virtualisation}"),
        (
            "cores",
            _WARN if cores.shared else _OK,
            "one core for both: figures are raw and coarse"
            if cores.shared
            else f"generator {cores.generator}, server {cores.server}",
        ),
        (
            "real time",
            _OK if host.realtime else _WARN,
            "allowed: stalls of the server's cores are seen"
            if host.realtime
            else "not allowed: stalls of the server's cores are not seen; run as root, or grant"
            " CAP_SYS_NICE to tuner-loadgen",
        ),
        ("open files", _OK if host.file_limit >= 4096 else _WARN, f"limit {host.file_limit}"),
    ]
    return [*rows, *(("strays", _WARN, done) for done in sweep_strays())]


def _nginx() -> list[Row]:
    server = nginx.detect()
    return [("nginx", _OK, f"{server.version} at {server.binary}")]


def _ansible() -> list[Row]:
    beside = Path(sys.executable).parent / "ansible-playbook"
    found = beside if beside.exists() else shutil.which("ansible-playbook")
    if found is None:
        raise HostError("ansible-playbook is missing; install tuner again (pip install tuner)")
    return [("ansible", _OK, f"{found}, playbooks in {data_dir('playbooks')}")]


def _generator() -> list[Row]:
    binary = loadgen_binary()
    cores = split_cores(local.facts().cpus, backend=False)
    generator = NativeGenerator(binary, cores, StallRule())
    rows: list[Row] = [("generator", _OK, f"{generator.name} at {binary}")]
    return [*rows, *(("noise", _OK, note) for note in noise_notes(generator))]


def _ports() -> list[Row]:
    ports = local.free_ports(8)
    return [("ports", _OK, f"{ports[0]} to {ports[-1]} are free on loopback")]


_CHECKS = (_host, _nginx, _ansible, _generator, _ports)
