"""Records and windows without data that only the judgement of a window needs.

These are the positions of stalls, and the histograms of windows outside the confirmation: the
spectra merge those of the confirmation. A record that is exchanged has no others, and the windows
of a search, most of a long record, are stored in this form.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tuner.goals.goals import Goals, goals_of
from tuner.goals.metric import quantile_of
from tuner.measurement.core_wait import foreign_wait_s
from tuner.measurement.latency import QUANTILES, Latency
from tuner.measurement.window import Measurement
from tuner.record.model import Block, Record


def small(record: Record) -> Record:
    """Return the record with only the data for reports."""
    needed = _in_every_phase(goals_of(record.definition))
    within_us = record.contest.within_s * 1e6 if record.contest else math.inf
    # All requests together decide about claims of a contest too.
    whole = record.contest is not None and record.contest.evidence != "typical"
    blocks = (
        _small_block(
            block,
            all_of_it=needed or block.phase == "confirm",
            pooled=whole and block.phase == "contest",
            within_us=within_us if block.phase == "ladder" else math.inf,
        )
        for block in record.blocks
    )
    return replace(record, blocks=tuple(blocks))


def small_of_search(window: Measurement, goals: Goals) -> Measurement:
    """Return a window of a search with only the data for reports."""
    return _small_window(
        window, histograms=_in_every_phase(goals), pooled=False, within_us=math.inf
    )


def _in_every_phase(goals: Goals) -> bool:
    """Return whether the goals have percentiles that only a histogram gives."""
    exact = {name for name, _ in QUANTILES}
    metrics = [*(o.name for o in goals.objectives), *(limit.metric.name for limit in goals.limits)]
    return any(quantile_of(name) is not None and name not in exact for name in metrics)


def _small_block(block: Block, *, all_of_it: bool, pooled: bool, within_us: float) -> Block:
    windows = (
        _small_window(w, histograms=all_of_it, pooled=pooled, within_us=within_us)
        for w in block.windows
    )
    return replace(block, windows=tuple(windows))


def _small_window(
    window: Measurement, *, histograms: bool, pooled: bool, within_us: float
) -> Measurement:
    # Availability needs the histogram if an answer was late.
    late = window.raw.max_us > within_us
    made = replace(
        window,
        generator_spans=(),
        server_spans=(),
        raw=_latency(window.raw, histogram=histograms or late),
        stall_free=_latency(window.stall_free, histogram=histograms or pooled),
        service=_latency(window.service, histogram=False),
        send_lag=_latency(window.send_lag, histogram=False),
    )
    if foreign_wait_s(made) != foreign_wait_s(window):
        # A wait counts beyond the stalls.
        return replace(made, server_spans=window.server_spans)
    return made


def _latency(found: Latency, *, histogram: bool) -> Latency:
    return found if histogram else replace(found, hdr="")
