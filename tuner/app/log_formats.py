"""The formats of access logs that a server's configuration defines."""

from __future__ import annotations

import re
from pathlib import Path

from tuner.errors import DefinitionError
from tuner.own.catalog import READERS
from tuner.reading.log_notation import LineFormat
from tuner.servers import catalog

_ROTATED = re.compile(r"([-.]\d+)*(\.(gz|zst))?$")


def configured_formats(config: Path, log: Path) -> tuple[LineFormat, ...]:
    """Return the formats of a configuration, those of this log first.

    A log has the format of the directive that names its file, apart from suffixes of rotation.

    Raises:
        DefinitionError: the configuration cannot be read, or its server has no such formats.
    """
    reader = READERS.get(catalog.server_of_file(config))
    if reader is None:
        raise DefinitionError(
            "is of a server without formats; leave out --config", path=str(config)
        )
    return reader.log_formats(str(config), _ROTATED.sub("", log.name))
