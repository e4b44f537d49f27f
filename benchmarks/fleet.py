"""Cost of a block in local, remote and shared studies, and gain from a second worker.

    python -m benchmarks.fleet                           all studies, about ten minutes
    python -m benchmarks.fleet --time 10m remote         the remote study alone, for longer

The hosts are those of the fleet's tests: namespaces of this machine with an sshd each
(``tests/fleet/bed.py``, root). The storage is a PostgreSQL of the benchmark's own. The study over
SSH has a target and a generator. Each of the compared workers (``one``, ``two``) has a host with a
CPU of its own, which server and generator share. With a target and a generator for each worker, two
generators would spin on one CPU, and their windows would be invalid. The tuner processes and the
database use the same CPUs, so the default rate is low, and the measured gain from a second worker
is too low rather than too high.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import yaml

from benchmarks import finding
from benchmarks.finding import Finding, at_least
from benchmarks.lab import setting
from tests.fleet.bed import Bed, bed, refusal
from tests.store.database import binaries, database
from tuner.record.model import Block, Phase
from tuner.store.listing import list_names
from tuner.store.store import Store
from tuner.words.figures import PHASE_NAMES

STUDIES = ("local", "remote", "one", "two")
SHARE_AIM = 0.75
"""Least share of windows in the wall-clock time of search and confirmation."""
TWO_AIM = 1.5
_REMOTE = (("web", "load"),)
_WORKERS = (("left", "left"), ("right", "right"))
"""Target and generator of each worker."""
_PHASES: tuple[Phase, ...] = ("aa", "search", "confirm")
_TOP = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a phase's blocks on one host outside their windows, in seconds per block."""

    phase: Phase
    blocks: int
    share: float
    """Share of windows in the phase's wall-clock time."""
    before_s: float
    """Time until the first window: the deployment and the first warm-up."""
    between_s: float
    """Time between windows: warm-ups, readings, the record."""
    after_s: float
    """Time from the last window to the next block: verdict, record, proposals."""

    @classmethod
    def of(cls, phase: Phase, blocks: Sequence[Block]) -> Cost:
        """Return the cost of blocks with windows, in order of time."""
        count = len(blocks)
        elapsed_s = blocks[-1].ended_unix_s - blocks[0].started_unix_s
        measured_s = sum(_measured_s(block) for block in blocks)
        before_s = sum(block.windows[0].started_unix_s - block.started_unix_s for block in blocks)
        span_s = sum(_last_s(block) - block.windows[0].started_unix_s for block in blocks)
        return cls(
            phase,
            count,
            measured_s / elapsed_s,
            before_s / count,
            (span_s - measured_s) / count,
            (elapsed_s - before_s - span_s) / count,
        )

    def line(self, study: str) -> str:
        """Return the row of the table."""
        return (
            f"{study:8}{PHASE_NAMES[self.phase]:14}{self.blocks:8}{self.share:10.1%}"
            f"{self.before_s:12.2f}{self.between_s:14.2f}{self.after_s:12.2f}"
        )


HEAD = (
    f"{'study':8}{'phase':14}{'blocks':>8}{'measured':>10}"
    f"{'deploy s':>12}{'in between s':>14}{'after s':>12}"
)


def _measured_s(block: Block) -> float:
    return sum(window.duration_s for window in block.windows)


def _last_s(block: Block) -> float:
    return block.windows[-1].started_unix_s + block.windows[-1].duration_s


def costs(blocks: Sequence[Block]) -> list[Cost]:
    """Return the costs of one host's blocks by phase; both clocks must agree."""
    phases = {p: [b for b in blocks if b.phase == p and b.windows] for p in _PHASES}
    return [Cost.of(phase, found) for phase, found in phases.items() if found]


def windows_per_s(blocks: Sequence[Block]) -> float:
    """Return the windows per second from the first block to the last; NaN without blocks."""
    if not blocks:
        return math.nan
    windows = sum(len(block.windows) for block in blocks)
    start_s = min(block.started_unix_s for block in blocks)
    return windows / (max(block.ended_unix_s for block in blocks) - start_s)


