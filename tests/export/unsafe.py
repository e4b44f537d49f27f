"""A reader of what exports hand to Ansible."""

from __future__ import annotations

from typing import Any

import yaml


class Reader(yaml.SafeLoader):
    """Reads what Ansible takes for data as text, and makes plain data only."""


def _text(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> object:
    return loader.construct_scalar(node)


Reader.add_constructor("!unsafe", _text)


def read(text: str) -> Any:
    """Return what a file of variables holds."""
    return yaml.load(text, Reader)  # noqa: S506 - a SafeLoader
