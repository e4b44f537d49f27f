"""The settings that turn a baseline into another configuration.

Reports, the ablation, exported patches and ``tuner apply`` all use this module, so that they agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tuner.record.model import ConfigurationRecord
from tuner.space.configuration import Value
from tuner.space.kernel import is_kernels
from tuner.space.parameter import same


@dataclass(frozen=True, slots=True)
class Change:
    """One setting to change."""

    name: str
    baseline: Value | None
    """None: the setting has no effect in the baseline."""
    tuned: Value
    unit: str = ""
    """``bytes`` or ``seconds``; empty for other values, and in records of older versions."""


def changes_of(baseline: ConfigurationRecord, tuned: ConfigurationRecord) -> tuple[Change, ...]:
    """Return the settings that turn the baseline into ``tuned``; see ``changes_between``."""
    found = changes_between(baseline.values, tuned.values, baseline.inactive)
    units = {**baseline.units, **tuned.units}
    return tuple(replace(change, unit=units.get(change.name, "")) for change in found)


def changes_between(
    baseline: Mapping[str, Value], tuned: Mapping[str, Value], inactive: Mapping[str, Value]
) -> tuple[Change, ...]:
    """Return the settings to change, by name: the server's, then those of the host's kernel.

    Settings that only become active with their default value, or only become inactive, are not
    included, because both follow from another setting.

    Args:
        baseline: active settings.
        tuned: active settings.
        inactive: values of the baseline's inactive settings when they become active; a setting that
            is in neither counts as a change.
    """
    before = {**inactive, **baseline}
    return tuple(
        Change(name, baseline.get(name), tuned[name])
        for name in sorted(tuned, key=lambda name: (is_kernels(name), name))
        if name not in before or not same(before[name], tuned[name])
    )
