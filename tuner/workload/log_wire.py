"""The connections of a log: protocol, TLS, and requests per connection."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from tuner.reading.log_tally import LogTally
from tuner.workload.wire import WireProtocol

_PROTOCOLS: dict[str, WireProtocol] = {
    "HTTP/2": "http2",
    "HTTP/2.0": "http2",
    "HTTP/3": "http3",
    "HTTP/3.0": "http3",
}
_FEWEST_CONNECTIONS = 32
"""The default of a workload; the rate of a study is usually higher than that of a log."""
_MOST_CONNECTIONS = 1_000


@dataclass(frozen=True, slots=True)
class LogWire:
    """The lines of a workload about its connections, and what they follow from."""

    lines: tuple[str, ...]
    notes: tuple[str, ...]


def log_wire(tally: LogTally) -> LogWire:
    """Return the protocol that most requests of a log had, and its connections."""
    protocol, notes = _protocol(tally)
    tls, note = _tls(tally, protocol)
    lines = [f"protocol: {protocol}"] if protocol != "http1" else []
    lines += ["tls: on"] if tls else []
    connections = tally.connections
    if connections.opened:
        each = max(round(connections.requests_each), 1)
        busy = tally.peak_per_s / tally.rate_per_s if tally.rate_per_s else 1.0
        open_s = connections.open_at_a_time(tally.last_unix_s - tally.first_unix_s)
        at_peak = math.ceil(open_s * max(busy, 1.0))
        used = min(max(at_peak, _FEWEST_CONNECTIONS), _MOST_CONNECTIONS)
        lines += [f"connections: {used}", f"requests_per_connection: {each}"]
        share = connections.requests / tally.good
        notes.append(
            f"Connections: {connections.requests_each:,.1f} requests on each,"
            f" {open_s:,.1f} open at a time, {at_peak:,} at the busiest second"
            f" ({share:.0%} of the requests name theirs); the workload has {used}."
        )
    else:
        notes.append(
            "Connections: the log does not have them ($connection and $connection_requests,"
            " or the client's port); they stay open."
        )
    return LogWire(tuple(lines), (*notes[:1], note, *notes[1:]))


def _protocol(tally: LogTally) -> tuple[WireProtocol, list[str]]:
    known = Counter({name: count for name, count in tally.protocols.items() if name})
    if not known:
        return "http1", ["Protocol: the log does not have it; the workload uses HTTP/1.1."]
    kinds: Counter[WireProtocol] = Counter()
    for name, count in known.items():
        kinds[_PROTOCOLS.get(name, "http1")] += count
    total = known.total()
    shares = ", ".join(f"{name} {count / total:.1%}" for name, count in known.most_common(4))
    used = kinds.most_common(1)[0][0]
    return used, [f"Protocol: {shares}; the workload uses {used}."]


def _tls(tally: LogTally, protocol: WireProtocol) -> tuple[bool, str]:
    encrypted, clear = tally.tls[True], tally.tls[False]
    if encrypted + clear:
        share = encrypted / (encrypted + clear)
        used = share >= 0.5 or protocol == "http3"
        return (
            used,
            f"TLS: {share:.1%} of the requests; the workload uses {'it' if used else 'none'}.",
        )
    if protocol != "http1":
        return True, "TLS: the log does not have it; browsers use this protocol with TLS only."
    return False, "TLS: the log does not have it ($scheme); the workload uses cleartext."
