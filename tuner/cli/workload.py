"""``tuner workload``: make a workload from an access log, check it, or show it."""

from __future__ import annotations

import os
from array import array
from pathlib import Path
from typing import cast

import click
import numpy as np

from tuner.app.log_workload import read_logs, write_private
from tuner.app.printing import print_json
from tuner.app.writing import writing
from tuner.cli import complete
from tuner.errors import DefinitionError
from tuner.reading.log_notation import given_format
from tuner.reading.log_tally import LogTally
from tuner.reading.redaction import redaction_summary
from tuner.workload.arrivals import Profile, Recorded
from tuner.workload.log_arrival import STRETCH_S, arrival_line, drawn, fitted, recorded_line
from tuner.workload.log_mix import Mix, Serve, make_mix
from tuner.workload.workload import Request, Workload, load_workload

_EPILOG = """
\b
Examples:
  tuner workload from-log /var/log/nginx/access.log --output shop.yaml
  tuner workload from-log access.log.2.gz access.log.1 \\
    --top 200 --instants shop.instants
  tuner workload check shop.yaml
  tuner workload show shop.yaml
  tuner optimize --workload shop.yaml
"""


@click.group(epilog=_EPILOG)
def command() -> None:
    """Make, check and show workloads, the requests that tuner sends."""


@command.command("from-log", epilog=_EPILOG)
@click.argument("logs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help="Write the YAML to PATH [standard output].",
)
@click.option("--name", help="Name the workload [the first log's name].")
@click.option(
    "--top",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="Keep at most this number of kinds of requests and report the rest.",
)
@click.option(
    "--as",
    "serve",
    type=click.Choice(["site", "backend"]),
    help="Answer with files or with a backend [site if nearly all are GET and HEAD].",
)
@click.option(
    "--instants",
    type=click.Path(path_type=Path),
    help="Write the times of arrival to PATH; the workload replays them.",
)
@click.option(
    "--arrival",
    type=click.Choice(["poisson", "fitted"]),
    help="Send independent requests at one rate, or at the changing rates of the log's busiest"
    " stretch [poisson; with --instants those].",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    help="Draw the arrivals of the log and of the workload to PATH (.svg or .png).",
)
@click.option(
    "--keep-query",
    is_flag=True,
    help="Keep the values of query parameters, except likely secrets [drop all values].",
)
@click.option(
    "--format",
    "line_format",
    metavar="FORMAT",
    help="Read lines of this format, in Nginx's notation ('$remote_addr ...') or Apache's"
    " ('%h ...') [recognise it].",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="Read the formats of this Nginx configuration (its log_format) before the known ones.",
)
@click.option("--quiet", "-q", is_flag=True, help="Print no progress.")
def from_log(
    logs: tuple[Path, ...],
    *,
    output: Path | None,
    name: str | None,
    top: int,
    serve: str | None,
    instants: Path | None,
    arrival: str | None,
    plot: Path | None,
    keep_query: bool,
    line_format: str | None,
    config: Path | None,
    quiet: bool,
) -> None:
    """Make a workload from the requests in access LOGS.

    Recognises the combined format, JSON lines (Nginx, Caddy), Caddy's console, W3C extended
    (CloudFront), AWS load balancers, Discourse and ingress-nginx, plain or packed by gzip or
    Zstandard; `-` is standard input. Paths that differ in an identifier are one kind of request,
    and rare paths join wider kinds. Weights, sizes, statuses, protocol and connections follow the
    log. Drops the values of queries and replaces likely secrets in paths by a word such as TOKEN.
    Writes files that only you can read.
    """
    if line_format is not None and config is not None:
        raise DefinitionError("--format and --config are both given; leave one out")
    if plot is not None and plot.suffix not in {".svg", ".png"}:
        raise DefinitionError(f"{plot} ends with neither .svg nor .png", path="--plot")
    if plot is not None:
        from tuner.report.pictures import require_engine

        require_engine()
    written = None if line_format is None else given_format(line_format)
    arrived = array("d") if instants is not None else None
    tally, used = read_logs(
        logs,
        written=written,
        config=config,
        keep_query=keep_query,
        arrived=arrived,
        say=None if quiet else lambda line: click.echo(line, err=True),
    )
    profile = fitted(tally.arrivals) if arrival == "fitted" else None
    mix = make_mix(
        tally,
        name=name or logs[0].name.split(".")[0] or "log",
        source=", ".join(path.name for path in logs),
        serve=cast("Serve | None", serve),
        top=top,
        arrival=_arrival_line(profile, arrival, instants, output),
    )
    if not mix.requests:
        raise DefinitionError(
            f"the lab can serve none of its requests ({mix.left_out[0][0]})", path=str(logs[0])
        )
    if output is None:
        click.echo(mix.text, nl=False)
    else:
        with writing(output, "name another file with --output"):
            write_private(output, [mix.text])
    if instants is not None:
        with writing(instants, "name another file with --instants"):
            _write_instants(instants, arrived or array("d"))
    if plot is not None:
        replayed = arrival is None and instants is not None
        with writing(plot, "name another file with --plot"):
            _draw(plot, tally, profile, replayed=replayed)
    click.echo(f"format    {', '.join(used)}", err=True)
    for line in _summary(tally, mix, (output, instants, plot)):
        click.echo(line, err=True)


