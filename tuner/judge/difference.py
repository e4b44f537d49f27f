"""What to change: the settings that differ, and the files' unified difference."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.record.model import ConfigurationRecord
from tuner.space.configuration import Value
from tuner.space.kernel import is_kernels
from tuner.stats.words import counted


@dataclass(frozen=True, slots=True)
class Change:
    """One setting that differs; None where it is inactive."""

    name: str
    baseline: Value | None
    tuned: Value | None


def changes(baseline: ConfigurationRecord, tuned: ConfigurationRecord) -> tuple[Change, ...]:
    """The settings that differ, by name: the server's, then those of the host's kernel."""
    names = sorted(
        baseline.values.keys() | tuned.values.keys(), key=lambda name: (is_kernels(name), name)
    )
    found = (Change(name, baseline.values.get(name), tuned.values.get(name)) for name in names)
    return tuple(change for change in found if _differ(change.baseline, change.tuned))


def two_parts(found: Sequence[Change], server: str, study: str) -> tuple[str, ...]:
    """What to know where settings of the server and of the kernel changed; mostly nothing."""
    kernels = sum(is_kernels(change.name) for change in found)
    own = len(found) - kernels
    if not (kernels and own):
        return ()
    told = (
        f"{counted(own, 'change')} of {server} and {kernels} of the host's kernel: the gain is of"
        f" all together; what each is worth, tuner ablate {study} measures"
    )
    return (told,)


def unified_difference(
    baseline: ConfigurationRecord, tuned: ConfigurationRecord
) -> tuple[str, ...]:
    """The lines of ``diff -u baseline tuned``, without line ends; empty if the texts are equal."""
    return tuple(
        difflib.unified_diff(
            baseline.text.splitlines(),
            tuned.text.splitlines(),
            f"baseline ({baseline.digest})",
            f"tuned ({tuned.digest})",
            lineterm="",
        )
    )


def _differ(first: Value | None, second: Value | None) -> bool:
    # True == 1 in Python, but `on` and `1` are two settings.
    return first != second or type(first) is not type(second)
