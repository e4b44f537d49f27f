"""The other generators: how each is asked for one window, and how its answer is read.

Every one has one thread, the same connections, and its own correction for coordinated omission
switched on. They are looked for in ``--peers DIR`` and on the PATH; those missing are left out.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass

import click

from benchmarks.lab import CONNECTIONS, Lab

_WRK2_CALIBRATION_S = 10
"""wrk2 throws its first 10 s away (wrk.c, CALIBRATE_DELAY_MS), so it runs so much longer."""
_UNITS_US = {"us": 1.0, "ms": 1e3, "s": 1e6}


@dataclass(frozen=True, slots=True)
class Said:
    """What a tool says of one window."""

    p50_us: float
    p99_us: float
    achieved_per_s: float


@dataclass(frozen=True, slots=True)
class Peer:
    """One other tool for an open loop."""

    name: str
    program: str
    """The executable's path."""
    arguments: Callable[[str, float, int], list[str]]
    """From URL, rate per second and seconds to the arguments of one window."""
    read: Callable[[str], Said]

    def window(self, lab: Lab, rate_per_s: float, duration_s: int) -> Said:
        """Measure one window.

        Raises:
            click.ClickException: the tool failed, or said something unexpected.
        """
        command = [self.program, *self.arguments(lab.url, rate_per_s, duration_s)]
        text = lab.run(command).text
        try:
            said = self.read(text)
        except (ValueError, KeyError, TypeError) as error:
            raise click.ClickException(f"{self.name} said something unexpected:\n{text}") from error
        if not said.p50_us > 0:
            raise click.ClickException(f"{self.name} got no answer")
        return said


def open_loop(peers_dir: str | None) -> tuple[list[Peer], list[str]]:
    """The tools for an open loop that are there, and the names of those that are not."""
    known = {
        "zrk": (zrk_arguments, read_zrk),
        "oha": (oha_arguments, read_oha),
        "wrk2": (wrk2_arguments, read_wrk2),
    }
    found, missing = [], []
    for name, (arguments, read) in known.items():
        program = find(name, peers_dir)
        if program is None:
            missing.append(name)
        else:
            found.append(Peer(name, program, arguments, read))
    return found, missing


def find(name: str, peers_dir: str | None) -> str | None:
    """The program of that name in ``peers_dir``, or else on the PATH."""
    places = [peers_dir] if peers_dir else []
    return shutil.which(name, path=os.pathsep.join([*places, os.environ.get("PATH", os.defpath)]))


def zrk_arguments(url: str, rate_per_s: float, duration_s: int) -> list[str]:
    """One window of zrk."""
    return [
        *("-t1", f"-c{CONNECTIONS}", f"-d{duration_s}s", f"-R{rate_per_s:.0f}"),
        *("--plain", "--format", "json", url),
    ]


def read_zrk(text: str) -> Said:
    """Zrk's JSON report, in µs; progress may stand before it."""
    report = json.loads(text[text.index("{\n") :])
    latency = report["latency_us"]
    return Said(latency["p50"], latency["p99"], report["achieved_rate"])


def oha_arguments(url: str, rate_per_s: float, duration_s: int) -> list[str]:
    """One window of oha."""
    return [
        *("--no-tui", "--output-format", "json", "--latency-correction", "--worker-threads", "1"),
        *("-q", f"{rate_per_s:.0f}", "-c", str(CONNECTIONS), "-z", f"{duration_s}s", url),
    ]


def read_oha(text: str) -> Said:
    """Oha's JSON report, in seconds."""
    report = json.loads(text)
    latency = report["latencyPercentiles"]
    return Said(latency["p50"] * 1e6, latency["p99"] * 1e6, report["summary"]["requestsPerSec"])


def wrk2_arguments(url: str, rate_per_s: float, duration_s: int) -> list[str]:
    """One window of wrk2, after its calibration."""
    return [
        *("-t1", f"-c{CONNECTIONS}", f"-d{duration_s + _WRK2_CALIBRATION_S}s"),
        *(f"-R{rate_per_s:.0f}", "--latency", url),
    ]


def read_wrk2(text: str) -> Said:
    """Wrk2's summary, whose units differ from line to line."""
    return Said(
        _wrk2_us(text, "50.000"),
        _wrk2_us(text, "99.000"),
        float(_match(r"^Requests/sec:\s+([\d.]+)$", text)[1]),
    )


def _wrk2_us(text: str, percent: str) -> float:
    found = _match(rf"^\s*{re.escape(percent)}%\s+([\d.]+)(us|ms|s)$", text)
    return float(found[1]) * _UNITS_US[found[2]]


def wrk_arguments(url: str, duration_s: int) -> list[str]:
    """One window of wrk, a closed loop."""
    return ["-t1", f"-c{CONNECTIONS}", f"-d{duration_s}s", url]


def read_wrk(text: str) -> tuple[int, float]:
    """Requests and seconds, from wrk's summary; errors are refused, as they are fast answers."""
    if "Socket errors" in text or "Non-2xx" in text:
        raise ValueError("errors")
    count, seconds = _match(r"^\s*(\d+) requests in ([\d.]+)s,", text).groups()
    if int(count) == 0:
        raise ValueError("no requests")
    return int(count), float(seconds)


def _match(pattern: str, text: str) -> re.Match[str]:
    found = re.search(pattern, text, re.MULTILINE)
    if found is None:
        raise ValueError(pattern)
    return found
