"""``tuner schema``: print the JSON schema of a kind of file, for an editor."""

from __future__ import annotations

import click

from tuner.app.printing import print_json
from tuner.reading.shape import Schema

KINDS = ("study", "workload", "experiment", "configuration", "published", "space")
_EPILOG = """
\b
Examples:
  tuner schema study > study.schema.json
  tuner schema configuration > configuration.schema.json

\b
First line of a file that an editor completes and checks (docs/editors.md):
  # yaml-language-server: $schema=study.schema.json
"""


@click.command(epilog=_EPILOG)
@click.argument("kind", type=click.Choice(KINDS))
def command(kind: str) -> None:
    """Print the JSON schema of a kind of file, so that an editor completes and checks it."""
    print_json(described_schema(kind))


def described_schema(kind: str) -> Schema:
    """Return a schema; keys that are options of ``tuner optimize`` get the text of its help."""
    from tuner.cli.optimize import command as optimize
    from tuner.definition.schemas import schema

    found = schema(kind)
    if kind == "study":
        for option in optimize.params:
            key = option.name or ""
            if isinstance(option, click.Option) and key in found["properties"]:
                found["properties"][key] = {"description": option.help, **found["properties"][key]}
    return found
