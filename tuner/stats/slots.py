"""Slots: which arm gets which position in a deployment.

A slot decides everything in which instances of a block differ apart from their configuration: port,
folder, and order of starting and of connecting. If arms kept their slots, the effect of a slot
would look like the effect of a configuration. Slots are therefore drawn, in cycles of as many
blocks as there are arms. Each cycle is a random Latin square (Fisher, The Design of Experiments,
1935), so every arm has every slot exactly once per cycle.
"""

from __future__ import annotations

import zlib

import numpy as np


def slots_of(seed: int, phase: str, index: int, arms: int) -> tuple[int, ...]:
    """Return the slot of each arm in a block, 0-based.

    The random stream is separate from that of the windows' orders. A repeated block has the index
    and the slots of the one that it repeats.

    Args:
        seed: seed of the study.
        phase: phase of the study.
        index: number of the block in its phase.
        arms: number of arms.
    """
    cycle, row = divmod(index, arms)
    random = np.random.default_rng([seed, zlib.crc32(phase.encode()), cycle])
    columns, rows = random.permutation(arms), random.permutation(arms)
    return tuple(((columns + rows[row]) % arms).tolist())
