"""Goals of a study: one objective or two, and the limits that must hold.

With two objectives there is a front instead of one best configuration: those that no other one
beats in both. A rule that is fixed beforehand chooses the point to confirm.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.errors import DefinitionError, quoted
from tuner.goals.constraint import Constraint
from tuner.goals.metric import Metric
from tuner.goals.objective import CAPACITY, Objective
from tuner.measurement.instrument import Mode
from tuner.stats.margin import DEFAULT_BAND, DEFAULT_MARGIN, MOST_MARGIN, Margin

MOST_OBJECTIVES = 2
_WEIGHT = re.compile(r"\s*([a-z0-9.]+)\s*=\s*([0-9]+(?:\.[0-9]+)?)\s*")


@dataclass(frozen=True, slots=True)
class Choice:
    """A rule that chooses a point of the front: the best weighted product of ratios.

    With a limit on one objective, it is the best of the other within that limit.
    """

    weights: tuple[float, ...] = (1.0, 1.0)
    limit: Constraint | None = None
    text: str = ""
    """The user's text; empty for the default."""

    @property
    def given(self) -> str:
        """Name of the objective with a limit; empty without one."""
        return self.limit.metric.name if self.limit else ""

    @property
    def words(self) -> str:
        """The rule as a sentence says it."""
        if self.limit:
            return f"the best of the other objective with {self.limit.text}"
        return f"the best product of ratios{f', weighted {self.text}' if self.text else ''}"


@dataclass(frozen=True, slots=True)
class Goals:
    """Objectives and constraints of one study, measured in the same windows."""

    objectives: tuple[Objective, ...]
    constraints: tuple[Constraint, ...] = ()
    choice: Choice = Choice()
    margin: Margin = DEFAULT_BAND
    """Smallest difference worth having, for every objective."""

    @classmethod
    def of(
        cls,
        *names: str,
        slo: str = "",
        constraints: Sequence[str] = (),
        margin: float = DEFAULT_MARGIN,
    ) -> Goals:
        """Goals from texts, as ``parse_goals`` reads them."""
        return parse_goals(names, slo=slo, constraints=constraints, margin=margin)

    @property
    def first(self) -> Objective:
        """The only or first objective."""
        return self.objectives[0]

    @property
    def second(self) -> Objective | None:
        """The other objective, if there are two."""
        return self.objectives[1] if len(self.objectives) > 1 else None

    @property
    def mode(self) -> Mode:
        """The kind of load for all figures."""
        return "closed" if any(o.mode == "closed" for o in self.objectives) else "open"

    @property
    def seek(self) -> Constraint | None:
        """The latency limit of a capacity objective, if there is one."""
        return next((o.slo for o in self.objectives if o.slo), None)

    @property
    def at_one_rate(self) -> bool:
        """True if all windows have one offered rate."""
        return all(o.at_one_rate for o in self.objectives)

    @property
    def samples_needed(self) -> int:
        """Requests that a window needs for the highest percentile of all goals."""
        needed = [o.samples_needed for o in self.objectives]
        return max(*needed, 0, *(c.metric.samples_needed for c in self.constraints))

    @property
    def samples_least(self) -> int:
        """Requests below which a window has no figure for the highest percentile of all goals."""
        metrics = [o.name for o in self.objectives if o.slo is None]
        metrics += [c.metric.name for c in self.constraints]
        return max(Metric(name).samples_least for name in metrics) if metrics else 1

    @property
    def error_share(self) -> float:
        """Largest share of failed requests in a valid window: 0 unless a constraint allows more."""
        limits = [c.limit for c in self.constraints if c.metric.name == "errors"]
        return min(limits, default=0.0)

    @property
    def limits(self) -> tuple[Constraint, ...]:
        """All limits of the search: the constraints, and the limit of the choice."""
        return (*self.constraints, *((self.choice.limit,) if self.choice.limit else ()))

    @property
    def words(self) -> str:
        """Objectives and constraints in one line."""
        names = " and ".join(o.words for o in self.objectives)
        held = ", ".join(c.text for c in self.constraints)
        return f"{names}, with {held}" if held else names


