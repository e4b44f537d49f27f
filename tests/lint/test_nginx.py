"""Rules for Nginx: each finds what is wrong at its line, and keeps quiet about what is right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tuner.errors import DefinitionError
from tuner.lint.finding import Finding, LintFacts
from tuner.lint.nginx_here import messages
from tuner.lint.nginx_rules import RULES, lint, lint_file
from tuner.own.nginx.tree import Tree, parse
from tuner.own.server import OwnOptions

HERE = LintFacts(version=(1, 22, 1), cores=4, somaxconn=4096)
GOOD = """\
worker_processes auto;
worker_rlimit_nofile 8192;
events {
    worker_connections 4096;
}
http {
    sendfile on;
    tcp_nopush on;
    keepalive_requests 10000;
    upstream app {
        least_conn;
        server 127.0.0.1:8080;
        keepalive 32;
    }
    server {
        listen 80 reuseport backlog=4096;
        root /srv;
    }
    server {
        listen 81;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header Host $host;
        location / {
            sendfile off;
        }
    }
}
"""
PROXY = GOOD.replace("sendfile off;", "proxy_pass http://app;").replace("8192", "16384")


def findings(tmp_path: Path, text: str, facts: LintFacts = HERE) -> tuple[Finding, ...]:
    """Return the findings in ``text``."""
    path = tmp_path / "nginx.conf"
    path.write_text(text, encoding="utf-8")
    return lint(parse(path), facts)


def rules(tmp_path: Path, text: str, facts: LintFacts = HERE) -> list[tuple[str, int | None]]:
    """Rule and line of each."""
    return [(found.rule, found.line) for found in findings(tmp_path, text, facts)]


@pytest.mark.parametrize("text", [GOOD, PROXY])
def test_nothing_is_said_of_what_is_right(tmp_path: Path, text: str) -> None:
    """A lint that cries wolf is switched off."""
    assert rules(tmp_path, text) == []
    assert rules(tmp_path, text, replace(HERE, version=(1, 29, 7))) == []


@pytest.mark.parametrize(
    ("before", "after", "rule", "line"),
    [
        ("nofile 8192", "nofile 1024", "connections-above-files", 4),
        ("worker_rlimit_nofile 8192;", "", "connections-without-file-limit", 4),
        ("processes auto", "processes 1", "one-worker", 1),
        ("worker_processes auto;", "user www;", "one-worker", 1),
        ("backlog=4096", "backlog=8192", "backlog-above-somaxconn", 16),
        ("worker_connections 4096;", "accept_mutex on;", "accept-mutex", 4),
        ("requests 10000", "requests 100", "few-keepalive-requests", 9),
        ("keepalive_requests 10000", "keepalive_timeout 0", "no-keepalive", 9),
        ("sendfile on;", "", "nopush-without-sendfile", 8),
        ("tcp_nopush on;", "tcp_nodelay off;", "nodelay-off", 8),
        ("tcp_nopush on;", "gzip_comp_level 9;", "high-compression", 8),
        ("tcp_nopush on;", "access_log /l/$host.log;", "log-opened-per-request", 8),
        ("tcp_nopush on;", "error_log /l/e debug;", "debug-log", 8),
        ("tcp_nopush on;", "http2_idle_timeout 9s;", "obsolete", 8),
        ("tcp_nopush on;", "lingering_close off;", "harmful", 8),
        ("tcp_nopush on;", "ssl_session_tickets off;", "full-handshakes", 8),
        ("worker_processes auto;", "worker_processes auto; timer_resolution 1s;", "harmful", 1),
        ("listen 81;", "listen 81 quic;", "quic-without-reuseport", 20),
        ("root /srv;", "proxy_buffering off;", "buffering-off", 17),
        ("root /srv;", "proxy_pass http://127.0.0.1:9;", "upstream-without-keepalive", 17),
        ("worker_connections 4096;", "use poll;", "slow-events", 4),
        ("worker_processes auto;", "master_process off;", "no-workers", 1),
        ("processes auto", "processes 4; worker_cpu_affinity 0001 0010", "few-masks", 1),
        ("tcp_nopush on;", "ssl_session_cache builtin:1000 shared:a:1m;", "builtin-cache", 8),
        ("tcp_nopush on;", "gzip_types *;", "compressed-twice", 8),
        ("tcp_nopush on;", "directio 4k;", "directio-of-small-files", 8),
        ("root /srv;", "fastcgi_pass app;", "upstream-keepalive-fastcgi", 17),
        ("root /srv;", "grpc_pass grpc://127.0.0.1:9;", "grpc-without-keepalive", 17),
        ("connections 4096", "connections 100", "few-connections", 4),
        ("tcp_nopush on;", "gzip on;", "gzip-html-only", 8),
        ("tcp_nopush on;", "gzip_types text/css image/png;", "compressed-twice", 8),
        ("tcp_nopush on;", "gzip_types font/woff2 image/svg+xml;", "compressed-twice", 8),
        ("tcp_nopush on;", "tcp_nopsh on;", "unknown-directive", 8),
        (
            "listen 81;",
            "listen 80; server_name a; } server { listen *:80; server_name a;",
            "ignored-server",
            20,
        ),
        ("sendfile off;", "if ($a) { add_header X-A b; } sendfile off;", "if-with-content", 25),
        ("sendfile off;", "if ($a) { set $b c; } try_files $uri =404;", "if-with-content", 25),
        (
            "sendfile off;",
            "add_header X-A b; } add_header X-B c; location /c {",
            "headers-not-inherited",
            25,
        ),
        ("listen 81;", "listen 81 quic reuseport;", "quic-unannounced", 20),
    ],
)
def test_a_rule_finds_what_it_is_about(
    tmp_path: Path, before: str, after: str, rule: str, line: int
) -> None:
    """One change to what is right, at its line."""
    assert before in GOOD
    assert (rule, line) in rules(tmp_path, GOOD.replace(before, after, 1))


@pytest.mark.parametrize(
    ("before", "after", "rule"),
    [
        ("tcp_nopush on;", "gzip on; gzip_types text/css;", "gzip-html-only"),
        ("tcp_nopush on;", "gzip_types image/svg+xml font/ttf;", "compressed-twice"),
        ("tcp_nopush on;", "brotli on; more_set_headers a; js_import x;", "unknown-directive"),
        ("tcp_nopush on;", "http2 on; quic_retry on; subs_filter a b;", "unknown-directive"),
        ("tcp_nopush on;", "map $a $b { tcp_nopsh 1; }", "unknown-directive"),
        ("sendfile off;", "if ($a) { return 403; } try_files $uri =404;", "if-with-content"),
        ("sendfile off;", "if ($a) { set $b c; }", "if-with-content"),
        (
            "sendfile off;",
            "add_header X-B b; } add_header X-B c; location /c {",
            "headers-not-inherited",
        ),
        (
            "sendfile off;",
            "proxy_pass http://127.0.0.1:9; proxy_set_header Connection 'upgrade';",
            "upstream-without-keepalive",
        ),
    ],
)
def test_a_rule_keeps_quiet_about_what_only_looks_alike(
    tmp_path: Path, before: str, after: str, rule: str
) -> None:
    """Text types, other modules' names, values in an if, repeated headers, WebSockets."""
    assert before in GOOD
    assert rule not in {name for name, _ in rules(tmp_path, GOOD.replace(before, after, 1))}


