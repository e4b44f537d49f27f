"""The self-test of the load generator on this host, run and read."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.errors import InstrumentError
from tuner.machine.facts import CoreSplit

_UNFIT = 1


@dataclass(frozen=True, slots=True)
class SelfTest:
    """The figures of a self-test, see ``docs/instrument.md``; None: not measured."""

    fit: bool
    above_us: float | None
    """Largest p99 difference between two windows due to the generator, µs."""
    noise_us: float | None
    pacing_us: float | None
    reasons: tuple[str, ...]
    """Reasons why the generator is not fit for use."""
    floor_p50_us: float | None
    floor_p99_us: float | None
    worst_error: float | None
    """Largest error of a percentile against theory, as a share."""
    open_per_s: float | None
    """Highest offered rate that one thread sustained."""
    closed_per_s: float
    shared_core: bool


def self_test(binary: Path, cores: CoreSplit, for_s: float) -> SelfTest:
    """Run ``tuner-loadgen self-test`` on the cores that a study would use.

    Progress goes to standard error. Takes about ``for_s`` seconds.

    Raises:
        InstrumentError: it cannot be started, or ended without a report.
    """
    # The server has one thread on one core, because the test measures the generator, not the host.
    command = [str(binary), "self-test", "--json", "--for", f"{for_s:g}"]
    command += ["--cpus", _list(cores.generator), "--server-cpus", _list(cores.server[:1])]
    try:
        # In its own session, so that it can take precedence over other processes.
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=False, start_new_session=True
        )
    except OSError as error:
        raise InstrumentError(f"{binary} cannot be started: {error}") from error
    if done.returncode not in {0, _UNFIT}:
        raise InstrumentError(f"{' '.join(command)} ended with exit code {done.returncode}")
    try:
        return _read(json.loads(done.stdout))
    except (ValueError, KeyError, TypeError) as error:
        raise InstrumentError(f"{' '.join(command)} printed no report: {error!r}") from error


def _list(cpus: tuple[int, ...]) -> str:
    return ",".join(map(str, cpus))


def _read(report: Mapping[str, Any]) -> SelfTest:
    verdict, floor, rate = report["verdict"], report["floor"], report["capacity"][0]
    errors = [found["worst_error"] for found in report["accuracy"]]
    return SelfTest(
        fit=verdict["fit"],
        above_us=verdict["above_us"],
        noise_us=verdict["noise_us"],
        pacing_us=verdict["pacing_us"],
        reasons=tuple(verdict["reasons"]),
        floor_p50_us=floor["p50_us"],
        floor_p99_us=floor["p99_us"],
        worst_error=None if None in errors else max(errors),
        open_per_s=rate["open_per_s"],
        closed_per_s=rate["closed_per_s"],
        shared_core=report["shared_core"],
    )