@dataclass(frozen=True, slots=True)
class Fleet:
    """The hosts, database and options of the studies."""

    folder: Path
    url: str
    hosts: Bed
    options: tuple[str, ...]

    def study(self, name: str) -> Sequence[Block]:
        """Run one of ``STUDIES`` to its end and return its blocks."""
        pairs = {
            "local": (),
            "remote": _REMOTE,
            "one": _WORKERS[:1],
            "two": _WORKERS,
        }[name]
        ways: list[tuple[str, ...]] = [
            ("--host", target, "--inventory", str(self._inventory(target, generator)))
            for target, generator in pairs
        ]
        workers = [self._worker(name, way) for way in ways or [("--host", "here")]]
        for worker in workers:
            _, said = worker.communicate()
            if worker.returncode != 0:
                # The findings of the others took minutes and must not be lost.
                click.echo(f"({name}: {said.strip()})")
        begun = name in list_names(self.url)
        return Store.open(self.url, name).record().blocks if begun else ()

    def _worker(self, name: str, way: Sequence[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tuner", "worker", name, *way, "--quiet", *self.options],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": str(_TOP),
                "TUNER_STORAGE": self.url,
                "XDG_STATE_HOME": str(self.folder / "state"),
            },
        )

    def _inventory(self, target: str, generator: str) -> Path:
        """Return an inventory with only these two."""
        reported = yaml.safe_load(self.hosts.inventory.read_text(encoding="utf-8"))
        wanted = {"targets": target, "generators": generator}
        for group, host in wanted.items():
            reported[group]["hosts"] = {host: reported[group]["hosts"][host]}
        path = self.folder / f"{target}.yml"
        path.write_text(yaml.safe_dump(reported), encoding="utf-8")
        return path


@contextmanager
def open_fleet(options: Sequence[str]) -> Iterator[Fleet]:
    """Yield hosts, a database and a folder, and remove them afterwards."""
    reason = refusal() or ("" if binaries() else "no PostgreSQL here: .ci/require postgresql")
    if reason:
        raise click.ClickException(reason)
    targets, generators = zip(*_REMOTE, *_WORKERS, strict=True)
    cpus = sorted(os.sched_getaffinity(0))
    own = {target: str(cpu) for (target, _), cpu in zip(_WORKERS, cpus, strict=False)}
    with (
        tempfile.TemporaryDirectory(prefix="tuner-fleet-") as folder,
        database() as server,
        bed({"targets": targets, "generators": generators}, cpus=own) as hosts,
    ):
        yield Fleet(Path(folder), server.url(), hosts, tuple(options))


def judged(found: dict[str, Sequence[Block]]) -> list[Finding]:
    """Return the shares of the study over SSH, and the gain from a second worker."""
    findings = [
        Finding(
            f"remote: share of the {PHASE_NAMES[cost.phase]} in windows",
            cost.share,
            aim=at_least(SHARE_AIM),
        )
        for cost in costs(found.get("remote", ()))
        if cost.phase != "aa"
    ]
    if "one" in found and "two" in found:
        for what, phases in (("search", ("search",)), ("whole study", _PHASES)):
            one, two = (
                windows_per_s([block for block in found[name] if block.phase in phases])
                for name in ("one", "two")
            )
            question = f"two workers / one: windows a second, {what}"
            findings.append(Finding(question, two / one, aim=at_least(TWO_AIM)))
    return findings


@click.command()
@click.argument("studies", nargs=-1, type=click.Choice(STUDIES))
@click.option("--time", "time_", default="40s", show_default=True, help="Of each study.")
@click.option("--rate", default="2000", show_default=True, help="Offered, requests a second.")
@click.option("--objective", default="p50", show_default=True)
def main(studies: Sequence[str], time_: str, rate: str, objective: str) -> None:
    """Run the studies one after another on this machine, which should be otherwise idle."""
    click.echo(setting())
    options = ("--time", time_, "--rate", rate, "--objective", objective)
    found: dict[str, Sequence[Block]] = {}
    with open_fleet(options) as fleet:
        click.echo(HEAD)
        for name in studies or STUDIES:
            found[name] = fleet.study(name)
            for host in dict.fromkeys(block.host for block in found[name]):
                for cost in costs([block for block in found[name] if block.host == host]):
                    click.echo(cost.line(name))
    finding.show(judged(found))


if __name__ == "__main__":
    main()