def test_a_map_for_websockets_is_recognised(tmp_path: Path) -> None:
    """The header of an upgrade is often a variable."""
    text = GOOD.replace("sendfile on;", "sendfile on; map $http_upgrade $up { default upgrade; }")
    text = text.replace("sendfile off;", "proxy_pass http://a:9; proxy_set_header Connection $up;")
    assert "upstream-without-keepalive" not in {name for name, _ in rules(tmp_path, text)}


def test_sendfile_under_tls_is_about_files(tmp_path: Path) -> None:
    """A pure proxy sends none."""
    server = "listen 443 ssl; location / { proxy_pass http://app; }"
    text = GOOD.replace("listen 80 reuseport backlog=4096;\n        root /srv;", server)
    assert server in text
    assert "sendfile-under-tls" not in {name for name, _ in rules(tmp_path, text)}
    files = text.replace(server, f"{server} location /files/ {{ root /srv; }}")
    assert "sendfile-under-tls" in {name for name, _ in rules(tmp_path, files)}


def test_one_problem_in_several_places_is_one_finding(tmp_path: Path) -> None:
    """With the lines of the others."""
    more = "".join(f"location /{n} {{ proxy_pass http://a:{n}; }}\n" for n in range(1, 4))
    found = findings(tmp_path, GOOD.replace("root /srv;", more))
    (one,) = [each for each in found if each.rule == "upstream-without-keepalive"]
    path = tmp_path / "nginx.conf"
    assert (one.line, one.also) == (17, (f"{path}:18", f"{path}:19"))


