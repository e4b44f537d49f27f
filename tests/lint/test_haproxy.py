"""Rules for HAProxy's configurations, and what they are right not to find."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tuner.errors import DefinitionError
from tuner.lint.finding import Finding, LintFacts
from tuner.lint.haproxy_rules import lint, lint_file, lint_own
from tuner.own.haproxy.server import locate
from tuner.own.haproxy.tree import parse
from tuner.own.server import OwnOptions
from tuner.workload.workload import load_workload

HERE = LintFacts(version=(2, 6, 12), cores=4, somaxconn=4096)
GOOD = """\
global
    maxconn 20000
    stats socket /run/haproxy/admin.sock mode 660 level admin
defaults
    mode http
    timeout connect 5s
    timeout client 50s
    timeout server 50s
    timeout http-request 10s
frontend www
    bind :443 ssl crt /etc/ssl/site.pem alpn h2,http/1.1
    default_backend shop
backend shop
    server one 10.0.0.1:80 check
    server two 10.0.0.2:80 check
"""
"""A configuration in which no rule finds anything."""


def found(text: str, facts: LintFacts = HERE) -> tuple[Finding, ...]:
    """Return the findings of a text."""
    return lint(parse(text, "haproxy.cfg"), facts)


def with_line(section: str, line: str) -> str:
    """Return the good configuration with a line at the beginning of one section."""
    return f"\n{GOOD}".replace(f"\n{section}\n", f"\n{section}\n    {line}\n", 1)[1:]


def without(*lines: str) -> str:
    """Return the good configuration without some lines."""
    kept = (row for row in GOOD.splitlines(keepends=True) if row.strip() not in lines)
    return "".join(kept)


def test_nothing_is_said_of_what_is_right() -> None:
    """Named defaults count for the sections that name them."""
    assert found(GOOD) == ()
    named = GOOD.replace("defaults\n", "defaults web\n", 1) + "defaults other\n    mode tcp\n"
    named += "backend late from web\n    server one 10.0.0.1:80\n"
    assert found(named) == ()


@pytest.mark.parametrize(
    ("text", "rule", "line"),
    [
        (without("timeout server 50s"), "missing-timeouts", 12),
        (without("timeout http-request 10s"), "no-request-timeout", 9),
        (with_line("global", "nbproc 4"), "removed", 2),
        (with_line("defaults", "reqadd X-A:\\ b"), "removed", 5),
        (with_line("global", "nbthread 1"), "one-thread", 2),
        (with_line("global", "nbthread 16"), "more-threads-than-cores", 2),
        (with_line("global", "tune.maxaccept 100"), "many-accepts", 2),
        (with_line("global", "tune.maxaccept -1"), "many-accepts", 2),
        (with_line("global", "tune.bufsize 8192"), "small-buffers", 2),
        (with_line("global", "tune.bufsize 1048576"), "large-buffers", 2),
        (with_line("global", "tune.idle-pool.shared off"), "idle-pool-not-shared", 2),
        (
            with_line("defaults", "option http-server-close"),
            "backend-connection-per-request",
            5,
        ),
        (with_line("defaults", "option httpclose"), "client-connection-per-request", 5),
        (with_line("backend shop", "http-reuse never"), "reuse-never", 14),
        (GOOD.replace(" alpn h2,http/1.1", ""), "no-http2", 11),
        (GOOD.replace("h2,", ""), "no-http2", 11),
        (with_line("frontend www", "backlog 65536"), "backlog-above-somaxconn", 11),
        (GOOD.replace(" alpn", " backlog 65536 alpn"), "backlog-above-somaxconn", 11),
        (with_line("frontend www", "maxconn 50000"), "maxconn-above-global", 11),
        (GOOD.replace("10.0.0.2:80 check", "10.0.0.2:80"), "unchecked-servers", 15),
        (GOOD.replace("mode 660", "mode 666"), "open-admin-socket", 3),
        (GOOD.replace("/run/haproxy/admin.sock", "ipv4@*:9999"), "open-admin-socket", 3),
        (with_line("frontend www", "stats uri /stats"), "open-statistics", 11),
        (with_line("global", "debug"), "debug", 2),
        (with_line("global", "noepoll"), "slow-events", 2),
    ],
)
def test_a_rule_finds_what_it_is_about(text: str, rule: str, line: int) -> None:
    """At its line, with words of the line."""
    (finding,) = found(text)
    assert (finding.rule, finding.where) == (rule, f"haproxy.cfg:{line}")
    assert finding.place.split() == text.splitlines()[line - 1].replace("\\", "").split()


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace("/run/haproxy/admin.sock", "ipv4@127.0.0.1:9999"),
        GOOD.replace("level admin", "level user").replace("660", "666"),
        GOOD.replace("check\n", "\n").replace("one 10", "one 10", 1).replace(
            "    server two", "    default-server check\n    server two"
        ),
        with_line("global", "tune.idle-pool.shared off").replace("one 10.0.0.1:80", "one"
            " 10.0.0.1:80 pool-low-conn 4"),
        with_line("frontend www", "stats uri /stats\n    stats auth ops:secret"),
        with_line("global", "# nbproc 4"),
    ],
)  # fmt: skip
def test_a_rule_knows_its_exceptions(text: str) -> None:
    """A socket of this host alone, a page with a password, servers checked by default."""
    assert found(text) == ()


def test_newer_versions_offer_http2_by_themselves() -> None:
    """Since 2.8 a line without ``alpn`` offers it."""
    text = GOOD.replace(" alpn h2,http/1.1", "")
    newer = LintFacts(version=(2, 8, 0), cores=4, somaxconn=4096)
    assert found(text, newer) == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("listen 80;\n", "haproxy.cfg:1: has no section"),
        ("global\n    description 'one\n", "haproxy.cfg:2: the quote ' does not end"),
    ],
)
def test_what_is_no_configuration_is_refused(tmp_path: Path, text: str, words: str) -> None:
    """With the line; a file that is not there too."""
    file = tmp_path / "haproxy.cfg"
    with pytest.raises(DefinitionError, match="No such file"):
        lint_file(OwnOptions(str(file)), HERE, "")
    file.write_text(text)
    with pytest.raises(DefinitionError, match=words):
        lint_file(OwnOptions(str(file)), HERE, "")


def test_a_study_of_this_configuration_has_the_same_findings() -> None:
    """``lint_own`` reads the tree that the study has read; that of another server has none."""
    text = with_line("frontend www", "option httpclose")
    tree = parse(text, "haproxy.cfg")
    own = locate(OwnOptions("haproxy.cfg"), load_workload("proxy"), tree)
    assert lint_own(own, HERE) == found(text) != ()
    assert lint_own(replace(own, serving=own.serving.reread(parse(GOOD, "x"))), HERE) == ()
