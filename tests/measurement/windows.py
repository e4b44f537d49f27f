"""Windows made by hand: every figure is chosen, nothing is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tuner.judge.scoring import window_id
from tuner.measurement.gates import Gates
from tuner.measurement.measuring import measure
from tuner.measurement.window import Measurement, RawWindow, Samples
from tuner.record.model import Block, BlockInstance, Phase

GATES = Gates(samples_needed=10)


def raw_window(
    latencies_us: Sequence[float] = (100.0,) * 100, *, lag_us: float = 0.2, **changes: Any
) -> RawWindow:
    """Return a window of one second with these corrected latencies, evenly spread over it."""
    count = len(latencies_us)
    intended = np.arange(count, dtype=np.int64) * (1_000_000_000 // max(1, count))
    completed = intended + np.round(np.asarray(latencies_us) * 1e3).astype(np.int64)
    samples = Samples(
        intended, intended + round(lag_us * 1e3), completed, np.zeros(count, np.uint8)
    )
    window = RawWindow(
        window_id=window_id(0, "baseline"),
        instance="baseline",
        mode="open",
        rate_per_s=float(count),
        connections=4,
        duration_s=1.0,
        started_unix_s=1_700_000_000.0,
        offered=count,
        completed=count,
        errors={},
        timeouts=0,
        unsent=0,
        in_flight=0,
        reconnects=0,
        bytes_in=0,
        generator_spans=(),
        server_spans=(),
        realtime=True,
        steal_s=0.0,
        generator_cpu_s=1.0,
        generator_busy_share=0.3,
        server_cpu_s=0.2,
        server_rss_bytes=1 << 20,
        protocol="http/1.1",
        samples=samples,
    )
    return replace(window, **changes)


def window(label: str, round_: int, latency_us: float, **changes: Any) -> Measurement:
    """Return a measurement all of whose latencies are the same; ``valid=False`` spoils it."""
    valid = changes.pop("valid", True)
    raw = raw_window(
        (latency_us,) * 20,
        window_id=window_id(round_, label),
        instance=label,
        started_unix_s=1_700_000_000.0 + round_,
        **changes,
    )
    measured = measure(raw, None, GATES)
    return measured if valid else replace(measured, invalid=("spoilt by hand",))


def block(
    windows: Sequence[Measurement],
    *,
    number: int = 0,
    phase: Phase = "search",
    trials: dict[str, int] | None = None,
    **changes: Any,
) -> Block:
    """Return a complete block of these windows."""
    labels = dict.fromkeys(w.instance for w in windows)
    found = Block(
        number=number,
        phase=phase,
        index=number,
        seed=1,
        state="complete",
        reason="",
        started_unix_s=0.0,
        ended_unix_s=1.0,
        instances=tuple(
            BlockInstance(label, f"digest-{label}", (trials or {}).get(label), "live", "")
            for label in labels
        ),
        windows=tuple(windows),
    )
    return replace(found, **changes)
