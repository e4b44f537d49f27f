"""Differences between configurations in words, and as a unified diff of the files."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from tuner.record.changes import Change
from tuner.record.model import ConfigurationRecord
from tuner.space.kernel import is_kernels
from tuner.stats.words import counted


def two_parts(found: Sequence[Change], server: str, study: str) -> tuple[str, ...]:
    """Return a note where settings of both server and kernel changed; else empty."""
    kernels = sum(is_kernels(change.name) for change in found)
    own = len(found) - kernels
    if not (kernels and own):
        return ()
    warning = (
        f"{counted(own, 'change')} of {server} and {kernels} of the host's kernel: the gain is of"
        f" all together; what each is worth, tuner ablate {study} measures"
    )
    return (warning,)


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
