"""Tests of the excerpt from a server's error log: it quotes the server and hides secrets."""

from __future__ import annotations

import pytest

from tuner.measurement.error_log import MOST_CHARACTERS, MOST_LINES, complaints

NGINX = (
    "2026/11/22 00:31:19 [error] 29031#29031: *2 connect() failed (111: Connection refused) while"
    ' connecting to upstream, client: 127.0.0.1, server: localhost, request: "GET /a?token=hunter2'
    ' HTTP/1.1", upstream: "http://127.0.0.1:1/a?token=hunter2", host: "127.0.0.1:50579"'
)
CADDY = (
    '{"level":"error","ts":1795307520.5,"logger":"http.log.error","msg":"dial tcp 127.0.0.1:1:'
    ' connect: connection refused","request":{"uri":"/a?token=hunter2","headers":{"Cookie":'
    '["hunter2"]}},"duration":0.0002,"status":502}'
)
NGHTTPX = (
    "2026-11-22T00:32:48.183Z 30189 30190 1c1f4941 WARN (shrpx_http_downstream_connection.cc:1532)"
    " [DCONN:0x7ff699e73100] Backend connect failed; addr=127.0.0.1:1: errno=111"
)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            NGINX,
            "[error] connect() failed (111: Connection refused) while connecting to upstream",
        ),
        (CADDY, "[error] dial tcp 127.0.0.1:1: connect: connection refused"),
        (NGHTTPX, "[warn] Backend connect failed; addr=127.0.0.1:1: errno=111"),
        ("another server's own words", "another server's own words"),
    ],
)
def test_a_complaint_is_the_servers_own_sentence(line: str, shown: str) -> None:
    """Without the instant, the process, and the request that it is about."""
    assert complaints(f"{line}\n".encode()) == (shown,)


@pytest.mark.parametrize(
    "line",
    [
        "2026/11/22 00:31:19 [notice] 7#7: signal process started",
        '{"level":"info","ts":1,"msg":"server running"}',
        '{"level":"warn","ts":1,"logger":"admin","msg":"admin endpoint on open interface"}',
        "2026-11-22T00:32:47.909Z 1 1 c9aad03d NOTICE (shrpx.cc:1012) Listening on 127.0.0.1:1",
        "",
    ],
)
def test_what_is_no_complaint_is_left_out(line: str) -> None:
    """Messages about a server's start are no complaints."""
    assert complaints(f"{line}\n".encode()) == ()


@pytest.mark.parametrize(
    "words",
    [
        'upstream sent invalid header: "Set-Cookie: hunter2"',
        'FastCGI sent in stderr: "PHP message: "hunter2" is wrong',
        'invalid URL in "http://me:hunter2@backend/"',
        'open() "/var/www/a?key=hunter2" failed (2: No such file or directory)',
    ],
)
def test_what_others_sent_is_not_shown(words: str) -> None:
    """Headers, an application's messages, passwords and queries may be secrets."""
    (shown,) = complaints(f"2026/11/22 00:31:19 [error] 7#7: *9 {words}\n".encode())
    assert "hunter2" not in shown
    assert shown.startswith(f"[error] {words[:10]}")


def test_the_last_different_lines_are_shown_once() -> None:
    """Lines that differ in numbers are alike; those that came last are kept, oldest first."""
    lines = [
        f"2026/11/22 00:00:0{i} [crit] 7#7: *{i} {kind} {i}" for i in range(3) for kind in "abcd"
    ]
    shown = complaints("\n".join(lines).encode())
    assert shown == ("[crit] b 2", "[crit] c 2", "[crit] d 2")
    assert len(shown) == MOST_LINES


def test_a_line_cannot_act_on_a_terminal() -> None:
    """Control characters are blanks, bytes that are not text are marked, and long lines are cut."""
    (shown,) = complaints(b"\x1b[2Jaway \xff" + b"x" * 500 + b"\n")
    assert shown.startswith("[2Jaway \ufffdxxx")
    assert shown.isprintable()
    assert len(shown) == MOST_CHARACTERS
