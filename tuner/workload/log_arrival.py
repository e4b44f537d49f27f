"""The arrival process of a log: how bursty it is, and a profile of rates that follows it.

The busiest stretch of the log is the model, because an average over a night has no bursts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tuner.errors import DefinitionError
from tuner.reading.log_arrivals import Arrivals, dispersion
from tuner.workload.arrivals import Profile, Step

STRETCH_S = 120
"""Length of the stretch that is compared and drawn, seconds."""
_PIECES = 60
_REQUESTS = 25.0
"""Mean number of requests in a piece: fewer would fit the chance of independent arrivals, which
the workload adds itself."""
_FEWEST_PIECES = 4


def fitted(arrivals: Arrivals) -> Profile:
    """Return the rates of the busiest stretch, for pieces of equal length.

    Arrivals within a piece are independent, so the workload is a Poisson process with the log's
    rates.

    Raises:
        DefinitionError: the log has too few requests.
    """
    mean = float(np.mean(arrivals.busiest(STRETCH_S))) if len(arrivals.per_second) else 0.0
    width_s = max(math.ceil(_REQUESTS / mean), 1) if mean else 0
    counts = arrivals.busiest(width_s * _PIECES)
    pieces = len(counts) // width_s if width_s else 0
    if pieces < _FEWEST_PIECES:
        raise DefinitionError(
            f"the log has too few requests to fit rates (fewer than {_FEWEST_PIECES} pieces of"
            f" {_REQUESTS:g}); leave out --arrival fitted",
        )
    sums = counts[: pieces * width_s].reshape(pieces, width_s).sum(axis=1)
    rates = [float(count) / width_s for count in sums]
    return Profile(tuple(Step(width_s, rate, rate) for rate in rates))


def arrival_line(profile: Profile) -> str:
    """Return the line of a workload's file."""
    rates = ", ".join(f"{{for: {step.share:g}s, rate: {step.start:g}}}" for step in profile.steps)
    return f"arrival: {{rates: [{rates}]}}"


def recorded_line(instants: str) -> str:
    """Return the line of a workload that replays a file of instants."""
    return f"arrival: {{instants: {json.dumps(instants)}}}"


def burstiness(arrivals: Arrivals) -> str:
    """Return a sentence on the bursts of the log."""
    index = dispersion(arrivals.busiest(STRETCH_S))
    if math.isnan(index):
        return "Arrivals: too few requests to see bursts."
    return (
        f"Arrivals: the variance of the requests in a second is {index:.1f} times that of"
        f" independent arrivals, in the busiest {STRETCH_S} s (--arrival fitted and --instants"
        " follow the log)."
    )


def drawn(counts: NDArray[np.uint32], profile: Profile | None, *, seed: int = 1) -> Sequence[int]:
    """Return what the workload would send in each second of a stretch at the log's mean rate.

    Args:
        counts: requests of the log in each second.
        profile: rates over the stretch; None: independent arrivals at one rate.
        seed: of the random numbers.
    """
    mean, size = float(np.mean(counts)), len(counts)
    if profile is None:
        rates = np.full(size, mean)
    else:
        pieces = profile.pieces(mean, float(size))
        ends = np.cumsum([seconds for seconds, _, _ in pieces])
        places = np.searchsorted(ends, np.arange(size) + 0.5)
        rates = np.array([pieces[min(at, len(pieces) - 1)][1] for at in places])
    return [int(count) for count in np.random.default_rng(seed).poisson(rates)]
