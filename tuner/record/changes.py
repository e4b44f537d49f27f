"""The settings that turn a baseline into another configuration.

Reports, the ablation, exported patches and ``tuner apply`` all take them from here, so that what
one of them says is what another does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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


def changes_of(baseline: ConfigurationRecord, tuned: ConfigurationRecord) -> tuple[Change, ...]:
    """Return the settings that turn the baseline into ``tuned``; see ``changes_between``."""
    return changes_between(baseline.values, tuned.values, baseline.inactive)


def changes_between(
    baseline: Mapping[str, Value], tuned: Mapping[str, Value], inactive: Mapping[str, Value]
) -> tuple[Change, ...]:
    """Return the settings to change, by name: the server's, then those of the host's kernel.

    A setting that only becomes active, with the value that it takes anyway, is not among them, nor
    is one that only becomes inactive: both follow from another setting.

    Args:
        baseline: active settings.
        tuned: active settings.
        inactive: values that settings inactive in the baseline take when they become active; a
            setting that is in neither counts as a change.
    """
    before = {**inactive, **baseline}
    return tuple(
        Change(name, baseline.get(name), tuned[name])
        for name in sorted(tuned, key=lambda name: (is_kernels(name), name))
        if name not in before or not same(before[name], tuned[name])
    )
