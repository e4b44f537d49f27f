"""Workers on simulated hosts, each as ``tuner worker`` would be, on one real or simulated storage.

    python -m tests.store.workers HOST SEED OBJECTIVE     storage's URL in TUNER_STORAGE

runs one in a process of its own, which hangs in the second window of its search.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from tests.phases.rig import NAME, Rig, rig
from tuner.phases.study import run_study
from tuner.record.model import Record, StudyHost
from tuner.store.storage import Storage
from tuner.store.store import Store

BRIEFLY = partial(time.sleep, 0.02)
RATE = 600.0
"""At which windows are cheap to simulate."""


def facts(made: Rig, host: str) -> StudyHost:
    """Return a simulated host as one of several."""
    header = made.host.header(NAME, made.baseline, made.objective)
    return StudyHost(
        name=host,
        generator=header.generator,
        host=replace(header.host, hostname=host),
        server=header.server,
        cores=header.cores,
        notes=(),
        joined_unix_s=made.host.now_s,
    )


def simulated(seed: int, **changes: Any) -> Rig:
    """Return a host of its own noise, on which a short study can run."""
    return rig(**{"rate_per_s": RATE, "time_s": 60.0, "seed": seed, **changes})


def begin(storage: Storage, host: str = "a", **changes: Any) -> None:
    """Begin the study, as its first worker does."""
    made = simulated(1, **changes)
    header = made.host.header(NAME, made.baseline, made.objective, **made.wanted)
    store = Store.create(
        storage, replace(header, home=host), made.host.clock, first=facts(made, host)
    )
    store.add_configuration(made.host.describe(made.baseline))


def work(
    storage: Storage,
    host: str,
    made: Rig,
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[], None] = BRIEFLY,
    say: Callable[[str], None] = lambda _: None,
) -> Store:
    """One worker from its beginning, or where it was killed, to the end of its confirmation."""
    store = joined(storage, host, made, clock=clock, pause=pause, say=say)
    run_study(made.bench(store), made.spec)
    return store


def joined(
    storage: Storage,
    host: str,
    made: Rig,
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[], None] = BRIEFLY,
    say: Callable[[str], None] = lambda _: None,
) -> Store:
    """Return the store of a worker that has joined."""
    store = Store.open(storage, NAME, made.host.clock, say)
    store.join(facts(made, host), clock=clock, pause=pause)
    for done in store.recover():
        say(done)
    return store


def whole(storage: Storage) -> Record:
    """Return the record as nobody in particular."""
    return Store.open(storage, NAME).record()


def windows(record: Record) -> set[tuple[int, str]]:
    """Return every window in the record."""
    return {(b.number, w.window_id) for b in record.blocks for w in b.windows}


def main() -> None:
    """One worker in this process."""
    host, seed, objective = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    made = simulated(seed, time_s=30.0, objective=objective)
    measure = made.host.measure

    def hang_in_search(*args: Any) -> Any:
        if "search" in made.progress.phases:
            windows_of_search.append(args)
        if len(windows_of_search) > 1:
            time.sleep(600)
        return measure(*args)

    windows_of_search: list[Any] = []
    made.host.measure = hang_in_search  # type: ignore[method-assign,assignment]

    def say(text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    say("begun")
    work(os.environ["TUNER_STORAGE"], host, made, say=say)
    say("ended")


if __name__ == "__main__":
    main()
