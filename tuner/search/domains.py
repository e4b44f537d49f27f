"""The search space of an Optuna study, as its trials show it.

Optuna's objectives define their parameters while they run, so a space is known only from trials.
A parameter that some trials lack depends on another: it exists for some values of that one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial

from tuner.search.dimensions import apart

Values = Mapping[str, Any]
"""Values by parameter."""
_MOST_CASES = 20
"""Most values of an integer on which other parameters may depend."""


@dataclass(frozen=True, slots=True)
class Domains:
    """The parameters of a study."""

    domains: Mapping[str, BaseDistribution]
    absent: Mapping[str, tuple[str, frozenset[object]]]
    """For a parameter that some trials lack: another one, and its values without the parameter.
    None among them stands for trials that lack the other one too."""

    @classmethod
    def of(cls, trials: Sequence[FrozenTrial]) -> Domains:
        """Return the parameters that trials have; their latest domains count."""
        domains: dict[str, BaseDistribution] = {}
        for trial in trials:
            domains.update(trial.distributions)
        absent = {}
        for name in domains:
            reason = _reason(name, domains, trials)
            if reason is not None:
                absent[name] = reason
        return cls(domains, absent)

    def active(self, values: Values) -> Values:
        """Return the values without those of parameters that would not exist next to them."""
        left = dict(values)
        while True:
            gone = [
                name
                for name, (other, without) in self.absent.items()
                if name in left and left.get(other) in without
            ]
            if not gone:
                return left
            for name in gone:
                del left[name]

    def distances(self, some: Sequence[Values], others: Sequence[Values]) -> NDArray[np.float64]:
        """Return distances by parameter, 0 to 1; see ``tuner.search.dimensions.distances``."""
        kinds: dict[object, int] = {}

        def side(points: Sequence[Values]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
            numbers = np.zeros((len(points), len(self.domains)))
            codes = np.zeros(numbers.shape, dtype=np.int64)
            for row, point in enumerate(points):
                for column, (name, domain) in enumerate(self.domains.items()):
                    share = _share(domain, point.get(name))
                    if share is None:
                        # 1 and True are equal, but not the same choice.
                        kind = repr(point.get(name))
                        codes[row, column] = kinds.setdefault(kind, len(kinds) + 1)
                    else:
                        numbers[row, column] = share
            return numbers, codes

        return apart(*side(some), *side(others))


def _share(domain: BaseDistribution, value: object) -> float | None:
    """Return the position of a number in its range; None for choices and missing values."""
    if value is None or not isinstance(domain, FloatDistribution | IntDistribution):
        return None
    if domain.high <= domain.low:
        return 0.0
    assert isinstance(value, int | float)  # noqa: S101 - Optuna stores no other values
    here = min(max(float(value), domain.low), domain.high)
    ends = (domain.low, domain.high, here)
    low, high, at = map(math.log, ends) if domain.log else ends
    return (at - low) / (high - low)


def _reason(
    name: str, domains: Mapping[str, BaseDistribution], trials: Sequence[FrozenTrial]
) -> tuple[str, frozenset[object]] | None:
    """Return a parameter that separates trials with and without another one by its values."""
    with_: list[Values] = []
    without: list[Values] = []
    for trial in trials:
        (with_ if name in trial.params else without).append(trial.params)
    if not without:
        return None
    for other, domain in domains.items():
        if other == name or not _has_cases(domain):
            continue
        present = {params.get(other) for params in with_}
        missing = {params.get(other) for params in without}
        if not present & missing and None not in present:
            return other, frozenset(missing)
    return None


def _has_cases(domain: BaseDistribution) -> bool:
    if isinstance(domain, IntDistribution):
        return (domain.high - domain.low) // domain.step < _MOST_CASES
    return isinstance(domain, CategoricalDistribution)
