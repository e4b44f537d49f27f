"""The load of many workers on a storage, and its limits.

    python -m benchmarks.scale
    python -m benchmarks.scale --storage postgresql+psycopg://USER@HOST/DATABASE --workers 200
    python -m benchmarks.scale --storage grpc://HOST:13000 --workers 200

Without --storage it starts a PostgreSQL and measures it directly, then through ``tuner proxy``.

Simulated workers send the requests of real ones to the storage. Each reads the blocks and the
leases of the others, begins a block of eight new trials, waits for the length of a window before it
writes one, and ends the block. They fit no model and propose at random. Windows, configurations and
their texts are as large as real ones. The workers are threads of a few processes; the storage is a
real one. The program prints one JSON line for each storage.

Threads of one process take turns in Python; real workers have a process each. So the time of an
answer has three parts: the thread's own CPU time, the wait for SQL statements, and all other waits
(for a turn, for commits, for the proxy). A thread whose statement is answered still waits for its
turn, so the second part is an upper bound of the database's time.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import random
import socket
import statistics
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

from tests.store.database import binaries, database
from tuner.errors import ClaimedError, StoreError
from tuner.judge.scoring import BASELINE, window_id
from tuner.measurement.gates import Gates
from tuner.measurement.measuring import measure
from tuner.measurement.stalls import StallRule
from tuner.record.model import BlockInstance, ConfigurationRecord, StudyHost
from tuner.space.configuration import Configuration
from tuner.store.store import Storage, Store
from tuner.testing.lab import SimulatedHost
from tuner.workload.wire import Wire
from tuner.workload.workload import Workload

ARMS, ROUNDS = 9, 4
_PARAMETERS = 24
_TEXT = "# as long as a rendered configuration\n" * 60
_BASELINE = Configuration.of("scale", {"place": -1})
_WORKLOAD = Workload("scale", "", Wire(), (), 32, "poisson", 2.0, (), None)


@dataclass(frozen=True, slots=True)
class Load:
    """The work of the workers."""

    storage: str
    study: str
    window_s: float
    seconds: float
    spread_s: float
    """Time within which workers begin: real ones calibrate first, each at its own pace."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Response time of one answer and its parts, ms."""

    wall_ms: float
    cpu_ms: float
    sql_ms: float
    """Wait for the answers to SQL statements."""


class _Sql(threading.local):
    """Time of a thread's SQL statements; ``began`` is the start of the one that runs."""

    wait_s = 0.0
    began = (0.0, 0.0)


_SQL = _Sql()


@dataclass
class Times:
    """Response times of the storage by kind of call."""

    taken: dict[str, list[Taken]] = field(default_factory=dict)
    failures: int = 0
    statements: int = 0
    """SQL statements of a worker's process; none where it asks a proxy."""
    cpu_s: float = 0.0
    """CPU time of the workers' own processes."""

    def of(self, name: str, ask: Callable[[], Any]) -> Any:
        """Return the result of ``ask``, and record its response time."""
        wall_s, cpu_s, sql_s = time.perf_counter(), time.thread_time(), _SQL.wait_s
        try:
            return ask()
        finally:
            taken = Taken(
                1e3 * (time.perf_counter() - wall_s),
                1e3 * (time.thread_time() - cpu_s),
                1e3 * (_SQL.wait_s - sql_s),
            )
            self.taken.setdefault(name, []).append(taken)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the workers and print their figures."""
    options = _parser().parse_args(arguments)
    if options.storage:
        _show(options.storage, options.database or options.storage, options)
        return
    if binaries() is None:
        raise SystemExit("no PostgreSQL here: .ci/require postgresql, or name a --storage")
    with database() as server:
        _show(server.url(), server.url(), options)
        with _proxy(server.url()) as url:
            _show(url, server.url(), options)


@contextmanager
def _proxy(storage: str) -> Iterator[str]:
    """Run ``tuner proxy`` in front of a database and yield its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    process = subprocess.Popen(
        [sys.executable, "-m", "tuner", "proxy", "--listen", address],
        env={**os.environ, "TUNER_STORAGE": storage},
    )
    try:
        yield f"grpc://{address}"
    finally:
        process.terminate()
        process.wait()


