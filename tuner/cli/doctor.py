"""``tuner doctor``: check whether this machine can measure, and with which precision."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import click

from tuner.app import server_binary
from tuner.app.caller import Caller
from tuner.app.cpu_notes import cpu_notes
from tuner.app.fleet_look import look_at_fleet
from tuner.app.host_noise import measure_here
from tuner.app.notes import speed_lost_to_generator, speeds_here, watched_stalls
from tuner.app.printing import print_json
from tuner.app.turn import look_here
from tuner.cli import complete, options
from tuner.cli.callers import as_caller
from tuner.cli.lint import lint_command
from tuner.errors import DefinitionError, HostError, TunerError
from tuner.generators.native import NativeGenerator
from tuner.generators.self_test import self_test
from tuner.hosts import idle_polling, local
from tuner.judge.claimable import (
    FROM_CORES,
    STUDY_S,
    Claimable,
    CoreSpeed,
    CoreStalls,
    claimable,
    from_stalls,
    touched_share,
)
from tuner.machine.facts import DEFAULT_SERVER, CoreSplit, ServerFacts
from tuner.machine.idle import AUTO as BY_HOST
from tuner.machine.idle import refusal_to_poll
from tuner.machine.placement import place
from tuner.machine.topology import Topology
from tuner.measurement.stalls import StallRule
from tuner.own.server import OwnOptions
from tuner.paths import data_dir, loadgen_binary
from tuner.reading.printable import printable, printable_lines
from tuner.servers.catalog import SERVERS
from tuner.servers.catalog import server as server_of
from tuner.servers.server import Server
from tuner.space.space import spaces
from tuner.words.drawing import drawn
from tuner.words.figures import cores as cores_in_words
from tuner.words.terminal import say_styled

_SELF_TEST_S = 18.0
_OK, _WARN, _FAIL = "ok", "warning", "missing"


@dataclass(frozen=True, slots=True)
class DoctorRow:
    """A row of the result."""

    what: str
    """Subject; empty if the row continues the previous one."""
    state: str
    text: str
    figures: Mapping[str, object] = field(default_factory=dict)
    """Further JSON keys; figures have the unit in the name."""

    def as_dict(self) -> dict[str, object]:
        """Return the row as JSON data."""
        return {"what": self.what, "state": self.state, "text": self.text, **self.figures}


MakeRows = Callable[[], list[DoctorRow]]

_EPILOG = """
\b
Examples:
  tuner doctor
  tuner doctor --quick --json
  tuner doctor --inventory hosts.yml
  tuner doctor --server-binary ./new/nginx
  tuner doctor --config /etc/nginx/nginx.conf
  tuner doctor --config Caddyfile --json
  tuner doctor --config ./copy/nginx.conf --prefix /etc/nginx=./copy
  tuner doctor --config /etc/nginx/nginx.conf --sarif lint.sarif
