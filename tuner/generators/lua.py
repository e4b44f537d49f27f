r"""The Lua script for wrk2: the choice of requests, and the report at the end.

No part of a workload becomes code: texts are Lua strings with all bytes except plain characters
escaped (Lua 5.1, 2.1: ``\ddd``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from tuner.generators.generator import HOST
from tuner.workload.workload import Request

REPORT = "tuner-report "
"""Prefix of the line that holds the report."""

_DONE = """
function done(summary, latency, requests)
  local count, grid = #latency, {}
  local function at(share) grid[math.min(count, math.max(1, math.ceil(share * count)))] = true end
  for step = 0, 1000 do at(step / 1000) end
  for step = 0, 60 * 6 do at(1 - 10 ^ (-step / 60)) end
  local ranks = {}
  for rank in pairs(grid) do if count > 0 then ranks[#ranks + 1] = rank end end
  table.sort(ranks)
  local rows = {}
  for i, rank in ipairs(ranks) do
    rows[i] = string.format("[%d,%d]", rank, latency:percentile(100 * rank / count))
  end
  local e = summary.errors
  io.write(string.format(
    'tuner-report {"duration_us":%d,"requests":%d,"bytes":%.0f,"errors":{"connect":%d,"read":%d,' ..
    '"write":%d,"status":%d,"timeout":%d},"ranks":[%s]}\\n',
    summary.duration, summary.requests, summary.bytes, e.connect, e.read, e.write, e.status,
    e.timeout, table.concat(rows, ",")))
end
"""


def script(requests: Sequence[Request], seed: int) -> str:
    """Return the script of one window.

    Args:
        requests: the mix; an empty one requests ``/``.
        seed: seed for the choice between requests.
    """
    return _mix(requests, seed) + _DONE


def _mix(requests: Sequence[Request], seed: int) -> str:
    if not requests:
        return ""
    total = sum(request.weight for request in requests)
    shares = accumulate(request.weight / total for request in requests)
    lines = ["local made, upto = {}, {" + ", ".join(f"{share!r}" for share in shares) + "}"]
    lines.append("function init(args)")
    lines.append(f"  math.randomseed({seed % 2**31})")
    for number, request in enumerate(requests, 1):
        body = text(request.body) if request.body else "nil"
        lines.append(
            f"  made[{number}] = wrk.format({text(request.method)}, {text(request.path)},"
            f" {_headers(request)}, {body})"
        )
    lines.append("end")
    if len(requests) == 1:
        lines.append("function request() return made[1] end")
        return "\n".join(lines)
    lines.append("function request()")
    lines.append("  local draw = math.random()")
    lines.append("  for number, share in ipairs(upto) do")
    lines.append("    if draw < share then return made[number] end")
    lines.append("  end")
    lines.append("  return made[#made]")
    lines.append("end")
    return "\n".join(lines)


def _headers(request: Request) -> str:
    named = {name.lower() for name, _ in request.headers}
    given = request.headers if "host" in named else (("Host", HOST), *request.headers)
    return "{" + ", ".join(f"[{text(name)}] = {text(value)}" for name, value in given) + "}"


def text(value: str | bytes) -> str:
    """Return a Lua string literal."""
    data = value.encode() if isinstance(value, str) else value
    plain = b" !#$%&'()*+,-./:;<=>?@[]^_`{|}~"
    written = (
        chr(byte)
        if chr(byte).isascii() and (chr(byte).isalnum() or byte in plain)
        else f"\\{byte:03d}"
        for byte in data
    )
    return '"' + "".join(written) + '"'