def _show(storage: str, behind: str, options: argparse.Namespace) -> None:
    """Run the workers on a storage and print their figures.

    Args:
        storage: URL that the workers share.
        behind: URL of the database, whose counters are read.
        options: options of the command line.
    """
    study = f"scale-{uuid.uuid4().hex[:8]}"
    load = Load(storage, study, options.window, options.seconds, options.spread)
    host = SimulatedHost()
    Store.create(load.storage, replace(host.header(study, _BASELINE, "p99"), home="h0"))
    counted = _Database(behind)
    before = counted.counters()
    context = multiprocessing.get_context("spawn")
    answers: Queue[Times] = context.Queue()
    shares = [len(range(p, options.workers, options.processes)) for p in range(options.processes)]
    processes = [
        context.Process(target=_process, args=(load, place, share, answers))
        for place, share in enumerate(shares)
    ]
    began = time.monotonic()
    for process in processes:
        process.start()
    found = [answers.get() for _ in processes]
    for process in processes:
        process.join()
    took_s = time.monotonic() - began
    after = counted.counters()
    record = Store.open(load.storage, study).record()
    taken: dict[str, list[Taken]] = {}
    for times in found:
        for name, values in times.taken.items():
            taken.setdefault(name, []).extend(values)
    windows = sum(len(block.windows) for block in record.blocks)
    blocks = sum(block.state == "complete" for block in record.blocks)
    line = {
        "storage": load.storage.split(":", 1)[0],
        "workers": options.workers,
        "window_s": load.window_s,
        "took_s": round(took_s, 1),
        "blocks": blocks,
        "windows_per_s": round(windows / load.seconds, 1),
        # Of workers that wait for nothing but their windows.
        "wanted_windows_per_s": round(options.workers / load.window_s, 1),
        "failures": sum(times.failures for times in found),
        "statements_per_block": round(sum(t.statements for t in found) / max(1, blocks), 1),
        "workers_cpu_s_per_s": round(sum(t.cpu_s for t in found) / took_s, 2),
        # Of all that took place, so with what beginning asks for, and over all of its time.
        "transactions_per_s": _rate(before, after, "commits", took_s),
        "transactions_per_window": _rate(before, after, "commits", max(1, windows)),
        "rows_read_per_s": _rate(before, after, "rows", took_s),
        "database_cpu_s_per_s": _rate(before, after, "cpu_s", took_s),
        # Of its sessions together: above it, statements wait for the network or for their client.
        "database_active_s_per_s": _rate(before, after, "active_s", took_s),
        "database_mb": round(after["bytes"] / 1e6, 1) if after else None,
        "ms": {name: _summary(values) for name, values in sorted(taken.items())},
    }
    sys.stdout.write(json.dumps(line) + "\n")


def _summary(values: Sequence[Taken]) -> dict[str, float | int | None]:
    """Return median and tail of the answers, ms, and the parts of their mean."""
    walls = [taken.wall_ms for taken in values]
    mean, cpu, sql = (
        statistics.fmean(getattr(taken, part) for taken in values)
        for part in ("wall_ms", "cpu_ms", "sql_ms")
    )
    return {
        "n": len(values),
        "p50": round(statistics.median(walls), 1),
        "p99": round(statistics.quantiles(walls, n=100)[98], 1) if walls[1:] else None,
        "mean": round(mean, 1),
        "mean_python": round(cpu, 1),
        "mean_sql": round(sql, 1),
        "mean_waiting": round(mean - cpu - sql, 1),
    }


