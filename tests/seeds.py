"""Seeds of the statistical tests: fixed, and shifted together by ``TUNER_TEST_SEED``.

A statistical claim holds for every seed, but a test draws one. `make seeds` runs the claims with
50 shifts; none may fail. Bounds therefore leave a chance below ``RARE`` to a correct
implementation.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from tuner.testing import simulate as simulation
from tuner.testing.simulate import Requests, SimulatedWindows

RARE = 1e-7
"""Largest chance that a correct implementation crosses one bound; a test has at most ten."""
SIGMAS = 5.2
"""Standard errors that a normal mean exceeds on one side with probability ``RARE``."""
SHIFT = int(os.environ.get("TUNER_TEST_SEED", "0"))


def shifted(seed: int) -> int:
    """Return the seed for this run; distant runs share no seed."""
    return seed + 1_000_003 * SHIFT


def rng(seed: int) -> np.random.Generator:
    """Return a generator for the shifted seed."""
    return np.random.default_rng(shifted(seed))


def simulate(seed: int, **options: Any) -> SimulatedWindows:
    """Return the simulated windows for the shifted seed."""
    return simulation.simulate(shifted(seed), **options)


def simulate_requests(seed: int, *arguments: Any, **options: Any) -> Requests:
    """Return the simulated requests for the shifted seed."""
    return simulation.simulate_requests(shifted(seed), *arguments, **options)
