"""Short windows of real load against one server, as the first of a study."""

from __future__ import annotations

import os
from dataclasses import replace

from tuner.generators.generator import Endpoint, Next, WindowPlan, WindowSpec
from tuner.generators.native import NativeGenerator
from tuner.machine.placement import split_cores
from tuner.measurement.gates import Gates
from tuner.measurement.measuring import measure
from tuner.measurement.stalls import StallRule
from tuner.measurement.window import Measurement, RawWindow
from tuner.paths import loadgen_binary
from tuner.workload.workload import Workload

GATES = Gates(samples_needed=0, rate_error=1.0, error_share=0.0)
"""A busy machine may be late; every answer must be right."""


def window(
    workload: Workload, endpoint: Endpoint, *, warmup_s: float = 0.1, duration_s: float = 0.5
) -> Measurement:
    """Return one short window, with a check of every answer."""
    requests = tuple(replace(one, checked="all") for one in workload.requests)
    workload = replace(workload, requests=requests)
    reported: list[RawWindow] = []

    def keep(raw: RawWindow) -> Next:
        reported.append(raw)
        return Next()

    cores = split_cores(sorted(os.sched_getaffinity(0)), backend=False)
    spec = WindowSpec("00-one", "one", "open", 300.0, 1, warmup_s, duration_s)
    # Without spinning, because nothing is judged by the figures and the tests share their cores.
    generator = NativeGenerator(loadgen_binary(), cores, StallRule(), spins=False)
    generator.run(WindowPlan(workload, (endpoint,), (spec,)), keep)
    return measure(reported[0], None, GATES, workload.wire)
