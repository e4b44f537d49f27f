"""Packet captures on loopback: the times between request and response packets.

The capture needs tcpdump and the right to capture. It sees each packet once, with the kernel's
timestamp of its transfer to the loopback device: the request when the generator's write reaches
the stack, the response when the server's does. The difference is the server's time without the
generator's. pcap-savefile(5) documents the format.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.lab import Lab

_SNAP_BYTES = 96
"""Size of Ethernet, IP and TCP headers with options; their lengths show if there is a payload."""
_BUFFER_KIB = 256 << 10
"""Buffer for a whole run, so that the capture may wait for the server and the generator."""
_DRAIN_S = 2.5
"""Time for libpcap to deliver a partly filled block, which takes a second at most."""
_NS_MAGIC, _US_MAGIC = 0xA1B23C4D, 0xA1B2C3D4
_ETHERNET, _IPV4, _TCP = 1, 0x0800, 6


@dataclass(frozen=True, slots=True)
class Exchanges:
    """Captured requests, in the order of their packets (columns of length n)."""

    sent_unix_ns: NDArray[np.int64]
    """Time of the request's first packet."""
    took_ns: NDArray[np.int64]
    """Time from there to the last packet of the response."""

    def between(self, start_unix_s: float, duration_s: float) -> Exchanges:
        """Return the requests that were sent in a window."""
        start_ns = round(start_unix_s * 1e9)
        inside = (self.sent_unix_ns >= start_ns) & (
            self.sent_unix_ns < start_ns + round(duration_s * 1e9)
        )
        return Exchanges(self.sent_unix_ns[inside], self.took_ns[inside])


@contextmanager
def capture(lab: Lab) -> Iterator[Path]:
    """Capture the packets between generators and server; the file is complete after the context.

    Raises:
        click.ClickException: tcpdump is missing or not allowed, or it lost packets.
    """
    program = shutil.which("tcpdump")
    if program is None:
        raise click.ClickException("tcpdump is not on the PATH")
    path = lab.folder / "capture.pcap"
    payload = "(ip[2:2] - ((ip[0] & 0xf) << 2) - ((tcp[12] & 0xf0) >> 2)) != 0"
    command = [
        *("taskset", "-c", str(lab.spare_cpu), program, "-i", "lo", "-n"),
        *("-s", str(_SNAP_BYTES), "-B", str(_BUFFER_KIB), "--time-stamp-precision=nano"),
        # To our descriptor: as root, tcpdump drops its privileges before it opens a file.
        *("-w", "-", f"tcp port {lab.port} and {payload}"),
    ]
    with (
        path.open("wb") as file,
        subprocess.Popen(command, stdout=file, stderr=subprocess.PIPE, text=True) as process,
    ):
        assert process.stderr is not None  # noqa: S101 - Popen was given a pipe
        try:
            messages = ""
            for line in process.stderr:
                messages += line
                if "listening on" in line:
                    break
            else:
                raise click.ClickException(f"tcpdump: {messages.strip()}")
            yield path
            time.sleep(_DRAIN_S)
        finally:
            with suppress(OSError):
                process.terminate()
            messages = process.stderr.read()
            process.wait()
    if "\n0 packets dropped by kernel" not in f"\n{messages}":
        path.unlink()
        raise click.ClickException(f"the capture is incomplete: {messages.strip()}")


def exchanges(pcap: bytes, server_port: int) -> Exchanges:
    """Pair requests with responses on each connection (HTTP/1.1 without pipelining).

    A request begins with the first packet of the client after a packet of the server. Its response
    ends with the last packet of the server before the client's next one. An exchange that is cut
    at the beginning or the end of the capture counts with its captured part.

    Args:
        pcap: a savefile of IPv4 packets over Ethernet, as loopback has them; packets without
            payload are ignored.
        server_port: the TCP port of the server.

    Raises:
        ValueError: the file has another format.
    """
    sent: list[int] = []
    took: list[int] = []
    asked: dict[int, int] = {}
    answered: dict[int, int] = {}

    def close(client: int) -> None:
        sent.append(asked[client])
        took.append(answered.pop(client) - asked.pop(client))

    for at_ns, source, destination in _payloads(pcap):
        if destination == server_port:
            if source in answered:
                close(source)
            asked.setdefault(source, at_ns)
        elif source == server_port and destination in asked:
            answered[destination] = at_ns
    for client in list(answered):
        close(client)
    order = np.argsort(np.array(sent, np.int64), kind="stable")
    return Exchanges(np.array(sent, np.int64)[order], np.array(took, np.int64)[order])


def _payloads(pcap: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield Unix time in ns, source port and destination port of each packet with a payload."""
    if len(pcap) < 24:
        raise ValueError("not a capture: it is shorter than its header")
    order = next((o for o in "<>" if _magic(o, pcap) in {_NS_MAGIC, _US_MAGIC}), None)
    if order is None:
        raise ValueError("not a capture in the pcap format")
    tick_ns = 1 if _magic(order, pcap) == _NS_MAGIC else 1_000
    (link,) = struct.unpack_from(order + "I", pcap, 20)
    if link & 0xFFFF != _ETHERNET:
        raise ValueError(f"link type {link & 0xFFFF}, only Ethernet ({_ETHERNET}) is read")
    record = struct.Struct(order + "IIII")
    offset = 24
    while offset + record.size <= len(pcap):
        seconds, ticks, captured, _ = record.unpack_from(pcap, offset)
        frame = offset + record.size
        offset = frame + captured
        if offset > len(pcap):
            return  # cut short in the middle of a packet
        if captured < 54 or int.from_bytes(pcap[frame + 12 : frame + 14], "big") != _IPV4:
            continue
        ip = frame + 14
        if pcap[ip + 9] != _TCP:
            continue
        tcp = ip + 4 * (pcap[ip] & 0xF)
        headers = tcp - ip + 4 * (pcap[tcp + 12] >> 4)
        if int.from_bytes(pcap[ip + 2 : ip + 4], "big") <= headers:
            continue
        source, destination = struct.unpack_from(">HH", pcap, tcp)
        yield seconds * 1_000_000_000 + ticks * tick_ns, source, destination


def _magic(order: str, pcap: bytes) -> int:
    magic: int = struct.unpack_from(order + "I", pcap)[0]
    return magic
