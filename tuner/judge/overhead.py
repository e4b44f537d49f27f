"""The cost of deployments and gaps on a host, from a study's first block."""

from __future__ import annotations

import statistics
from dataclasses import replace

from tuner.judge.plan import CLOSED, USUAL, Overhead
from tuner.record.model import Record

_DEAREST = Overhead(deploy_s=4.0, gap_s=0.05, switch_s=15.0)
"""Upper limits, above those of Ansible and SSH on a controller without overload."""


def overhead(record: Record, *, exclusive: bool = False) -> Overhead:
    """Return the cost of deployments and gaps, from this host's first block or typical values.

    It uses differences within each clock, because windows have the generator's. It is limited by
    ``_DEAREST``, so that one disturbed block does not make all others long, and because gaps of a
    closed loop are long, with more samples than most windows.

    Args:
        record: record of the study.
        exclusive: whether one instance runs at a time, so that each gap is a switch.
    """
    blocks = [b for b in record.blocks if b.phase == "capacity" and b.host == record.here]
    for block in blocks:
        if block.state == "complete" and block.index == 0:
            begun = [w.started_unix_s for w in block.windows]
            ended = [w.started_unix_s + w.duration_s for w in block.windows]
            gaps = [start - end for start, end in zip(begun[1:], ended, strict=False)]
            gap_s = statistics.median(gaps)
            if exclusive:
                switch_s = _within(gap_s - CLOSED.first_warmup_s, _DEAREST.switch_s)
                return replace(USUAL, switch_s=switch_s)
            return Overhead(
                _within(
                    block.took_s - (ended[-1] - begun[0]) - CLOSED.first_warmup_s, _DEAREST.deploy_s
                ),
                _within(gap_s - CLOSED.warmup_s, _DEAREST.gap_s),
            )
    return USUAL


def _within(value: float, most: float) -> float:
    return min(max(0.0, value), most)
