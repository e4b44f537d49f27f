"""The command ``tuner`` on a simulated host, for programs that call it."""

from __future__ import annotations

import pytest

from tests.cli.conftest import simulate
from tuner.cli import main

if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        simulate(patch)
        main()