@command.command("check")
@click.argument("name", metavar="NAME|FILE", shell_complete=complete.workloads)
def check(name: str) -> None:
    """Check a workload file; report a mistake with its line and exit code 2."""
    workload = load_workload(name)
    click.echo(f"ok: {workload.name}, {len(workload.requests)} requests, {workload.wire.words}")


@command.command("show")
@click.argument("name", metavar="NAME|FILE", shell_complete=complete.workloads)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def show(name: str, as_json: bool) -> None:
    """Show the requests of a workload, their weights and the expected answers."""
    workload = load_workload(name)
    if as_json:
        print_json(_as_data(workload))
        return
    for line in _lines(workload):
        click.echo(line)


def _write_instants(path: Path, arrived: array[float]) -> None:
    """Write seconds since the first request; spread requests within each of a log's seconds."""
    moments = np.sort(np.asarray(arrived))
    if len(moments) and (moments == np.floor(moments)).all():
        moments = np.sort(moments + np.random.default_rng(1).random(len(moments)))
    first = moments[0] if len(moments) else 0
    write_private(path, (f"{moment:.6f}\n" for moment in moments - first))


def _arrival_line(
    profile: Profile | None, arrival: str | None, instants: Path | None, output: Path | None
) -> str:
    """Return the line about arrivals; empty for independent ones at one rate."""
    if profile is not None:
        return arrival_line(profile)
    if instants is None or arrival is not None:
        return ""
    folder = Path() if output is None else output.parent
    return recorded_line(os.path.relpath(instants, folder))


def _draw(path: Path, tally: LogTally, profile: Profile | None, *, replayed: bool) -> None:
    """Draw the busiest stretch of the log, and the workload's arrivals at the same mean rate."""
    from tuner.report.charts_of_arrivals import arrivals_chart
    from tuner.report.pictures import Format, write_pictures

    seconds = STRETCH_S if profile is None else int(sum(step.share for step in profile.steps))
    counts = tally.arrivals.busiest(seconds)
    log = [int(count) for count in counts]
    spec = arrivals_chart(log, log if replayed else drawn(counts, profile))
    kind = cast("Format", path.suffix.removeprefix("."))
    write_pictures({path.stem: spec}, {path.stem: "Requests in each second"}, path.parent, [kind])
    path.chmod(0o600)


def _summary(tally: LogTally, mix: Mix, written: tuple[Path | None, ...]) -> list[str]:
    lines = [
        (
            f"{tally.good:,} requests, {tally.rate_per_s:,.1f}/s on average, at most"
            f" {tally.peak_per_s:,} in one second; kinds of requests: {mix.requests}, for"
            f" {mix.covered / tally.good:.1%} of them"
        )
    ]
    lines += [f"note      {note}" for note in mix.notes]
    lines += [f"left out  {n / tally.good:6.1%}  {reason}" for reason, n in mix.left_out]
    if tally.redacted:
        lines.append(f"redacted  {redaction_summary(tally.redacted)}")
    if tally.bad:
        lines.append(f"{tally.bad:,} lines are not requests; the first:")
        lines += [f"  {file}:{line}: {wrong}" for file, line, wrong in tally.bad_lines]
    lines += [f"written   {path}" for path in written if path is not None]
    return lines


def _lines(workload: Workload) -> list[str]:
    total = sum(request.weight for request in workload.requests)
    arrival = str(workload.arrival)
    if isinstance(workload.arrival, Recorded):
        arrival += f", {workload.arrival.rate_per_s:,.1f}/s as recorded"
    served = "a backend behind a proxy" if workload.backend else f"{len(workload.site)} files"
    lines = [
        f"{workload.name}: {workload.summary}",
        f"wire      {workload.wire.words}, {workload.connections} connections",
        f"arrivals  {arrival}",
        f"served    {served}",
        f"{'share':>8}  {'method':<8}{'expected answer':<24}target",
    ]
    for request in sorted(workload.requests, key=lambda r: -r.weight):
        share = request.weight / total
        lines.append(f"{share:>8.2%}  {request.method:<8}{_expected(request):<24}{request.path}")
    return lines


def _expected(request: Request) -> str:

    words = [str(request.expect_status or "any status")]
    if request.expect_length is not None:
        words.append(f"{request.expect_length:,} B")
    if request.expect_sha256:
        words.append("hash")
    return ", ".join(words)


def _as_data(workload: Workload) -> dict[str, object]:
    total = sum(request.weight for request in workload.requests)
    return {
        "workload": workload.name,
        "summary": workload.summary,
        "protocol": workload.wire.protocol,
        "tls": workload.wire.tls is not None,
        "streams": workload.wire.streams,
        "requests_per_connection": workload.wire.requests_per_connection,
        "connections": workload.connections,
        "arrival": str(workload.arrival),
        "requests": [
            {
                "share": request.weight / total,
                "method": request.method,
                "path": request.path,
                "status": request.expect_status,
                "length": request.expect_length,
                "sha256": request.expect_sha256,
            }
            for request in workload.requests
        ],
    }
