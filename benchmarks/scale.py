"""What a storage sees of many workers, and where it ends.

    python -m benchmarks.scale --storage postgresql+psycopg://USER@HOST/DATABASE --workers 200
    python -m benchmarks.scale --storage grpc://HOST:13000 --workers 200

Simulated workers do what real ones ask of a storage and nothing else: each reads the blocks, looks
at the leases of the others, begins a block of eight new trials, waits as long as a window takes
before it writes one, ends the block. They fit no model and propose at random. Windows,
configurations and their texts are as large as real ones. They run as threads of a few processes;
the storage is the real one. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import statistics
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.queues import Queue
from typing import Any

from tuner.configuration import Configuration
from tuner.errors import ClaimedError, StoreError
from tuner.measurement import Gates, measure
from tuner.record import BlockInstance, ConfigurationRecord, StudyHost
from tuner.scoring import BASELINE, window_id
from tuner.stalls import StallRule
from tuner.store import Storage, Store
from tuner.testing.lab import SimulatedHost
from tuner.wire import Wire
from tuner.workload import Workload

ARMS, ROUNDS = 9, 4
_PARAMETERS = 24
_TEXT = "# as long as a rendered configuration\n" * 60
_BASELINE = Configuration.of("scale", {"place": -1})
_WORKLOAD = Workload("scale", "", Wire(), (), 32, "poisson", 2.0, (), None)


@dataclass(frozen=True, slots=True)
class Load:
    """What the workers do."""

    storage: str
    study: str
    window_s: float
    seconds: float


@dataclass
class Times:
    """How long the storage took, ms, by what was asked."""

    taken_ms: dict[str, list[float]] = field(default_factory=dict)
    failures: int = 0
    statements: int = 0
    """SQL statements of a worker's process; none where it asks a proxy."""
    cpu_s: float = 0.0
    """Of the workers' own processes."""

    def of(self, name: str, ask: Callable[[], Any]) -> Any:
        """Ask, and note how long the answer took."""
        began = time.perf_counter()
        try:
            return ask()
        finally:
            self.taken_ms.setdefault(name, []).append(1e3 * (time.perf_counter() - began))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the workers and print what they saw."""
    options = _parser().parse_args(arguments)
    study = f"scale-{uuid.uuid4().hex[:8]}"
    load = Load(options.storage, study, options.window, options.seconds)
    host = SimulatedHost()
    Store.create(load.storage, replace(host.header(study, _BASELINE, "p99"), home="h0"))
    database = _Database(options.database or options.storage)
    before = database.counters()
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
    after = database.counters()
    record = Store.open(load.storage, study).record()
    taken: dict[str, list[float]] = {}
    for times in found:
        for name, values in times.taken_ms.items():
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
        "transactions_per_s": _rate(before, after, "commits", took_s),
        "rows_read_per_s": _rate(before, after, "rows", took_s),
        "database_cpu_s_per_s": _rate(before, after, "cpu_s", took_s),
        "database_mb": round(after["bytes"] / 1e6, 1) if after else None,
        "ms": {
            name: {
                "n": len(values),
                "p50": round(statistics.median(values), 1),
                "p99": round(statistics.quantiles(values, n=100)[98], 1) if values[1:] else None,
            }
            for name, values in sorted(taken.items())
        },
    }
    sys.stdout.write(json.dumps(line) + "\n")


def _process(load: Load, place: int, workers: int, answers: Queue[Times]) -> None:
    import sqlalchemy

    times = Times()

    @sqlalchemy.event.listens_for(sqlalchemy.engine.Engine, "before_cursor_execute")
    def _count(*_: object) -> None:
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
    """A storage for each worker: with a connection and a cache of its own, as in a process."""
    if url.startswith("grpc"):
        return lambda: url
    import optuna

    shared = optuna.storages.RDBStorage(
        url, engine_kwargs={"pool_size": workers, "max_overflow": 0}
    )
    return lambda: optuna.storages.get_storage(shared)


def _worker(load: Load, storage: Storage, name: str, times: Times) -> None:
    """One worker: blocks of windows until the time is over."""
    try:
        store = times.of("open", lambda: Store.open(storage, load.study))
        host = SimulatedHost(seed=abs(hash(name)) % 2**32)
        header = host.header(load.study, _BASELINE, "p99")
        store.sharing.join(
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
    times.of("record", store.sharing.look)
    times.of("leases", functools.partial(store.sharing.reap, look=False))
    store.sharing.shared()
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
    """One real window's figures, as large as they are in a record."""
    from tuner.load.port import Endpoint, WindowSpec

    raw = host.measure(
        _WORKLOAD,
        Endpoint("baseline", "127.0.0.1:1", ()),
        WindowSpec("00-baseline", "baseline", "open", 2_000.0, 1, 0.1, 1.0),
    )
    return measure(raw, StallRule(), Gates(samples_needed=1), _WORKLOAD.wire)


class _Database:
    """Counters of a PostgreSQL, where it is one and can be asked."""

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
                    "select xact_commit, tup_returned, pg_database_size(datname),"
                    " pg_postmaster_start_time() is not null from pg_stat_database"
                    " where datname = current_database()"
                )
            ).one()
        engine.dispose()
        return {"commits": row[0], "rows": row[1], "bytes": row[2], "cpu_s": _cpu_s("postgres")}


def _cpu_s(name: str) -> float:
    """CPU seconds of all processes of this name and of those that they have waited for."""
    import os
    from pathlib import Path

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
    before: dict[str, float], after: dict[str, float], name: str, took_s: float
) -> float | None:
    return round((after[name] - before[name]) / took_s, 2) if before and after else None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="What a storage sees of many workers.")
    parser.add_argument("--storage", required=True, help="URL, as for tuner worker.")
    parser.add_argument("--database", help="URL of the database behind a proxy, for its counters.")
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--window", type=float, default=1.0, help="Seconds of a window.")
    parser.add_argument("--seconds", type=float, default=60.0, help="How long they work.")
    return parser


if __name__ == "__main__":
    main()
