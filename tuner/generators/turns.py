"""Measurement of a plan's windows in sequence, for generators of single windows."""

from __future__ import annotations

from collections.abc import Callable

from tuner.errors import InstrumentError
from tuner.generators.generator import Endpoint, Next, WindowPlan, WindowSpec
from tuner.measurement.window import RawWindow


def in_turn(
    plan: WindowPlan,
    measure: Callable[[Endpoint, WindowSpec], RawWindow],
    after: Callable[[RawWindow], Next],
) -> None:
    """Measure the windows of a plan, without instances that ``after`` drops.

    Args:
        plan: the windows in order.
        measure: function that measures one window of one instance.
        after: see ``LoadGenerator.run``.

    Raises:
        InstrumentError: ``after`` drops an instance that is not in the plan.
    """
    endpoints = {endpoint.instance: endpoint for endpoint in plan.endpoints}
    dropped: set[str] = set()
    for spec in plan.windows:
        if spec.instance in dropped:
            continue
        answer = after(measure(endpoints[spec.instance], spec))
        for label in answer.drop:
            if label not in endpoints:
                raise InstrumentError(f'drop: "{label}" is not the id of an instance')
        dropped.update(answer.drop)
        if answer.stop:
            return
