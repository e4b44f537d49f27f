"""Rules for Apache's configurations, and what they are right not to find."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.errors import DefinitionError
from tuner.lint.apache_rules import lint, lint_file
from tuner.lint.finding import Finding, LintFacts
from tuner.own.apache.tree import read
from tuner.own.server import OwnOptions

HERE = LintFacts(version=(2, 4, 62), cores=4, somaxconn=4096)
GOOD = """\
LoadModule mpm_event_module modules/mod_mpm_event.so
LoadModule ssl_module modules/mod_ssl.so
Listen 443
Protocols h2 http/1.1
MaxKeepAliveRequests 10000
ThreadsPerChild 25
MaxRequestWorkers 400
<Directory "/srv/www">
    AllowOverride None
    Options Indexes FollowSymLinks
    Require all granted
</Directory>
<VirtualHost *:443>
    SSLEngine on
    ProxyPass "/shop" "http://10.0.0.1/" ttl=60
</VirtualHost>
"""
"""A configuration in which no rule finds anything."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A configuration file."""
    return tmp_path / "apache2.conf"


def found(file: Path, text: str) -> tuple[Finding, ...]:
    """Return the findings of a text."""
    file.write_text(text, encoding="utf-8")
    return lint(read(str(file)), HERE)


def after(line: str, more: str) -> str:
    """Return the good configuration with a line after another one."""
    return f"\n{GOOD}".replace(f"\n{line}\n", f"\n{line}\n{more}\n", 1)[1:]


def instead(old: str, new: str) -> str:
    """Return the good configuration with other words."""
    assert old in GOOD
    return GOOD.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "rule", "line"),
    [
        (instead("mpm_event_module", "mpm_prefork_module").replace("h2 ", ""), "prefork", 1),
        (instead("MaxRequestWorkers 400", "MaxRequestWorkers 390"), "workers-not-whole", 7),
        (instead("MaxRequestWorkers 400", "MaxRequestWorkers 20"), "workers-not-whole", 7),
        (instead("MaxRequestWorkers 400", "MaxRequestWorkers 500"), "above-limits", 7),
        (instead("ThreadsPerChild 25", "ThreadsPerChild 100"), "above-limits", 6),
        (after("Listen 443", "MaxSpareThreads 90"), "few-spare-threads", 4),
        (after("Listen 443", "MaxConnectionsPerChild 30"), "short-lived-processes", 4),
        (after("Listen 443", "ListenBackLog 65535"), "backlog-above-somaxconn", 4),
        (after("Listen 443", "KeepAlive Off"), "no-keep-alive", 4),
        (instead("MaxKeepAliveRequests 10000", "MaxKeepAliveRequests 100"),
         "few-keep-alive-requests", 5),
        (after("Listen 443", "KeepAliveTimeout 300"), "long-keep-alive", 4),
        (instead("AllowOverride None", "AllowOverride FileInfo"), "htaccess", 9),
        (instead("Indexes FollowSymLinks", "SymLinksIfOwnerMatch"), "symlink-checks", 10),
        (instead("Indexes FollowSymLinks", "Indexes"), "symlink-checks", 10),
        (after("Listen 443", "HostnameLookups Double"), "hostname-lookups", 4),
        (after("Listen 443", "LogLevel warn ssl:trace3"), "debug-log", 4),
        (instead("h2 http", "http"), "no-http2", 14),
        (instead("ttl=60", "disablereuse=On"), "backend-connection-per-request", 15),
        (after("Listen 443", "SetEnv proxy-nokeepalive 1"), "backend-connection-per-request", 4),
        (after("Listen 443", "ProxyRequests On"), "open-proxy", 4),
        (after("Listen 443", "<Location /s>\nSetHandler server-status\n</Location>"),
         "open-status", 5),
        (after("Listen 443", "RequestReadTimeout header=0"), "no-request-timeout", 4),
        (after("Listen 443", "DeflateCompressionLevel 9"), "high-compression", 4),
        (instead("MaxRequestWorkers", "MaxClients"), "old-name", 7),
        (instead("Require all granted", "Order allow,deny"), "old-access-control", 11),
    ],
)  # fmt: skip
def test_a_rule_finds_what_it_is_about(file: Path, text: str, rule: str, line: int) -> None:
    """At its line, with the words of the line."""
    (finding,) = found(file, text)
    assert (finding.rule, finding.where) == (rule, f"{file}:{line}")
    assert finding.place.split() == text.splitlines()[line - 1].replace('"', "").split()


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        after("Listen 443", "ServerLimit 20\nThreadLimit 100").replace("400", "500"),
        after("Listen 443", "KeepAliveTimeout 500ms\nMaxConnectionsPerChild 0"),
        after("Listen 443", "<Proxy *>\nRequire ip 10.0.0.0/8\n</Proxy>\nProxyRequests On"),
        after("Listen 443", "<Location /s>\nSetHandler server-status\n<RequireAny>\nRequire local\n"
              "</RequireAny>\n</Location>"),
        after("Listen 443", "<IfModule mpm_prefork_module>\nMaxClients 7\n</IfModule>"),
        after("Listen 443", "<IfModule !mod_ssl.c>\nHostnameLookups On\n</IfModule>"),
        after("Listen 443", "<IfDefine DEBUG>\nLogLevel debug\n</IfDefine>"),
        after("Listen 443", "# HostnameLookups On \\\nHostnameLookups On"),
    ],
)  # fmt: skip
def test_a_rule_knows_its_exceptions(file: Path, text: str) -> None:
    """Limits that were raised, sections that do not apply, and comments."""
    assert found(file, text) == ()


def test_prefork_makes_http2_slow(file: Path) -> None:
    """Two findings, and none about the numbers of threads, which prefork has none of."""
    text = instead("mpm_event_module", "mpm_prefork_module").replace("400", "390")
    assert [finding.rule for finding in found(file, text)] == ["prefork", "http2-with-prefork"]


def test_includes_are_read_where_they_stand(file: Path) -> None:
    """Below ServerRoot, with names that are defined; one problem in two places is one finding."""
    folder = file.parent / "sites"
    folder.mkdir()
    (folder / "a.conf").write_text("KeepAlive Off\n")
    (folder / "b.conf").write_text(
        "KeepAlive Off\n<IfDefine X>\nHostnameLookups ${X}\n</IfDefine>\n"
    )
    text = f"ServerRoot {file.parent}\nDefine X on\nIncludeOptional sites/*.conf\n"
    first, second = found(file, f"{text}IncludeOptional none/*.conf\nInclude ${{UNKNOWN}}/a\n")
    assert (first.rule, first.where, first.also) == (
        *("no-keep-alive", f"{folder}/a.conf:1"),
        (f"{folder}/b.conf:1",),
    )
    assert (second.rule, second.where) == ("hostname-lookups", f"{folder}/b.conf:3")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<Directory />\n", r"apache2.conf:1: <Directory> does not end"),
        ("Listen 80\n</Directory>\n", r"apache2.conf:2: </Directory> ends no section"),
        ("Include none.conf\n", r"apache2.conf:1: Include none.conf: no such file"),
        ("Include apache2.conf\n", r"deeper than 20"),
    ],
)
def test_what_is_no_configuration_is_refused(file: Path, text: str, words: str) -> None:
    """With the line; a file that is not there too."""
    with pytest.raises(DefinitionError, match="No such file"):
        lint_file(OwnOptions(str(file)), HERE, "")
    file.write_text(text)
    with pytest.raises(DefinitionError, match=words):
        lint_file(OwnOptions(str(file)), HERE, "")