def _process(load: Load, place: int, workers: int, answers: Queue[Times]) -> None:
    import sqlalchemy

    times = Times()

    @sqlalchemy.event.listens_for(sqlalchemy.engine.Engine, "before_cursor_execute")
    def _begun(*_: object) -> None:
        _SQL.began = (time.perf_counter(), time.thread_time())

    @sqlalchemy.event.listens_for(sqlalchemy.engine.Engine, "after_cursor_execute")
    def _ended(*_: object) -> None:
        wall_s, cpu_s = _SQL.began
        _SQL.wait_s += (time.perf_counter() - wall_s) - (time.thread_time() - cpu_s)
        times.statements += 1

    opened = _opener(load.storage, workers)
    threads = [
        threading.Thread(target=_worker, args=(load, opened(), f"p{place}w{number}", times))
        for number in range(workers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    times.cpu_s = time.process_time()
    answers.put(times)


def _opener(url: str, workers: int) -> Callable[[], Storage]:
    """Return a function that opens a worker's storage, with a connection and cache of its own."""
    if url.startswith("grpc"):
        return lambda: url
    import optuna

    shared = optuna.storages.RDBStorage(
        url, engine_kwargs={"pool_size": workers, "max_overflow": 0}
    )
    return lambda: optuna.storages.get_storage(shared)


def _worker(load: Load, storage: Storage, name: str, times: Times) -> None:
    """Run one worker: blocks of windows until the time is over."""
    time.sleep(random.uniform(0, load.spread_s))  # noqa: S311 - no secret
    try:
        store = times.of("open", lambda: Store.open(storage, load.study))
        host = SimulatedHost(seed=abs(hash(name)) % 2**32)
        header = host.header(load.study, _BASELINE, "p99")
        store.join(
            StudyHost(name, header.generator, header.host, header.server, header.cores, (), 0.0)
        )
        window = _window(host)
        end = time.monotonic() + load.seconds
        number = 0
        while time.monotonic() < end:
            number += 1
            _block(load, store, f"{name}b{number}", window=window, times=times, end=end)
    except StoreError:
        times.failures += 1


def _block(load: Load, store: Store, name: str, *, window: Any, times: Times, end: float) -> None:
    sharing = store._sharing  # noqa: SLF001 - the parts of a worker's turn are timed apart
    times.of("record", sharing.look)
    times.of("leases", functools.partial(store.reap, look=False))
    sharing.shared()
    instances = [BlockInstance(BASELINE, _BASELINE.digest, None, "planned", "")]
    for place in range(1, ARMS):
        values = {f"parameter_{i}": place * 1_000 + i for i in range(_PARAMETERS)}
        chosen = Configuration.of("scale", {**values, "block": name})
        text = ConfigurationRecord("scale", chosen.digest, chosen.values, _TEXT)
        store.add_configuration(text, proposed=True)
        trial = store.open_trial(chosen, "proposed", {}, {})
        instances.append(BlockInstance(f"c{place}", chosen.digest, trial, "planned", ""))
    try:
        block = times.of("open block", lambda: store.open_block("search", 0, 1, instances))
    except ClaimedError:
        return
    for round_ in range(ROUNDS):
        for instance in instances:
            time.sleep(load.window_s)
            label = instance.instance
            own = replace(window, window_id=window_id(round_, label), instance=label)
            times.of("add window", functools.partial(store.add_window, block, own))
        if time.monotonic() > end:
            break
    times.of("close block", lambda: store.close_block(block, "complete", "", tuple(instances), 0.8))


def _window(host: SimulatedHost) -> Any:
    """Return a window's figures as large as a real one's."""
    from tuner.generators.generator import Endpoint, WindowSpec

    raw = host.measure(
        _WORKLOAD,
        Endpoint("baseline", "127.0.0.1:1", ()),
        WindowSpec("00-baseline", "baseline", "open", 2_000.0, 1, 0.1, 1.0),
    )
    return measure(raw, StallRule(), Gates(samples_needed=1), _WORKLOAD.wire)


class _Database:
    """Counters of a PostgreSQL; empty for other storages."""

    def __init__(self, url: str) -> None:
        self._url = url

    def counters(self) -> dict[str, float]:
        """Commits, rows read, bytes, and CPU seconds of its processes if they run here."""
        if not self._url.startswith("postgresql"):
            return {}
        import sqlalchemy

        engine = sqlalchemy.create_engine(self._url)
        with engine.connect() as connection:
            row = connection.execute(
                sqlalchemy.text(
                    "select xact_commit, tup_returned, pg_database_size(datname), active_time"
                    " from pg_stat_database"
                    " where datname = current_database()"
                )
            ).one()
        engine.dispose()
        return {
            "commits": row[0],
            "rows": row[1],
            "bytes": row[2],
            "active_s": row[3] / 1e3,
            "cpu_s": _cpu_s("postgres"),
        }


def _cpu_s(name: str) -> float:
    """Return CPU seconds of all processes of this name and of those that they have waited for."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        if f"({name})" in text:
            ticks += sum(map(int, text.rsplit(")", 1)[1].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _rate(
    before: dict[str, float], after: dict[str, float], name: str, over: float
) -> float | None:
    return round((after[name] - before[name]) / over, 2) if before and after else None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="What a storage sees of many workers.")
    parser.add_argument("--storage", help="URL, as for tuner worker [a database of its own].")
    parser.add_argument("--database", help="URL of the database behind a proxy, for its counters.")
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--window", type=float, default=1.0, help="Seconds of a window.")
    parser.add_argument("--seconds", type=float, default=60.0, help="How long each works.")
    parser.add_argument("--spread", type=float, default=20.0, help="Seconds until all have begun.")
    return parser


if __name__ == "__main__":
    main()