"""


@click.command(epilog=_EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option(
    "--quick",
    is_flag=True,
    help="Estimate the noise from the cores' stalls and speed instead of measuring it, and skip"
    " the self-test.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Find mistakes in this configuration instead of checking the machine.",
)
@click.option(
    "--server",
    metavar="NAME",
    help="Check this server alone, or name the server of --config or --server-binary [all servers;"
    " guessed from the file; nginx].",
    shell_complete=complete.servers,
)
@options.program
@options.copies
@click.option(
    "--sarif",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the mistakes as SARIF for a code review.",
    shell_complete=complete.files,
)
@click.option(
    "--inventory",
    metavar="FILE",
    help="Check the hosts of this Ansible inventory instead of this machine.",
    shell_complete=complete.files,
)
@options.wait
@as_caller
def command(
    *,
    caller: Caller,
    as_json: bool,
    quick: bool,
    config: Path | None,
    server: str | None,
    program: str | None,
    prefix: tuple[str, ...],
    env_file: str | None,
    sarif: Path | None,
    inventory: str | None,
) -> None:
    """Report whether this machine can run a study and what limits its precision.

    Measures identical instances of a server for some 20 seconds to estimate what a study of ten
    minutes could claim here now. Then tests the load generator against a responder whose answers
    are known, on the cores that a study would use (about 20 seconds; `tuner-loadgen self-test`
    prints more). Exits with code 3 if a requirement is missing. With --server, checks and measures
    this server alone; with --server-binary, this program instead of the installed servers.

    With --config, reads a configuration and its includes and checks them against this host. Prints
    the file and line of each mistake, the reason, and a remedy; starts nothing. Exits with code 1
    if something is wrong, and with 0 if something merely has a cost.

    With --inventory, reports on the hosts that a study would use: the role of each, its CPUs, and
    how well the clocks of several generators are known. Installs and starts nothing there.
    """
    if config is not None:
        wishes = OwnOptions(str(config), prefix=prefix, env_file=env_file or "")
        lint_command(wishes, server, program=program or "", as_json=as_json, sarif=sarif)
        return
    if prefix or env_file or sarif:
        raise DefinitionError("belongs to a configuration; name it: --config FILE", path="doctor")
    named = server_binary.detect(server_of(server or DEFAULT_SERVER), program) if program else None
    if inventory:
        rows = _safely("inventory", partial(_fleet, inventory))
        _print(rows, as_json=as_json, failing="these hosts")
        return
    adapters = {server: server_of(server)} if server else SERVERS
    rows, free = _free_cores(caller)
    checks: dict[str, MakeRows] = {
        "host": _host,
        "servers": partial(_servers, adapters, named),
        "ansible": _ansible,
        "ports": _ports,
    }
    if free:
        checks["generator"] = _generator
        checks["noise"] = _expected_noise if quick else partial(_measured_noise, adapters, named)
    if free and not quick:
        checks["instrument"] = _self_test
    rows += [row for name, check in checks.items() for row in _safely(name, check)]
    _print(rows, as_json=as_json)


def _print(rows: Sequence[DoctorRow], *, as_json: bool, failing: str = "this machine") -> None:
    """Print the rows.

    Raises:
        HostError: something is missing.
    """
    if as_json:
        print_json([row.as_dict() for row in rows])
    else:
        for row in rows:
            colour = {_OK: "green", _WARN: "yellow", _FAIL: "red"}[row.state]
            shown = click.style(f"{row.state:<8}", fg=colour)
            say_styled(f"{printable(f'{row.what:<12}')} {shown} {printable_lines(row.text)}")
    if any(row.state == _FAIL for row in rows):
        raise HostError(f"{failing} cannot run a study yet; see what is missing above")


def _fleet(inventory: str) -> list[DoctorRow]:
    """Return a row for each host that a study with this inventory uses, and notes on it."""
    return [
        row
        for look in look_at_fleet(inventory)
        for row in (
            DoctorRow(look.name, _OK if look.is_fit else _FAIL, look.words),
            *(DoctorRow("", _WARN, note) for note in look.notes),
        )
    ]


def _free_cores(caller: Caller) -> tuple[list[DoctorRow], bool]:
    """Return rows on leftovers or on a running study, and whether the cores are free."""
    try:
        return [DoctorRow("strays", _WARN, done) for done in look_here(caller)], True
    except HostError as error:
        return [DoctorRow("cores", _WARN, f"{error}; nothing was measured")], False


def _safely(name: str, check: MakeRows) -> list[DoctorRow]:
    try:
        return check()
    except TunerError as error:
        return [DoctorRow(name, _FAIL, str(error))]


def _host() -> list[DoctorRow]:
    host = local.facts()
    cores = place(host.layout, backend=False)
    text = f"{host.cpu_model}, {len(host.cpus)} cores, {host.distribution}, Linux {host.kernel}"
    return [
        DoctorRow("host", _OK, f"{text}; virtualisation: {host.virtualisation}"),
        DoctorRow(
            "cores",
            _WARN if cores.shared else _OK,
            "one core for both: figures are raw and coarse"
            if cores.shared
            else f"generator on {cores_in_words(cores.generator)},"
            f" server on {cores_in_words(cores.server)}",
        ),
        *_topology(host.layout, cores),
        DoctorRow(
            "real time",
            _OK if host.realtime else _WARN,
            "allowed: stalls of the server's cores are detected"
            if host.realtime
            else "not allowed: stalls of the server's cores are not detected; run as root, or grant"
            " CAP_SYS_NICE to tuner-loadgen",
        ),
        *_idle(),
        DoctorRow(
            "open files", _OK if host.file_limit >= 4096 else _WARN, f"limit {host.file_limit}"
        ),
    ]


def _idle() -> list[DoctorRow]:
    """Return how idle CPUs wait in a study here; nothing on a host that is not virtual."""
    refusal = _refusal_to_poll()
    if refusal is None:
        return []
    if refusal:
        text = f"halt, and a busy hypervisor delays their wake-ups; they cannot poll ({refusal})"
        return [DoctorRow("idle CPUs", _WARN, text)]
    return [DoctorRow("idle CPUs", _OK, "poll in a study, so no wake-up waits for the hypervisor")]


def _refusal_to_poll() -> str | None:
    """Return why idle CPUs cannot poll here; empty if they can, and None if they should halt."""
    host = local.facts()
    cores = place(host.layout, backend=False)
    return refusal_to_poll(BY_HOST, host.virtualisation, cores, idle_polling.refusal)


def _topology(topology: Topology, cores: CoreSplit) -> list[DoctorRow]:
    """Return the topology as text, with the programs on the CPUs, and notes with remedies."""
    summary, *lines = drawn(topology, cores)
    figures = {"topology": asdict(topology), "placement": asdict(cores)}
    disturbing = cpu_notes(topology, cores, speed_lost=_speed_lost(topology, cores))
    return [
        DoctorRow("topology", _OK, summary, figures),
        *(DoctorRow("", _OK, line) for line in lines),
        *(DoctorRow("", _WARN, note) for note in disturbing),
    ]


def _speed_lost(topology: Topology, cores: CoreSplit) -> float | None:
    """Return the share of speed that the server loses next to the generator; None: not measured."""
    try:
        return speed_lost_to_generator(_native(cores), topology, cores)
    except TunerError:
        # A missing generator has a row of its own.
        return None


def _servers(adapters: Mapping[str, Server], named: ServerFacts | None) -> list[DoctorRow]:
    """Return the rows of the servers; the named program or one installed server is enough."""
    if named is not None:
        return [DoctorRow(named.name, _OK, f"{named.words} at {named.binary}")]
    found: list[DoctorRow] = []
    absent: list[DoctorRow] = []
    for name, adapter in adapters.items():
        try:
            server = adapter.detect()
        except HostError as error:
            absent.append(DoctorRow(name, _FAIL, str(error)))
        else:
            found.append(DoctorRow(name, _OK, f"{server.version} at {server.binary}"))
    if not found:
        return absent
    return [
        *found,
        *(replace(row, state=_OK, text=f"not tunable here: {row.text}") for row in absent),
    ]


def _ansible() -> list[DoctorRow]:
    sibling = Path(sys.executable).parent / "ansible-playbook"
    found = sibling if sibling.exists() else shutil.which("ansible-playbook")
    if found is None:
        raise HostError(
            "ansible-playbook is missing; install ansible-core into tuner's environment:"
            f" {sys.executable} -m pip install ansible-core"
        )
    return [DoctorRow("ansible", _OK, f"{found}, playbooks in {data_dir('playbooks')}")]


def _generator() -> list[DoctorRow]:
    generator = _native()
    return [DoctorRow("generator", _OK, f"{generator.name} at {loadgen_binary()}")]


def _native(cores: CoreSplit | None = None) -> NativeGenerator:
    """Return the generator on these cores; None: on those that a study would use here."""
    chosen = cores or place(local.facts().layout, backend=False)
    return NativeGenerator(loadgen_binary(), chosen, StallRule())


def _expected_noise() -> list[DoctorRow]:
    """Return the noise rows estimated from stalls and speed, for a study of ten minutes."""
    return _estimated(_watched())


def _watched() -> tuple[CoreStalls, ...]:
    """Return the stalls of the cores while idle CPUs wait as in a study."""
    with idle_polling.polling() if _refusal_to_poll() == "" else contextlib.nullcontext():
        return watched_stalls(_native())


def _estimated(cores: Sequence[CoreStalls], why: str = "") -> list[DoctorRow]:
    """Return the noise rows estimated from these stalls and the speed of the server's cores.

    Args:
        cores: stalls of the cores.
        why: the reason for which the noise could not be measured; empty if that was not tried.
    """
    speeds = speeds_here()
    found = from_stalls(cores, speeds=speeds)
    figures = {
        **_figures(found),
        "touched_share": touched_share(cores),
        "speed_change": max(speed.change for speed in speeds),
    }
    text = f"{why}; {FROM_CORES}{found.words}" if why else f"{FROM_CORES}{found.words}"
    return [
        DoctorRow("noise", _WARN if why else _graded(found), text, figures),
        *_of_cores(cores, speeds),
    ]


def _measured_noise(adapters: Mapping[str, Server], named: ServerFacts | None) -> list[DoctorRow]:
    """Return the noise rows measured with identical instances; without a server, estimated ones."""
    server = _static_server(adapters, named)
    if server is None:
        return _expected_noise()
    cores = _watched()
    try:
        noise = measure_here(server, time_s=STUDY_S, program=named.binary if named else "")
    except TunerError as error:
        return _estimated(cores, str(error))
    found = claimable(noise.sigma_d, rate_per_s=noise.rate_per_s)
    figures = {
        **_figures(found),
        "touched_share": noise.touched_share,
        "rate_per_s": noise.rate_per_s,
    }
    how = (
        f"{server} at {noise.rate_per_s:,.0f} requests/s: identical instances differ by"
        f" {noise.sigma_d:.1%} from block to block, stalls touched {noise.touched_share:.1%} of the"
        " requests"
    )
    return [
        DoctorRow("noise", _graded(found), found.words, figures),
        DoctorRow("", _OK, how),
        *_of_cores(cores),
    ]


def _graded(found: Claimable) -> str:
    return _OK if found.grade == "fine" else _WARN


def _figures(found: Claimable) -> dict[str, float]:
    return {
        "claimable_effect": found.effect,
        "study_s": found.time_s,
        "sigma_d": found.sigma_d,
        "blocks": found.blocks,
    }


def _of_cores(cores: Iterable[CoreStalls], speeds: Iterable[CoreSpeed] = ()) -> list[DoctorRow]:
    every: tuple[CoreStalls | CoreSpeed, ...] = (*cores, *speeds)
    return [DoctorRow("", _OK, f"core {core.cpu}: {core.words}") for core in every]


def _static_server(adapters: Mapping[str, Server], named: ServerFacts | None) -> str | None:
    """Return the named or the first installed server that can serve the default study's files."""
    if named is not None:
        return named.name if f"{named.name}/static" in spaces() else None
    for name, adapter in adapters.items():
        with contextlib.suppress(HostError):
            adapter.detect()
            if f"{name}/static" in spaces():
                return name
    return None


