"""Rules for Nginx's configurations.

Each is a pure function of the parsed tree. It finds certain mistakes; questions that need a
measurement are left to one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tuner.lint import (
    nginx_headers,
    nginx_names,
    nginx_requests,
    nginx_tls,
    nginx_upstreams,
    nginx_workers,
)
from tuner.lint.finding import Finding, LintFacts, Measurable
from tuner.lint.nginx_here import log_rates, messages, refuse_empty
from tuner.lint.nginx_rule import CORE, DOCS, HTTP, NginxFindings, NginxRule
from tuner.lint.nginx_scope import spots
from tuner.own.nginx.server import NginxOwnConfiguration
from tuner.own.nginx.tree import Directive, Tree, parse, words_of
from tuner.own.server import OwnConfiguration, OwnOptions
from tuner.servers import nginx
from tuner.space.never import refusal

_OBSOLETE = {
    "http2_recv_timeout": "client_header_timeout",
    "http2_idle_timeout": "keepalive_timeout",
    "http2_max_requests": "keepalive_requests",
    "http2_max_field_size": "large_client_header_buffers",
    "http2_max_header_size": "large_client_header_buffers",
}
_HARMFUL = ("quic_bpf", "timer_resolution", "worker_priority", "lingering_close")
_PAGES = {
    "quic_bpf": DOCS + "http/ngx_http_v3_module.html#quic_bpf",
    "timer_resolution": CORE + "timer_resolution",
    "worker_priority": CORE + "worker_priority",
    "lingering_close": HTTP + "lingering_close",
}
"""Documentation page of each directive in rules about several."""


needs_program = False
measurable = {
    "one-worker": Measurable("worker_processes"),
    "reuseport-one-worker": Measurable("reuseport"),
    "unbuffered-log": Measurable("access_log_buffer", trade=True),
    "upstream-without-keepalive": Measurable("upstream_keepalive"),
    "upstream-keepalive-http-1.0": Measurable("proxy_http_version"),
    "upstream-keepalive-connection-header": Measurable("upstream_keepalive"),
    "buffering-off": Measurable("proxy_buffering", trade=True),
}


def lint_file(wishes: OwnOptions, facts: LintFacts, program: str) -> tuple[Finding, ...]:
    """Implement ``Rules.lint_file``."""
    tree = parse(wishes.config, prefix=wishes.prefix)
    refuse_empty(tree)
    rates = log_rates(tree)
    found = lint(tree, replace(facts, log_rates_per_s=rates))
    return sorted_findings((*found, *messages(tree, program)), tree)


def lint_own(own: OwnConfiguration, facts: LintFacts) -> tuple[Finding, ...]:
    """Implement ``Rules.lint_own``."""
    return lint(own.tree, facts) if isinstance(own, NginxOwnConfiguration) else ()


def lint(tree: Tree, facts: LintFacts) -> tuple[Finding, ...]:
    """Return the findings of all rules, in the order of the files."""
    order = {file: index for index, file in enumerate(tree.texts)}
    found: dict[tuple[str, str], list[Directive]] = {}
    findings: dict[tuple[str, str], Finding] = {}
    for rule in RULES:
        for directive, what in rule.check(tree, facts):
            key = (rule.id, what)
            found.setdefault(key, []).append(directive)
            first = min(found[key], key=lambda one: (order[one.file], one.line))
            also = {one.where: None for one in found[key] if one.where != first.where}
            findings[key] = Finding(
                rule=rule.id,
                severity=rule.severity,
                file=first.file,
                line=first.line,
                place=words_of(first),
                what=what,
                why=rule.why,
                remedy=rule.remedy,
                link=_PAGES.get(first.name, rule.link),
                also=tuple(also),
            )
    return sorted_findings(findings.values(), tree)


def sorted_findings(found: Iterable[Finding], tree: Tree) -> tuple[Finding, ...]:
    """Return findings in the order of a configuration's files."""
    order = {file: index for index, file in enumerate(tree.texts)}
    return tuple(sorted(found, key=lambda one: (order.get(one.file, 0), one.line or 0, one.rule)))


def _obsolete(tree: Tree, _: LintFacts) -> NginxFindings:
    for spot in spots(tree, *_OBSOLETE):
        name = spot.directive.name
        yield spot.directive, f"{name} is ignored since 1.19.7; use {_OBSOLETE[name]}"


def _harmful(tree: Tree, _: LintFacts) -> NginxFindings:
    for spot in spots(tree, *_HARMFUL):
        name, args = spot.directive.name, spot.directive.args
        meant = {
            "quic_bpf": args == ("on",),
            "timer_resolution": True,
            "worker_priority": bool(args) and args[0].startswith("-"),
            "lingering_close": args == ("off",),
        }[name]
        if meant:
            yield spot.directive, f"{name}: {refusal(nginx.name, name)}"


RULES: tuple[NginxRule, ...] = (
    *nginx_workers.RULES,
    *nginx_requests.RULES,
    *nginx_tls.RULES,
    *nginx_upstreams.RULES,
    *nginx_headers.RULES,
    *nginx_names.RULES,
    NginxRule(
        "obsolete",
        "wrong",
        _obsolete,
        "It has no effect",
        "remove it",
        DOCS + "http/ngx_http_v2_module.html",
    ),
    NginxRule(
        "harmful",
        "wrong",
        _harmful,
        "It looks like tuning, but has costs that no load test shows",
        "remove it",
        DOCS + "dirindex.html",
    ),
)
