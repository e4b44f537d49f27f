"""A stand-in for wrk2 where the real one is not installed: it sends real requests at a real rate.

It reads the options that the adapter passes and the request in the adapter's Lua script, keeps to
wrk2's rules (a schedule per connection, latencies from the intended time, a one-second minimum),
and prints what wrk2 prints, in wrk2's format: see ``kept/wrk2``. It runs no Lua, so it writes the
hook's report itself.

Standard library only: it starts as a program of its own.
"""

from __future__ import annotations

import argparse
import bisect
import json
import math
import re
import selectors
import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

_SHARES = (0.5, 0.75, 0.9, 0.99, 0.999, 0.9999, 0.99999, 1.0)


@dataclass
class Tally:
    """The counts of a run; latencies in µs."""

    corrected_us: list[int] = field(default_factory=list)
    service_us: list[int] = field(default_factory=list)
    requests: int = 0
    bytes_in: int = 0
    statuses: int = 0
    reads: int = 0


@dataclass
class Connection:
    """One connection with a schedule of its own."""

    socket: socket.socket
    began_s: float
    interval_s: float
    sent: int = 0
    sent_s: float = 0.0
    waiting: bool = False
    received: bytes = b""

    @property
    def due_s(self) -> float:
        """Return the intended send time of the next request."""
        return self.began_s + self.sent * self.interval_s


