"""Columns of the tidy tables: name with the unit, type and meaning of every variable.

Names are stable: scripts and notebooks use them. A new variable is added at the end of its table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TableName = Literal["windows", "blocks", "trials"]
Kind = Literal["text", "integer", "number", "flag", "any"]
"""Type of the values: str, int, float, bool, or one of these that depends on the row."""


@dataclass(frozen=True, slots=True)
class Column:
    """One variable of a table."""

    name: str
    """Name with the unit, such as ``p99_us``."""
    kind: Kind
    meaning: str
    """Noun phrase."""


PARAMETER = "params_"
"""Beginning of a parameter's column, the same as in Optuna's ``trials_dataframe``."""


def parameter(name: str) -> Column:
    """Return the column of a parameter."""
    return Column(f"{PARAMETER}{name}", "any", f"value of the parameter {name}")


_LATENCIES = (
    ("p50_us", "median"),
    ("p90_us", "90th percentile"),
    ("p99_us", "99th percentile"),
    ("p999_us", "99.9th percentile"),
    ("max_us", "maximum"),
    ("mean_us", "mean"),
)


def _latency(prefix: str, of: str) -> tuple[Column, ...]:
    """Return the columns of one distribution of a window."""
    return tuple(
        Column(f"{prefix}{name}", "number", f"{what} of {of}") for name, what in _LATENCIES
    )


_PLACE = (
    Column("study", "text", "name of the study"),
    Column("host", "text", "name of the host"),
    Column("server", "text", "name of the server"),
    Column("phase", "text", "phase of the study"),
    Column("block", "integer", "number of the block in the study, from 0"),
    Column("block_index", "integer", "number of the block in its phase; a repeated block keeps it"),
    Column("arm", "text", "label of the instance in its block; the baseline's is `baseline`"),
    Column("configuration", "text", "digest of the configuration"),
    Column("trial", "integer", "number of the trial, in the search"),
    Column("slot", "integer", "position in the deployment, from 0"),
)

_WINDOWS = (
    *_PLACE,
    Column("round", "integer", "round of the block, from 0"),
    Column("position", "integer", "position in the order of measurement in the block, from 0"),
    Column("started_unix_s", "number", "start of the window"),
    Column("duration_s", "number", "length of the measured part, or of the arm's part of it"),
    Column("mode", "text", "`open` or `closed` loop"),
    Column("protocol", "text", "negotiated protocol"),
    Column("connections", "integer", "number of connections"),
    Column("valid", "flag", "true if the window may count"),
    Column("invalid_reasons", "text", "reasons of an invalid window, joined by `; `"),
    Column("bad", "flag", "true if the configuration alone caused these reasons"),
    Column("rate_per_s", "number", "offered rate; 0 in a closed loop"),
    Column("offered", "integer", "requests that were due"),
    Column("completed", "integer", "answered requests"),
    Column("completed_per_s", "number", "answered requests per second"),
    Column("errors", "integer", "failed requests"),
    Column("errors_by_kind", "text", "failed requests by kind, such as `connect 2, status 1`"),
    Column("timeouts", "integer", "requests that timed out"),
    Column("unsent", "integer", "requests that were never sent"),
    Column("in_flight", "integer", "requests without an answer at the end of the drain"),
    Column("reconnects", "integer", "connections that were opened again"),
    Column("bytes_in", "integer", "bytes received"),
    Column("requests", "integer", "requests in the stall-free latency"),
    Column("effective_requests", "number", "effective sample size of the stall-free latency"),
    *_latency("", "the latency from the intended send time, without requests that stalls touched"),
    Column("raw_requests", "integer", "requests in the raw latency"),
    *_latency("raw_", "the latency from the intended send time, of all requests"),
    *_latency("service_", "the time from sending to the answer's end, stall-free"),
    *_latency("send_lag_", "the time from the intended to the actual sending, stall-free"),
    Column("excluded_share", "number", "share of requests that the stall rule excludes"),
    Column("stalled_share", "number", "share of the arm's time in stalls of any core"),
    Column("steal_s", "number", "time that the hypervisor took from the watched cores"),
    Column("generator_cpu_s", "number", "CPU time of the generator"),
    Column("generator_busy_share", "number", "busy share of the generator's cores"),
    Column("server_cpu_s", "number", "CPU time of the server's processes"),
    Column("server_cpu_us_per_request", "number", "CPU time of the server per answered request"),
    Column("server_rss_bytes", "integer", "resident memory of the server's processes"),
    Column("backend_cpu_s", "number", "CPU time of the backend, warm-up and drain included"),
    *_latency("first_byte_", "the time from the intended send time to the first byte, stall-free"),
)

_BLOCKS = (
    *_PLACE,
    Column("started_unix_s", "number", "start of the block"),
    Column("ended_unix_s", "number", "end of the block"),
    Column("state", "text", "`complete`, `invalid`, `failed` or `running`"),
    Column("reason", "text", "why the block is invalid or failed"),
    Column("arm_state", "text", "`live`, `refused`, `failed`, `dropped` or `planned`"),
    Column("arm_message", "text", "message of the server if refused or failed; why it was dropped"),
    Column("seed", "integer", "seed of the order of measurement"),
    Column("windows", "integer", "measured windows of the arm"),
    Column("windows_invalid", "integer", "invalid ones of these windows"),
    Column("windows_counted", "integer", "windows of rounds that are valid for all arms"),
    Column("p50_us", "number", "median latency of the typical counted window"),
    Column("p90_us", "number", "90th percentile of the latency, likewise"),
    Column("p99_us", "number", "99th percentile of the latency, likewise"),
    Column("p999_us", "number", "99.9th percentile of the latency, likewise"),
    Column("completed_per_s", "number", "answered requests per second, likewise"),
    Column("server_cpu_us_per_request", "number", "CPU time of the server per request, likewise"),
    Column("server_memory_mib", "number", "resident memory of the server, likewise"),
    Column("objective", "text", "objective of the study; of two, the first"),
    Column("value", "number", "the objective's figure of the arm, in its own unit"),
    Column("ratio", "number", "that figure divided by the baseline's in the same block"),
)

_TRIALS = (
    Column("study", "text", "name of the study"),
    Column("trial", "integer", "number of the trial, from 0"),
    Column("host", "text", "name of the host that began it"),
    Column("configuration", "text", "digest of the configuration"),
    Column("origin", "text", "`baseline`, `hand` or `proposed`"),
    Column("state", "text", "`complete`, `racing`, `dropped` or `infeasible`"),
    Column("message", "text", "why the configuration is infeasible or was dropped"),
    Column("blocks", "integer", "blocks in which it was measured"),
    Column("objective", "text", "objective of the study; of two, the first"),
    Column("ratio", "number", "trial divided by baseline, from all arms of the search; no claim"),
    Column("ratio_low", "number", "smallest ratio of a block"),
    Column("ratio_high", "number", "largest ratio of a block"),
    Column("ratio_best_so_far", "number", "best ratio of all complete trials up to this one"),
    Column("second_objective", "text", "the other objective"),
    Column("second_ratio", "number", "ratio of the other objective"),
    Column("front", "flag", "true if no other trial is better in both of two objectives"),
    Column("violates", "flag", "true if it is beyond a constraint on average"),
)

COLUMNS: dict[TableName, tuple[Column, ...]] = {
    "windows": _WINDOWS,
    "blocks": _BLOCKS,
    "trials": _TRIALS,
}
"""Columns by table; that of trials has further ones for the parameters (`parameter`)."""
