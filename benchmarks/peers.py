"""The other generators: the command line for one window, and the parser of its output.

Every one has one thread, the same connections, and its own correction for coordinated omission
switched on; h2load has none, and times from the submit. They are looked for in ``--peers DIR`` and
on the PATH; those missing are left out.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass

import click
import numpy as np

from benchmarks.lab import CONNECTIONS, Lab
from tuner.workload.wire import Wire

_WRK2_CALIBRATION_S = 10
"""Extra run time: wrk2 discards its first 10 s (wrk.c, CALIBRATE_DELAY_MS)."""
_UNITS_US = {"us": 1.0, "ms": 1e3, "s": 1e6}


@dataclass(frozen=True, slots=True)
class Said:
    """The figures of a tool for one window."""

    p50_us: float
    p99_us: float
    achieved_per_s: float


@dataclass(frozen=True, slots=True)
class Peer:
    """Another tool for an open loop."""

    name: str
    program: str
    """Path of the executable."""
    arguments: Callable[[Lab, float, int], list[str]]
    """From server, rate per second and seconds to the arguments of one window."""
    read: Callable[[str], Said]
    log: str = ""
    """A file in the lab's folder that the tool writes, and that is read after its words."""

    def window(self, lab: Lab, rate_per_s: float, duration_s: int) -> Said:
        """Measure one window.

        Raises:
            click.ClickException: the tool failed, or its output is unexpected.
        """
        log = lab.folder / self.log if self.log else None
        if log:
            log.unlink(missing_ok=True)
        command = [self.program, *self.arguments(lab, rate_per_s, duration_s)]
        text = lab.run(command).text
        if log:
            text += log.read_text(encoding="ascii")
        try:
            found = self.read(text)
        except (ValueError, KeyError, TypeError) as error:
            raise click.ClickException(
                f"unexpected output of {self.name}:\n{text[:2000]}"
            ) from error
        if not found.p50_us > 0:
            raise click.ClickException(f"{self.name} got no answer")
        return found


def open_loop(peers_dir: str | None, wire: Wire) -> tuple[list[Peer], list[str]]:
    """Return the installed tools for an open loop over this wire, and names of missing ones."""
    known = [
        ("oha", "oha", oha_arguments, read_oha, ""),
        ("h2load", "h2load", h2load_arguments, read_h2load, H2LOAD_LOG),
    ]
    if wire.protocol == "http3":
        # Built with HTTP/3, which oha is only on request; h2load has it in few packages.
        known = [("oha", "oha-http3", oha_arguments, read_oha, "")]
    elif wire.protocol == "http1" and wire.tls is None:
        known += [
            ("zrk", "zrk", zrk_arguments, read_zrk, ""),
            ("wrk2", "wrk2", wrk2_arguments, read_wrk2, ""),
        ]
    found, missing = [], []
    for name, file, arguments, read, log in known:
        program = find(file, peers_dir)
        if program is None:
            missing.append(file)
        else:
            found.append(Peer(name, program, arguments, read, log))
    return found, missing


def find(name: str, peers_dir: str | None) -> str | None:
    """Return the program of that name in ``peers_dir``, or else on the PATH."""
    places = [peers_dir] if peers_dir else []
    return shutil.which(name, path=os.pathsep.join([*places, os.environ.get("PATH", os.defpath)]))


def zrk_arguments(lab: Lab, rate_per_s: float, duration_s: int) -> list[str]:
    """Return one window of zrk."""
    return [
        *("-t1", f"-c{CONNECTIONS}", f"-d{duration_s}s", f"-R{rate_per_s:.0f}"),
        *("--plain", "--format", "json", lab.url),
    ]


def read_zrk(text: str) -> Said:
    """Zrk's JSON report, in µs; progress may stand before it."""
    report = json.loads(text[text.index("{\n") :])
    latency = report["latency_us"]
    return Said(latency["p50"], latency["p99"], report["achieved_rate"])


def oha_arguments(lab: Lab, rate_per_s: float, duration_s: int) -> list[str]:
    """Return one window of oha."""
    version = {"http1": "1.1", "http2": "2", "http3": "3"}[lab.wire.protocol]
    return [
        *("--no-tui", "--output-format", "json", "--latency-correction", "--worker-threads", "1"),
        *("--http-version", version, *(("--cacert", str(lab.ca_file)) if lab.wire.tls else ())),
        *("-q", f"{rate_per_s:.0f}", "-c", str(CONNECTIONS), "-z", f"{duration_s}s", lab.url),
    ]


def read_oha(text: str) -> Said:
    """Oha's JSON report, in seconds."""
    report = json.loads(text)
    latency = report["latencyPercentiles"]
    return Said(latency["p50"] * 1e6, latency["p99"] * 1e6, report["summary"]["requestsPerSec"])


def wrk2_arguments(lab: Lab, rate_per_s: float, duration_s: int) -> list[str]:
    """Return one window of wrk2, after its calibration."""
    return [
        *("-t1", f"-c{CONNECTIONS}", f"-d{duration_s + _WRK2_CALIBRATION_S}s"),
        *(f"-R{rate_per_s:.0f}", "--latency", lab.url),
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


H2LOAD_LOG = "h2load.log"
_H2LOAD_WARMUP_S = 1


def h2load_arguments(lab: Lab, rate_per_s: float, duration_s: int) -> list[str]:
    """Return one window of h2load; its rate is that of each connection."""
    return [
        *("-t1", f"-c{CONNECTIONS}", "-m1", f"-D{duration_s}"),
        *(f"--warm-up-time={_H2LOAD_WARMUP_S}", f"--rps={rate_per_s / CONNECTIONS:.3f}"),
        *(f"--log-file={lab.folder / H2LOAD_LOG}",),
        *(("--h1",) if lab.wire.protocol == "http1" else ()),
        lab.url,
    ]


def read_h2load(text: str) -> Said:
    """H2load's log (start in µs, status, µs from the submit) behind its summary."""
    rate = float(_match(r"^finished in [\d.]+m?s, ([\d.]+) req/s", text)[1])
    took_us = [float(us) for us in re.findall(r"^\d+\t200\t(\d+)$", text, re.MULTILINE)]
    if not took_us:
        raise ValueError("no requests in the log")
    p50_us, p99_us = np.quantile(took_us, [0.5, 0.99], method="inverted_cdf")
    return Said(float(p50_us), float(p99_us), rate)


def wrk_arguments(url: str, duration_s: int) -> list[str]:
    """Return one window of wrk, a closed loop."""
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
