"""Reads a configuration and puts all rules to it."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuner.errors import DefinitionError
from tuner.lint import caddy_rules, nginx_rules
from tuner.lint.finding import Finding, LintFacts
from tuner.own.nginx.tree import parse
from tuner.reading.inputs import CONFIGURATION_BYTES, read_input_text

LINTED = ("nginx", "caddy")
"""Servers that there are rules for."""


def lint_file(path: Path, server: str, facts: LintFacts, binary: str) -> tuple[Finding, ...]:
    """Return the findings of all rules on a configuration and its includes.

    Args:
        path: the main file: nginx.conf, a Caddyfile, or Caddy's JSON.
        server: ``nginx`` or ``caddy``.
        facts: the server and host that it is for.
        binary: the server's program, which turns a Caddyfile into JSON.

    Raises:
        DefinitionError: it cannot be read, or is no configuration; with its line.
    """
    if server == "nginx":
        return nginx_rules.lint(parse(path), facts)
    if server == "caddy":
        return caddy_rules.lint(_caddy_json(path, binary), str(path), facts)
    raise DefinitionError(
        f"there are no rules for {server}; allowed: {', '.join(LINTED)}", path="--server"
    )


def _caddy_json(path: Path, binary: str) -> Mapping[str, Any]:
    if path.suffix == ".json":
        text = read_input_text(path, CONFIGURATION_BYTES)
    else:
        command = [binary, "adapt", "--config", str(path)]
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode != 0:
            raise DefinitionError(f"is no Caddyfile: {_reason(done.stderr)}", path=str(path))
        text = done.stdout
    try:
        config = json.loads(text)
    except ValueError as error:
        raise DefinitionError(f"is no JSON: {error}", path=str(path)) from None
    if not isinstance(config, dict):
        raise DefinitionError("is no configuration of Caddy: not an object", path=str(path))
    return config


def _reason(said: str) -> str:
    """Caddy's last words, which newer versions say as a line of JSON."""
    last = (said.strip().splitlines() or ["no reason is given"])[-1]
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return str(json.loads(last)["msg"])
    return last.removeprefix("Error: ")
