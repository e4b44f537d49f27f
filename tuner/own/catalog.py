"""The catalog of readers: the servers with own configurations that are tuned or changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from tuner.own.reader import Reader, ServiceReader
from tuner.servers import catalog

READERS: Mapping[str, Reader] = {
    name: cast("Reader", module) for name, module in catalog.modules("tuner.own.{}.reader").items()
}
"""By the server's name."""
SERVICES: Mapping[str, ServiceReader] = {
    **{
        name: cast("ServiceReader", module)
        for name, module in catalog.modules("tuner.own.{}.service").items()
    },
    **READERS,
}
"""Readers of hosts' services, by the server's name."""
