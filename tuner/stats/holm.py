"""Several questions asked of the same data: Holm's step-down adjustment.

Controls the probability of any false claim in the family, for any dependence between the
questions, and is never less powerful than Bonferroni (Holm, Scandinavian Journal of Statistics 6,
1979).
"""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return adjusted p in the order given; a claim at level alpha needs at most alpha.

    Raises:
        ValueError: a p is not in [0, 1].
    """
    wrong = [p for p in p_values if not 0 <= p <= 1]
    if wrong:
        raise ValueError(f"p must be between 0 and 1 but got {wrong[0]}")
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted = [0.0] * len(p_values)
    least = 0.0
    for rank, place in enumerate(order):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = least
    return tuple(adjusted)
