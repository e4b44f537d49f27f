"""The type of rules for Nginx's configurations."""

from __future__ import annotations

from collections.abc import Iterator

from tuner.lint.finding import LintRule
from tuner.own.nginx.tree import Directive, Tree

DOCS = "https://nginx.org/en/docs/"
CORE = DOCS + "ngx_core_module.html#"
HTTP = DOCS + "http/ngx_http_core_module.html#"

NginxFindings = Iterator[tuple[Directive, str]]
NginxRule = LintRule[Tree, Directive]