def parse_goals(
    objectives: Sequence[str],
    *,
    slo: str = "",
    constraints: Sequence[str] = (),
    choose: str = "",
    margin: float = DEFAULT_MARGIN,
) -> Goals:
    """Parse the goals of a study from its options.

    Raises:
        DefinitionError: an option is wrong; the message lists what is allowed.
    """
    if not 1 <= len(objectives) <= MOST_OBJECTIVES:
        raise DefinitionError(
            f"found {len(objectives)} objectives; allowed: one, or two for a front",
            path="--objective",
        )
    parsed = tuple(
        Objective.capacity(slo) if text == CAPACITY and slo else Objective.parse(text)
        for text in objectives
    )
    limits = tuple(map(_constraint, constraints))
    goals = Goals(parsed, limits, _choice(choose, parsed), Margin(margin))
    _check(goals, slo)
    return goals


def goals_of(definition: Mapping[str, object]) -> Goals:
    """Return the goals of a study's definition, as it stands in the record."""
    return parse_goals(
        _texts(definition.get("objective")) or ("p99",),
        slo=str(definition.get("slo") or ""),
        constraints=_texts(definition.get("constraint")),
        choose=str(definition.get("choose") or ""),
        margin=_share(definition.get("margin")),
    )


def _share(value: object) -> float:
    """Return the margin of a definition in a record; the default where it is missing or damaged."""
    if isinstance(value, int | float) and 0 < value <= MOST_MARGIN:
        return float(value)
    return DEFAULT_MARGIN


def _texts(value: object) -> tuple[str, ...]:
    if not value:
        return ()
    return tuple(map(str, value)) if isinstance(value, list | tuple) else (str(value),)


def _constraint(text: str) -> Constraint:
    try:
        return Constraint.parse(text)
    except ValueError as error:
        raise DefinitionError(str(error), path="--constraint") from error


def _check(goals: Goals, slo: str) -> None:
    names = [o.name for o in goals.objectives]
    if len(set(names)) < len(names):
        raise DefinitionError(f"{quoted(names[0])} is named twice", path="--objective")
    if slo and goals.seek is None:
        raise DefinitionError(
            "only --objective capacity has a latency limit of its own; for other objectives write"
            f" --constraint {quoted(slo)}",
            path="--slo",
        )
    alone = {"throughput", CAPACITY} & set(names)
    tied = [o.name for o in goals.objectives if o.quantile is not None]
    limited = [c.text for c in goals.constraints if c.metric.quantile is not None]
    if goals.seek:
        # Failed requests count as a missed limit.
        fixed = {"throughput", "errors"}
        limited += [c.text for c in goals.constraints if c.metric.name in fixed]
    if len(alone) > 1 or (alone and (tied or limited)):
        other = (tied or limited or sorted(alone)[1:])[0]
        raise DefinitionError(
            f"{min(alone)} and {quoted(other)} need different loads; with"
            " throughput or capacity the other objective must be cpu or memory",
            path="--objective" if tied or len(alone) > 1 else "--constraint",
        )


def _choice(text: str, objectives: Sequence[Objective]) -> Choice:
    if not text:
        return Choice()
    names = [o.name for o in objectives]
    if len(names) < MOST_OBJECTIVES:
        raise DefinitionError("a choice needs two objectives; leave out --choose", path="--choose")
    parts = [_WEIGHT.fullmatch(part) for part in text.split(",")]
    if all(parts):
        weights = {part[1]: float(part[2]) for part in parts if part}
        if sorted(weights) == sorted(names) and min(weights.values()) > 0:
            return Choice(tuple(weights[name] for name in names), None, text.replace(" ", ""))
    else:
        try:
            limit = Constraint.parse(text)
        except ValueError:
            limit = None
        if limit and limit.metric.name in names:
            return Choice((1.0, 1.0), limit, limit.text)
    first, second = names
    raise DefinitionError(
        f"{quoted(text)} is not a choice; allowed: weights ({first}=2,{second}=1), or a limit on"
        f" one of the objectives ('{second} <= 1.1x baseline')",
        path="--choose",
    )
