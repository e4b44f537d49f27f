"""The catalog of readers: the servers with tunable own configurations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from tuner.own.reader import Reader
from tuner.servers import catalog

READERS: Mapping[str, Reader] = {
    name: cast("Reader", module) for name, module in catalog.modules("tuner.own.{}.reader").items()
}
"""By the server's name."""
