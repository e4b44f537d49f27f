"""``tuner workload``: make a workload from an access log, check it, or show it."""

from __future__ import annotations

import gzip
import os
import sys
import time
import zlib
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, cast

import click
import numpy as np

from tuner.app.printing import print_json
from tuner.app.writing import writing
from tuner.errors import DefinitionError
from tuner.reading.access_log import LogEntry, LogTally
from tuner.reading.inputs import open_input
from tuner.reading.redaction import redaction_summary
from tuner.words.terminal import duration
from tuner.workload.arrivals import Recorded
from tuner.workload.log_mix import Mix, Serve, make_mix
from tuner.workload.workload import Request, Workload, load_workload

_EPILOG = """
\b
Examples:
  tuner workload from-log /var/log/nginx/access.log --output shop.yaml
  tuner workload from-log access.log.2.gz access.log.1 --top 200 --instants shop.instants
  tuner workload check shop.yaml
  tuner workload show shop.yaml
  tuner optimize --workload shop.yaml
"""
_MOST_BAD = 0.5
_QUIET_S = 2.0
_EVERY_LINES = 20_000
_LONGEST_LINE = 1 << 20


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
    help="Write the times of arrival to PATH, for `arrival: {instants: FILE}`.",
)
@click.option(
    "--keep-query",
    is_flag=True,
    help="Keep the values of query parameters, except likely secrets [drop all values].",
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
    keep_query: bool,
    quiet: bool,
) -> None:
    """Make a workload from the requests in access LOGS.

    Reads the combined format or JSON lines (Nginx, Caddy, Apache), plain or .gz; `-` is standard
    input. Weights are the frequencies; sizes and statuses are the most common ones. Drops the
    values of queries and replaces likely secrets in paths by a word such as TOKEN. Writes files
    that only you can read.
    """
    tally = LogTally(keep_query=keep_query)
    arrived = _read(tally, logs, keep=instants is not None, quiet=quiet)
    if not tally.good or tally.bad > _MOST_BAD * (tally.good + tally.bad):
        where = "; ".join(f"{file}:{line}: {wrong}" for file, line, wrong in tally.bad_lines)
        raise DefinitionError(
            f"{tally.bad} of {tally.good + tally.bad} lines are not requests:"
            f" {where or 'no lines'}",
            path=str(logs[0]),
        )
    mix = make_mix(
        tally,
        name=name or logs[0].name.split(".")[0] or "log",
        source=", ".join(path.name for path in logs),
        serve=cast("Serve | None", serve),
        top=top,
    )
    if not mix.requests:
        raise DefinitionError(
            f"the lab can serve none of its requests ({mix.left_out[0][0]})", path=str(logs[0])
        )
    if output is None:
        click.echo(mix.text, nl=False)
    else:
        with writing(output, "name another file with --output"):
            _write(output, [mix.text])
    if instants is not None:
        with writing(instants, "name another file with --instants"):
            _write_instants(instants, arrived)
    for line in _summary(tally, mix, output, instants):
        click.echo(line, err=True)


@command.command("check")
@click.argument("name", metavar="NAME|FILE")
def check(name: str) -> None:
    """Check a workload file; report a mistake with its line and exit code 2."""
    workload = load_workload(name)
    click.echo(f"ok: {workload.name}, {len(workload.requests)} requests, {workload.wire.words}")


@command.command("show")
@click.argument("name", metavar="NAME|FILE")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def show(name: str, as_json: bool) -> None:
    """Show the requests of a workload, their weights and the expected answers."""
    workload = load_workload(name)
    if as_json:
        print_json(_as_data(workload))
        return
    for line in _lines(workload):
        click.echo(line)


def _read(tally: LogTally, logs: tuple[Path, ...], *, keep: bool, quiet: bool) -> array[float]:
    """Read the logs; return the times of arrival if they are kept."""
    arrived = array("d")
    for path in logs:
        for entry in _entries(tally, path, quiet=quiet):
            if keep:
                arrived.append(entry.unix_s)
    return arrived


def _entries(tally: LogTally, path: Path, *, quiet: bool) -> Iterator[LogEntry]:
    name = "standard input" if str(path) == "-" else str(path)
    try:
        with _open(path) as raw:
            size = path.stat().st_size if path.is_file() else 0
            packed = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
            lines = (line.decode("utf-8", "replace").rstrip("\r\n") for line in _lines_of(packed))
            numbered = enumerate(lines, 1)
            watched = numbered if quiet else _watched(numbered, raw, size, name)
            yield from tally.add(watched, name)
    except (OSError, EOFError, zlib.error) as error:
        words = getattr(error, "strerror", None) or str(error)
        raise DefinitionError(f"cannot be read: {words}", path=name) from None


def _open(path: Path) -> IO[bytes]:
    # Closing standard input is harmless: nothing else reads it.
    return sys.stdin.buffer if str(path) == "-" else open_input(path)


def _lines_of(stream: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    """Yield the lines of a log, each cut at ``_LONGEST_LINE``.

    Servers limit the part of a request that they log, so real lines are shorter.
    """
    whole = True
    while line := stream.readline(_LONGEST_LINE):
        if whole:
            yield line
        whole = line.endswith(b"\n")


def _watched(
    lines: Iterator[tuple[int, str]], raw: IO[bytes], size: int, name: str
) -> Iterator[tuple[int, str]]:
    """Yield the lines, and print the progress of a long log every few seconds."""
    begun = printed = time.monotonic()
    for number, line in lines:
        if number % _EVERY_LINES == 0 and (now := time.monotonic()) - printed >= _QUIET_S:
            printed = now
            share = raw.tell() / size if size else 0.0
            left = f", {duration((now - begun) * (1 / share - 1))} left" if share else ""
            click.echo(f"{name}: {number:,} lines, {share:.0%}{left}", err=True)
        yield number, line


def _write_instants(path: Path, arrived: array[float]) -> None:
    """Write seconds since the first request; spread requests within each of a log's seconds."""
    moments = np.sort(np.asarray(arrived))
    if len(moments) and (moments == np.floor(moments)).all():
        moments = np.sort(moments + np.random.default_rng(1).random(len(moments)))
    first = moments[0] if len(moments) else 0
    _write(path, (f"{moment:.6f}\n" for moment in moments - first))


def _write(path: Path, lines: Iterable[str]) -> None:
    """Write a file that only its owner can read, because a log is personal data."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, 0o600)
        file.writelines(lines)


def _summary(tally: LogTally, mix: Mix, output: Path | None, instants: Path | None) -> list[str]:
    lines = [
        (
            f"{tally.good:,} requests, {tally.rate_per_s:,.1f}/s on average, at most"
            f" {tally.peak_per_s:,} in one second; {mix.requests} kinds cover"
            f" {mix.covered / tally.good:.1%}"
        )
    ]
    lines += [f"left out  {n / tally.good:6.1%}  {reason}" for reason, n in mix.left_out]
    if tally.redacted:
        lines.append(f"redacted  {redaction_summary(tally.redacted)}")
    if tally.bad:
        lines.append(f"{tally.bad:,} lines are not requests; the first:")
        lines += [f"  {file}:{line}: {wrong}" for file, line, wrong in tally.bad_lines]
    lines += [f"written   {path}" for path in (output, instants) if path is not None]
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