def _self_test() -> list[DoctorRow]:
    cores = place(local.facts().layout, backend=False)
    found = self_test(loadgen_binary(), cores, _SELF_TEST_S)
    state = _OK if found.fit else _WARN
    worst = "unknown" if found.worst_error is None else f"{found.worst_error:.2%}"
    sustained = "no rate" if found.open_per_s is None else f"{found.open_per_s:,.0f}/s"
    parts = f"{_us(found.noise_us)} of noise between windows, {_us(found.pacing_us)} of pacing"
    verdict = (
        f"fit for p99 differences above {_us(found.above_us)} on this host ({parts})"
        if found.fit
        else f"not fit for fine differences of p99 on this host ({parts})"
    )
    shared = "; one core for both: no request is excluded" if found.shared_core else ""
    figures = (
        f"floor p50 {_us(found.floor_p50_us)}, p99 {_us(found.floor_p99_us)}; percentiles within"
        f" {worst} of theory; one thread sustains {sustained}, closed loop"
        f" {found.closed_per_s:,.0f}/s"
    )
    return [
        DoctorRow("instrument", state, verdict),
        *(DoctorRow("", state, reason) for reason in found.reasons),
        DoctorRow("", state, figures + shared),
    ]


def _us(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.0f} µs"


def _ports() -> list[DoctorRow]:
    ports = local.free_ports(8)
    return [DoctorRow("ports", _OK, f"{ports[0]} to {ports[-1]} are free on loopback")]
