"""JSON on standard output."""

from __future__ import annotations

import click

from tuner.outputs.json_text import json_text


def print_json(data: object) -> None:
    """Print data as JSON of RFC 8259, with null for NaN and infinity."""
    click.echo(json_text(data))