@pytest.mark.parametrize("text", ["", "# nothing\n\n", "\0\1\2"])
def test_a_file_without_directives_is_refused(tmp_path: Path, text: str) -> None:
    """An empty file, comments, and bytes that are no text; with the way out."""
    path = tmp_path / "nginx.conf"
    path.write_text(text)
    with pytest.raises(DefinitionError, match=r"name the main file") as error:
        lint_file(OwnOptions(str(path)), HERE, "")
    assert error.value.path == str(path)


def test_a_main_file_of_includes_and_a_file_of_sites_are_read(tmp_path: Path) -> None:
    """Findings have the file that they are in; workers are the main file's affair."""
    (tmp_path / "site.conf").write_text("server { listen 80; tcp_nodelay off; }\n")
    (tmp_path / "all.conf").write_text("events {}\nhttp { include site.conf; }\n")
    (tmp_path / "nginx.conf").write_text("include all.conf;\n")
    main = lint_file(OwnOptions(str(tmp_path / "nginx.conf")), HERE, "")
    names = {"all.conf", "nginx.conf", "site.conf"}
    assert {Path(one.file).name for one in main} <= names
    assert [one.rule for one in main] == ["one-worker", "nodelay-off"]
    (one,) = lint_file(OwnOptions(str(tmp_path / "site.conf")), HERE, "")
    assert one.rule == "nodelay-off"


def test_the_rate_of_a_log_is_that_of_its_end(tmp_path: Path) -> None:
    """A log without a buffer costs something only if much is written to it."""
    log = tmp_path / "access.log"
    text = GOOD.replace("tcp_nopush on;", f"tcp_nopush on; access_log {log};")
    (tmp_path / "nginx.conf").write_text(text)
    line = '1.1.1.1 - - [10/Nov/2026:10:00:{:02} +0000] "GET / HTTP/1.1" 200 5 "-" "-"\n'
    for each, found in ((300, True), (20, False)):
        log.write_text("".join(line.format(second) for second in range(9) for _ in range(each)))
        names = {one.rule for one in lint_file(OwnOptions(str(tmp_path / "nginx.conf")), HERE, "")}
        assert ("unbuffered-log" in names) is found


