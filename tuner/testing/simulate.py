"""Simulated studies with a known truth: drift, correlated noise, restarts, bursts, stalls.

The logarithm of a window's p99 is

    mu + drift + AR(1) over consecutive windows + the level of this start of the instance + bursts

so it has what real hosts have and what breaks naive statistics. Everything is seeded and computed
for all studies at once, so thousands of studies take a second. Window level: `simulate`. Request
level, for what happens inside a window: `simulate_requests`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from tuner.stats.paired import FloatArray, pseudomedians


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise of the windows, in natural logarithms (0.05 is about 5 %)."""

    drift_per_window: float = 0.0
    """Linear change from one window to the next: 0.01 is 1 % per window."""
    ar_phi: float = 0.8
    """Correlation of the host's level between consecutive windows."""
    ar_sd: float = 0.05
    """Stationary standard deviation of the host's level."""
    restart_sd: float = 0.05
    """Standard deviation of the level on which one start of an instance settles."""
    burst_probability: float = 0.05
    """Share of windows hit by a burst of foreign load."""
    burst_scale: float = 0.1
    """Scale of a burst; its shape is Student's t with 3 degrees of freedom."""
    order_step: float = 0.0
    """Carry-over: what every window measured before it in its round adds to a window."""


@dataclass(frozen=True, slots=True)
class SimulatedWindows:
    """Windows of many studies; both arrays have shape (studies, blocks, rounds, arms)."""

    ln_value: FloatArray
    """ln of the window's figure."""
    position: npt.NDArray[np.intp]
    """Place in the order of the round, from 0."""

    def arm_means(self) -> FloatArray:
        """Mean over the rounds: (studies, blocks, arms), one value per start of an instance."""
        return np.asarray(self.ln_value.mean(axis=2))

    def differences(self, candidate: int = 1, baseline: int = 0) -> FloatArray:
        """Return the difference d of every block, by rounds: (studies, blocks)."""
        return pseudomedians(self.ln_value[..., candidate] - self.ln_value[..., baseline])

    def between(self) -> FloatArray:
        """The difference d of each two instances of every block: (studies, blocks, arms, arms)."""
        own, other = self.ln_value[..., :, None], self.ln_value[..., None, :]
        return pseudomedians(np.moveaxis(own - other, 2, -1))


def simulate(
    seed: int,
    *,
    studies: int,
    blocks: int,
    ratios: Sequence[float],
    rounds: int = 1,
    noise: Noise = Noise(),
    schedule: Literal["blocks", "one-after-another"] = "blocks",
    level_us: float = 100.0,
) -> SimulatedWindows:
    """Simulate studies of arms with true figures `level_us` times `ratios` (arm 0: 1).

    In every block each arm is started afresh and measured `rounds` times, each round in random
    order. The schedule "one-after-another" is the mistake that blocks avoid: all windows of the
    first arm, then all of the second, AAAA…BBBB.
    """
    rng = np.random.default_rng(seed)
    shape = (studies, blocks, rounds, len(ratios))
    if schedule == "blocks":
        position = rng.permuted(np.broadcast_to(np.arange(shape[3]), shape), axis=3)
        first = np.arange(blocks * rounds).reshape(1, blocks, rounds, 1) * shape[3]
        time = first + position
    else:
        position = np.zeros(shape, dtype=np.intp)
        order = np.arange(math.prod(shape[1:])).reshape(shape[3], blocks, rounds)
        time = np.broadcast_to(np.moveaxis(order, 0, 2), shape)

    history = _host_history(rng, studies, math.prod(shape[1:]), noise)
    host = np.take_along_axis(history, time.reshape(studies, -1), axis=1).reshape(shape)
    start = rng.normal(0.0, noise.restart_sd, (studies, blocks, 1, shape[3]))
    truth = math.log(level_us) + np.log(np.asarray(ratios, dtype=np.float64))
    return SimulatedWindows(truth + host + start + noise.order_step * position, position)


def _host_history(rng: np.random.Generator, studies: int, windows: int, noise: Noise) -> FloatArray:
    """Return the host's level in each consecutive window, for any instance: (studies, windows)."""
    shocks = rng.normal(0.0, noise.ar_sd, (studies, windows))
    # The first value has the stationary spread, so that the series has no warm-up of its own.
    shocks[:, 1:] *= math.sqrt(1 - noise.ar_phi**2)
    # Half a second of processor time, which a simulated lab need not take.
    from scipy import signal

    level = signal.lfilter([1.0], [1.0, -noise.ar_phi], shocks, axis=1)
    bursts = noise.burst_scale * rng.standard_t(3, (studies, windows))
    bursts *= rng.random((studies, windows)) < noise.burst_probability
    return np.asarray(level + bursts + noise.drift_per_window * np.arange(windows))


@dataclass(frozen=True, slots=True)
class SimulatedStalls:
    """Stretches in which the hypervisor takes the core away."""

    per_s: float = 4.0
    """Mean number of stalls per second."""
    mean_us: float = 5_000.0
    """Mean length, exponential."""


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests of many windows; both arrays have shape (*windows, requests)."""

    latency_us: FloatArray
    stalled: npt.NDArray[np.bool_]
    """True if a stall was under way at the intended instant: known without any latency."""


def simulate_requests(
    seed: int,
    ln_level: npt.ArrayLike,
    *,
    requests: int,
    rate_per_s: float = 5_000.0,
    tail_share: float = 0.02,
    stalls: SimulatedStalls | None = None,
) -> Requests:
    """Return the requests of windows with the ln level `ln_level`, of any shape.

    The body is lognormal (median: the level, sigma 0.3); `tail_share` of the requests follow a
    Pareto law with exponent 2.5 from twice the level on. Requests intended during a stall wait
    for its end.
    """
    rng = np.random.default_rng(seed)
    levels = np.asarray(ln_level, dtype=np.float64)
    shape = (*levels.shape, requests)
    body = rng.lognormal(0.0, 0.3, shape)
    tail = 2 * (1 + rng.pareto(2.5, shape))
    latency = np.where(rng.random(shape) < tail_share, tail, body) * np.exp(levels)[..., None]
    if stalls is None:
        return Requests(latency, np.zeros(shape, dtype=np.bool_))
    intended_us = np.cumsum(rng.exponential(1e6 / rate_per_s, shape), axis=-1)
    begins = rng.random(shape) < stalls.per_s / rate_per_s
    ends_us = np.where(begins, intended_us + rng.exponential(stalls.mean_us, shape), 0.0)
    wait_us = np.maximum(0.0, np.maximum.accumulate(ends_us, axis=-1) - intended_us)
    return Requests(latency + wait_us, wait_us > 0)
