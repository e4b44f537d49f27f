"""The type of rules for Nginx's configurations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tuner.lint.finding import LintFacts, Severity
from tuner.own.nginx.tree import Directive, Tree

DOCS = "https://nginx.org/en/docs/"
CORE = DOCS + "ngx_core_module.html#"
HTTP = DOCS + "http/ngx_http_core_module.html#"

NginxFindings = Iterator[tuple[Directive, str]]


@dataclass(frozen=True, slots=True)
class NginxRule:
    """A rule: a check, with its explanation and remedy."""

    id: str
    severity: Severity
    check: Callable[[Tree, LintFacts], NginxFindings]
    """Yields directives and problems."""
    why: str
    remedy: str
    link: str