def test_nginx_itself_is_asked_about_an_installed_configuration(tmp_path: Path) -> None:
    """Its messages are findings at their lines; a copy names files of another machine."""
    program = tmp_path / "nginx"
    program.write_text(
        "#!/bin/sh\necho 'nginx: [emerg] invalid number in /etc/nginx/a.conf:7' >&2\n"
        "echo 'nginx: [warn] conflicting server name \"a\" on 0.0.0.0:80, ignored' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    tree = Tree("/etc/nginx/nginx.conf", ())
    first, second = messages(tree, str(program))
    assert (first.where, first.severity, first.what) == (
        "/etc/nginx/a.conf:7",
        "wrong",
        "invalid number",
    )
    assert (second.line, second.severity) == (None, "wrong")
    assert not list(messages(Tree("/srv/copy/nginx.conf", ()), str(program)))


@pytest.mark.parametrize(
    ("before", "after", "rule", "line"),
    [
        ("keepalive 32;", "", "upstream-without-keepalive", 10),
        ("proxy_http_version 1.1;", "", "upstream-keepalive-http-1.0", 25),
        ('Connection ""', "X-A b", "upstream-keepalive-connection-header", 25),
        (
            "proxy_pass",
            "proxy_set_header X-A b; proxy_pass",
            "upstream-keepalive-connection-header",
            25,
        ),
        ("least_conn;", "keepalive 16; least_conn;", "keepalive-before-balancing", 11),
        ("nofile 16384", "nofile 4096", "connections-above-files", 4),
    ],
)
def test_a_proxy_that_keeps_no_connections(
    tmp_path: Path, before: str, after: str, rule: str, line: int
) -> None:
    """Headers of the outer block are gone where the inner one sets any."""
    assert before in PROXY
    assert (rule, line) in rules(tmp_path, PROXY.replace(before, after, 1))


@pytest.mark.parametrize("said", ["$upgrade", "upgrade", '"Upgrade"'])
def test_websockets_are_passed_on_by_a_header_that_closes_nothing(
    tmp_path: Path, said: str
) -> None:
    """A variable, or the word itself; ``close`` alone ends the connection."""
    assert rules(tmp_path, PROXY.replace('Connection ""', f"Connection {said}")) == []
    closes = rules(tmp_path, PROXY.replace('Connection ""', "Connection Close"))
    assert closes == [("upstream-keepalive-connection-header", 25)]


def test_one_stream_of_header_and_file_waits_for_nobody(tmp_path: Path) -> None:
    """Under tcp_nopush there is no small packet before the last, so Nagle's rule holds none."""
    assert rules(tmp_path, GOOD.replace("root /srv;", "root /srv; tcp_nodelay off;")) == []


def test_what_is_not_said_is_named_by_its_directive(tmp_path: Path) -> None:
    """A finding about a missing directive names that directive, not the first line of the file."""
    found, *_ = findings(tmp_path, GOOD.replace("worker_processes auto;", "pid /run/n.pid;"))
    assert (found.rule, found.place, found.line) == ("one-worker", "worker_processes", 1)


def test_the_version_decides_what_is_wrong(tmp_path: Path) -> None:
    """Upstream keepalive is the default from 1.29.7; `listen ... http2` is wrong from 1.25.1."""
    old = PROXY.replace("keepalive 32;", "").replace("proxy_http_version 1.1;", "")
    assert rules(tmp_path, old, replace(HERE, version=(1, 29, 7))) == []
    listen = GOOD.replace("listen 81;", "listen 81 http2;")
    assert rules(tmp_path, listen) == []
    assert rules(tmp_path, listen, replace(HERE, version=(1, 25, 1))) == [("listen-http2", 20)]
    few = GOOD.replace("keepalive_requests 10000;", "")
    assert ("few-keepalive-requests", 6) in rules(tmp_path, few, replace(HERE, version=(1, 18, 0)))


def test_sendfile_needs_the_kernel_to_encrypt(tmp_path: Path) -> None:
    """Asked for and not loaded is as good as not asked for."""
    tls = GOOD.replace("listen 81;", "listen 81 ssl;")
    loaded = replace(HERE, kernel_tls=True)
    assert rules(tmp_path, tls, loaded) == [("sendfile-under-tls", 7)]
    asked = tls.replace("listen 81 ssl;", "listen 81 ssl; ssl_conf_command Options KTLS;")
    assert rules(tmp_path, asked, loaded) == []
    assert rules(tmp_path, asked) == [("sendfile-under-tls", 7)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("processes auto", "processes 4; worker_cpu_affinity auto 1010"),
        ("processes auto", "processes 4; worker_cpu_affinity 1111"),
        ("processes auto", "processes 2; worker_cpu_affinity 0001 0010"),
        ("tcp_nopush on;", "directio off;"),
        ("tcp_nopush on;", "directio 4m;"),
        ("tcp_nopush on;", "gzip_types text/css;"),
        ("root /srv;", "fastcgi_pass app; fastcgi_keep_conn on;"),
        ("root /srv;", "fastcgi_pass unix:/run/php.sock;"),
        ("listen 81;", "listen 81 quic reuseport; add_header Alt-Svc 'h3=\":81\"';"),
    ],
)
def test_what_only_looks_like_it_is_left_in_peace(tmp_path: Path, before: str, after: str) -> None:
    """One change to what is right, into something that is right too."""
    assert before in GOOD
    assert rules(tmp_path, GOOD.replace(before, after, 1).replace("8192", "16384")) == []


def test_two_on_one_line_are_both_reported(tmp_path: Path) -> None:
    """Two findings of one rule link to the page of their own directive each."""
    text = GOOD.replace("tcp_nopush on;", "timer_resolution 1s; lingering_close off;")
    first, second = findings(tmp_path, text)
    assert (first.line, first.place) == (8, "timer_resolution 1s")
    assert (second.line, second.place) == (8, "lingering_close off")
    assert first.link.endswith("#timer_resolution")
    assert second.link.endswith("#lingering_close")


def test_reuseport_with_one_worker(tmp_path: Path) -> None:
    """Also where ``auto`` is one."""
    one = replace(HERE, cores=1)
    assert rules(tmp_path, GOOD, one) == [("reuseport-one-worker", 16)]


def test_a_finding_says_all_that_is_needed(tmp_path: Path) -> None:
    """In an included file too."""
    (tmp_path / "more.conf").write_text("\ntcp_nodelay off;\nsendfile off;\n", encoding="utf-8")
    text = GOOD.replace("root /srv;", f"include {tmp_path}/more.conf;")
    (found,) = findings(tmp_path, text)
    assert found.where == f"{tmp_path}/more.conf:2"
    assert found.place == "tcp_nodelay off"
    assert found.severity == "wrong"


def test_every_rule_has_a_link_and_a_name_of_its_own() -> None:
    """Every rule has an id of its own, a reason, a remedy and a link to Nginx's documentation."""
    assert len({rule.id for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.link.startswith("https://nginx.org/en/docs/")
        assert rule.why
        assert rule.remedy