def request_of(script: str, host: str) -> bytes:
    """Return the bytes of the first request of a script of ``tuner.generators.lua``."""
    made = re.search(r'wrk\.format\("((?:[^"\\]|\\.)*)", "((?:[^"\\]|\\.)*)", \{(.*?)\}, ', script)
    method, path, headers = (
        (made[1], made[2], made[3]) if made else ("GET", "/", f'["Host"] = "{host}"')
    )
    pairs = re.findall(r'\["((?:[^"\\]|\\.)*)"\] = "((?:[^"\\]|\\.)*)"', headers)
    lines = [f"{method} {_plain(path)} HTTP/1.1", *(f"{_plain(k)}: {_plain(v)}" for k, v in pairs)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _plain(lua: str) -> str:
    return re.sub(r"\\(\d{3})", lambda found: chr(int(found[1])), lua)


def answered(received: bytes) -> int:
    """Return the length of the first whole response; 0 if there is none yet."""
    head, blank, _ = received.partition(b"\r\n\r\n")
    if not blank:
        return 0
    found = re.search(rb"(?im)^content-length: *(\d+)", head)
    whole = len(head) + 4 + (int(found[1]) if found else 0)
    return whole if len(received) >= whole else 0


def run(address: tuple[str, int], options: argparse.Namespace, request: bytes) -> tuple[Tally, int]:
    """Send requests until the time is over; return the counts and the duration in µs."""
    tally, begun = Tally(), time.monotonic()
    interval_s = options.connections / options.rate
    selector = selectors.DefaultSelector()
    for number in range(options.connections):
        opened = socket.create_connection(address)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.setblocking(False)
        made = Connection(opened, begun + 0.005 * number, interval_s)
        selector.register(opened, selectors.EVENT_READ, made)
    connections = [key.data for key in selector.get_map().values()]
    until = begun + options.duration
    while (now := time.monotonic()) < until:
        for each in connections:
            if not each.waiting and each.due_s <= now:
                each.socket.sendall(request)
                each.sent_s, each.waiting = time.monotonic(), True
        idle = [each.due_s for each in connections if not each.waiting]
        wait_s = min([until, *idle]) - time.monotonic()
        for key, _ in selector.select(max(0.0, wait_s)):
            if not take(key.data, tally):
                selector.unregister(key.fileobj)
                connections.remove(key.data)
        if not connections:
            break
    for each in connections:
        each.socket.close()
    return tally, round((time.monotonic() - begun) * 1e6)


def take(each: Connection, tally: Tally) -> bool:
    """Read what came on a connection; return whether it is still open."""
    try:
        more = each.socket.recv(65_536)
    except OSError:
        more = b""
    if not more:
        tally.reads += 1
        each.socket.close()
        return False
    each.received += more
    length = answered(each.received)
    if length and each.waiting:
        now = time.monotonic()
        tally.requests += 1
        tally.bytes_in += length
        tally.statuses += int(each.received.split(b" ", 2)[1]) > 399
        tally.corrected_us.append(round((now - each.due_s) * 1e6))
        tally.service_us.append(round((now - each.sent_s) * 1e6))
        each.received, each.waiting = each.received[length:], False
        each.sent += 1
    return True


def unit(value_us: float) -> str:
    """Return a latency as wrk2's summary prints it, in the unit that fits."""
    for size, name in ((1e6, "s"), (1e3, "ms")):
        if value_us >= size:
            return f"{value_us / size:.2f}{name}"
    return f"{value_us:.2f}us"


def quantile(ordered: list[int], share: float) -> int:
    """Return the value that this share of the sorted values does not exceed."""
    return ordered[min(len(ordered), max(1, math.ceil(share * len(ordered)))) - 1]


def spectrum(name: str, values: list[int]) -> list[str]:
    """Return the lines of one latency distribution."""
    ordered = sorted(values)
    shown = [quantile(ordered, share) if ordered else 0 for share in _SHARES]
    lines = [f"  Latency Distribution (HdrHistogram - {name})"]
    lines += [f"{100 * s:7.3f}% {unit(v):>9}" for s, v in zip(_SHARES, shown, strict=True)]
    lines += ["", "  Detailed Percentile spectrum:"]
    lines += ["       Value   Percentile   TotalCount 1/(1-Percentile)", ""]
    shares = [0.0] if ordered else []
    while shares and 1 - shares[-1] > 1 / len(ordered):
        # HdrHistogram takes five steps for every halving of what is left.
        half = 2.0 ** -(math.floor(-math.log2(1 - shares[-1])) + 1)
        shares.append(shares[-1] + half / 5)
    for share in shares:
        value = quantile(ordered, share)
        count = bisect.bisect_right(ordered, value)
        lines.append(f"{value / 1e3:12.3f} {share:12.6f} {count:12d} {1 / (1 - share):12.2f}")
    last = ordered[-1] if ordered else 0
    lines.append(f"{last / 1e3:12.3f} {1:12.6f} {len(ordered):12d} {'inf':>12}")
    mean = sum(ordered) / len(ordered) / 1e3 if ordered else math.nan
    spread = (
        math.sqrt(sum((value / 1e3 - mean) ** 2 for value in ordered) / len(ordered))
        if ordered
        else math.nan
    )
    lines += [f"#[Mean    = {number(mean)}, StdDeviation   = {number(spread)}]"]
    lines += [f"#[Max     = {last / 1e3:12.3f}, Total count    = {len(ordered):12d}]"]
    lines += [f"#[Buckets = {27:12d}, SubBuckets     = {2048:12d}]"]
    return [*lines, "-" * 58]


def number(value: float) -> str:
    """Return a figure as C's printf does, with glibc's ``-nan``."""
    return f"{'-nan':>12}" if math.isnan(value) else f"{value:12.3f}"


def hook(tally: Tally, duration_us: int) -> str:
    """Return the line of the adapter's Lua hook."""
    ordered, count = sorted(tally.corrected_us), len(tally.corrected_us)
    wanted = [step / 1_000 for step in range(1_001)]
    wanted += [1 - 10 ** (-step / 60) for step in range(361)]
    ranks = sorted({min(count, max(1, math.ceil(share * count))) for share in wanted if count})
    report = {
        "duration_us": duration_us,
        "requests": tally.requests,
        "bytes": tally.bytes_in,
        "errors": {
            "connect": 0,
            "read": tally.reads,
            "write": 0,
            "status": tally.statuses,
            "timeout": 0,
        },
        "ranks": [[rank, ordered[rank - 1]] for rank in ranks],
    }
    return "tuner-report " + json.dumps(report, separators=(",", ":"))


def arguments() -> argparse.Namespace:
    """Return the options that the adapter passes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-t", dest="threads", type=int, required=True)
    parser.add_argument("-c", dest="connections", type=int, required=True)
    parser.add_argument("-d", dest="duration", type=lambda s: int(s.rstrip("s")), required=True)
    parser.add_argument("-R", dest="rate", type=float, required=True)
    parser.add_argument("--timeout", required=True)
    parser.add_argument("--latency", action="store_true")
    parser.add_argument("-U", dest="uncorrected", action="store_true")
    parser.add_argument("-s", dest="script", type=Path, required=True)
    parser.add_argument("url")
    return parser.parse_args()


def main() -> int:
    """Run as wrk2 does."""
    options = arguments()
    url = urlsplit(options.url)
    address = (str(url.hostname), url.port or 80)
    request = request_of(options.script.read_text(encoding="utf-8"), url.netloc)
    try:
        socket.create_connection(address, timeout=1).close()
    except OSError as error:
        print(f"unable to connect to {url.netloc} {error.strerror}")
        return 1
    tally, duration_us = run(address, options, request)
    seconds = duration_us / 1e6
    lines = [
        f"Running {options.duration}s test @ {options.url}",
        f"  {options.threads} threads and {options.connections} connections",
        "  Thread Stats   Avg      Stdev     Max   +/- Stdev",
        "    Latency     -nanus    -nanus   0.00us    0.00%",
        "    Req/Sec       -nan      -nan   0.00      0.00%",
        *spectrum("Recorded Latency", tally.corrected_us),
        "",
        *spectrum(
            "Uncorrected Latency (measured without taking delayed starts into account)",
            tally.service_us,
        ),
        f"  {tally.requests} requests in {seconds:.2f}s, {tally.bytes_in / 1024:.2f}KB read",
    ]
    if tally.reads:
        lines.append(f"  Socket errors: connect 0, read {tally.reads}, write 0, timeout 0")
    if tally.statuses:
        lines.append(f"  Non-2xx or 3xx responses: {tally.statuses}")
    lines += [
        f"Requests/sec: {tally.requests / seconds:9.2f}",
        f"Transfer/sec: {tally.bytes_in / 1024 / seconds:9.2f}KB",
        hook(tally, duration_us),
    ]
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
