"""Lint of a configuration with all rules for its server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, cast

from tuner.errors import DefinitionError
from tuner.lint.finding import Finding, LintFacts, Measurable
from tuner.own.server import OwnConfiguration, OwnOptions
from tuner.servers import catalog


class Rules(Protocol):
    """The rules for one kind of server: the module ``tuner.lint.NAME_rules``."""

    @property
    def needs_program(self) -> bool:
        """True if a configuration cannot be read without the server's program."""
        ...

    @property
    def measurable(self) -> Mapping[str, Measurable]:
        """The parameters that studies can measure, by the rule's name.

        A parameter that a space searches for some workloads only is left out, because its study
        would be refused for the others.
        """
        ...

    def lint_file(self, wishes: OwnOptions, facts: LintFacts, program: str) -> tuple[Finding, ...]:
        """Return the findings on a configuration and its includes.

        Args:
            wishes: the main file, and the copies and variables that it names.
            facts: facts of its server and host.
            program: the server's program; may be empty unless ``needs_program``.

        Raises:
            DefinitionError: it cannot be read, or is not a configuration, with its line.
        """
        ...

    def lint_own(self, own: OwnConfiguration, facts: LintFacts) -> Sequence[Finding]:
        """Return the findings on a configuration that ``tuner.own.NAME`` has read."""
        ...


RULES: Mapping[str, Rules] = {
    name: cast("Rules", module) for name, module in catalog.modules("tuner.lint.{}_rules").items()
}
"""Rules by the server's name."""


def rules(server: str) -> Rules:
    """Return the rules for a server.

    Raises:
        DefinitionError: the server has no rules.
    """
    if server not in RULES:
        raise DefinitionError(
            f"there are no rules for {server}; allowed: {', '.join(RULES)}", path="--server"
        )
    return RULES[server]


def lint_own(server: str, own: OwnConfiguration, facts: LintFacts) -> Sequence[Finding]:
    """Return the findings on a parsed configuration; none for a server without rules."""
    return RULES[server].lint_own(own, facts) if server in RULES else ()
