"""The limit of a closed loop is the generator only where the server has CPUs to spare."""

from __future__ import annotations

import pytest

from tests.measurement.windows import window
from tuner.measurement.bottleneck import generator_is_limit


@pytest.mark.parametrize(
    ("busy", "used_s", "cores", "limit"),
    [
        (0.99, 0.5, 1, True),
        (0.99, 0.95, 1, False),
        (0.99, 3.0, 4, True),
        (0.99, 3.8, 4, False),
        (0.90, 0.5, 1, False),
        (0.99, None, 4, False),
    ],
)
def test_the_generator_is_the_limit(
    busy: float, used_s: float | None, cores: int, limit: bool
) -> None:
    """A busy generator is the limit if the server has idle CPUs, on any number of cores."""
    windows = [
        window("baseline", n, 100.0, generator_busy_share=busy, server_cpu_s=used_s, duration_s=1.0)
        for n in range(3)
    ]
    assert generator_is_limit(windows, cores) is limit
