"""``tuner doctor``: whether this machine can measure, and how finely."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import click

from tuner.app import turn
from tuner.app.notes import noise_notes
from tuner.app.printing import print_json
from tuner.app.progress import TerminalProgress
from tuner.cli.lint import lint_command
from tuner.errors import HostError, TunerError
from tuner.hosts import local
from tuner.load.native import NativeGenerator
from tuner.load.self_test import self_test
from tuner.machine.facts import split_cores
from tuner.measurement.stalls import StallRule
from tuner.paths import data_dir, loadgen_binary
from tuner.reading.printable import printable, printable_lines
from tuner.servers.catalog import SERVERS
from tuner.words.terminal import say_styled

_SELF_TEST_S = 18.0
_OK, _WARN, _FAIL = "ok", "warning", "missing"
Row = tuple[str, str, str]
"""What was looked at, how it is, and what it means."""
Check = Callable[[], list[Row]]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@click.option("--quick", is_flag=True, help="Leave the generator's self-test out.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Instead, say what a configuration has plainly wrong.",
)
@click.option("--server", metavar="NAME", help="Whose configuration it is [by its name].")
@turn.option
def command(as_json: bool, quick: bool, config: Path | None, server: str | None) -> None:
    r"""Say whether this machine can run a study, and what will limit its precision.

    Among others, the load generator is put to a responder whose every answer is known, on the
    cores that a study would use (about 20 seconds; `tuner-loadgen self-test` tells more).

    Ends with exit code 3 if something that is needed is missing.

    With --config, a configuration is read instead, with all that it includes, and held against
    this host: file, line, what is wrong, why, and the way out. Nothing is started. Ends with exit
    code 1 if something is plainly wrong, 0 if at most something is doubtful.

    \b
    Examples:
      tuner doctor
      tuner doctor --quick --json
      tuner doctor --config /etc/nginx/nginx.conf
      tuner doctor --config Caddyfile --json
    """
    if config is not None:
        lint_command(config, server, as_json=as_json)
        return
    checks: tuple[Check, ...] = _CHECKS if quick else (*_CHECKS, _self_test)
    rows, quiet = _alone()
    if not quiet:
        checks = tuple(check for check in checks if check not in _MEASURING)
    rows += [row for check in checks for row in _safely(check)]
    if as_json:
        keys = ("what", "state", "text")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
    else:
        for what, state, text in rows:
            colour = {_OK: "green", _WARN: "yellow", _FAIL: "red"}[state]
            shown = click.style(f"{state:<8}", fg=colour)
            say_styled(f"{printable(f'{what:<12}')} {shown} {printable_lines(text)}")
    if any(state == _FAIL for _, state, _ in rows):
        raise HostError("this machine cannot run a study yet; see what is missing above")


def _alone() -> tuple[list[Row], bool]:
    """What was left by dead studies, or which study measures now; and whether none does."""
    try:
        return [("strays", _WARN, done) for done in turn.look_here(TerminalProgress())], True
    except HostError as error:
        return [("cores", _WARN, f"{error}; nothing was measured")], False


def _safely(check: Callable[[], list[Row]]) -> list[Row]:
    try:
        return check()
    except TunerError as error:
        return [(check.__name__.strip("_"), _FAIL, str(error))]


def _host() -> list[Row]:
    host = local.facts()
    cores = split_cores(host.cpus, backend=False)
    text = f"{host.cpu_model}, {len(host.cpus)} cores, {host.distribution}, Linux {host.kernel}"
    return [
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


def _servers() -> list[Row]:
    """One server is enough; what the others would need is told."""
    found: list[Row] = []
    absent: list[Row] = []
    for name, adapter in SERVERS.items():
        try:
            server = adapter.detect()
        except HostError as error:
            absent.append((name, _FAIL, str(error)))
        else:
            found.append((name, _OK, f"{server.version} at {server.binary}"))
    if not found:
        return absent
    return [*found, *((name, _OK, f"not tunable here: {text}") for name, _, text in absent)]


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


def _self_test() -> list[Row]:
    cores = split_cores(local.facts().cpus, backend=False)
    found = self_test(loadgen_binary(), cores, _SELF_TEST_S)
    state = _OK if found.fit else _WARN
    worst = "unknown" if found.worst_error is None else f"{found.worst_error:.2%}"
    held = "none" if found.open_per_s is None else f"{found.open_per_s:,.0f}/s"
    parts = f"{_us(found.noise_us)} of noise between windows, {_us(found.pacing_us)} of pacing"
    verdict = (
        f"fit for p99 differences above {_us(found.above_us)} on this host ({parts})"
        if found.fit
        else f"not fit for fine differences of p99 on this host ({parts})"
    )
    shared = "; one core for both: nothing is left out" if found.shared_core else ""
    figures = (
        f"floor p50 {_us(found.floor_p50_us)}, p99 {_us(found.floor_p99_us)}; percentiles within"
        f" {worst} of theory; one thread holds {held}, closed loop {found.closed_per_s:,.0f}/s"
    )
    return [
        ("instrument", state, verdict),
        *(("", state, reason) for reason in found.reasons),
        ("", state, figures + shared),
    ]


def _us(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.0f} µs"


def _ports() -> list[Row]:
    ports = local.free_ports(8)
    return [("ports", _OK, f"{ports[0]} to {ports[-1]} are free on loopback")]


_MEASURING = (_generator, _self_test)
_CHECKS = (_host, _servers, _ansible, _generator, _ports)
