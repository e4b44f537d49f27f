"""Access logs: the formats that are recognised or given, and what a line says."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import DefinitionError
from tuner.reading.access_log import LogReader, parse_line
from tuner.reading.log_entry import LogEntry
from tuner.reading.log_notation import given_format, log_format
from tuner.reading.log_tally import LogTally

LINE = (
    '192.0.2.7 - ann [10/Oct/2025:13:55:36 +0200] "GET /a.css?v=1 HTTP/1.1" 200 2326 "-" "curl/8"'
)
AT = 1_760_097_336.0


def line(method: str, target: str, status: int = 200, size: int = 100, second: int = 0) -> str:
    """Return one line of the combined format."""
    return (
        f'192.0.2.7 - - [10/Oct/2025:13:55:{second:02d} +0200] "{method} {target} HTTP/1.1"'
        f' {status} {size} "-" "x"'
    )


def tally(*lines: str, keep_query: bool = False) -> LogTally:
    """Return a log of these lines, read."""
    made = LogTally(keep_query=keep_query)
    list(made.add(enumerate(lines, 1), "access.log"))
    return made


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        (LINE, LogEntry(AT, "GET", "/a.css?v=1", 200, 2326, "HTTP/1.1")),
        (LINE.replace("2326", "-"), LogEntry(AT, "GET", "/a.css?v=1", 200, 0, "HTTP/1.1")),
        (LINE.replace("/a.css?v=1 HTTP/1.1", "/"), LogEntry(AT, "GET", "/", 200, 2326)),
        (
            LINE.replace("/a.css", "http://shop.test/a.css"),
            LogEntry(AT, "GET", "/a.css?v=1", 200, 2326, "HTTP/1.1"),
        ),
        (
            (
                '{"msec":"1760097336.250","request_method":"POST","request_uri":"/x?a=b",'
                '"status":"201","body_bytes_sent":"12"}'
            ),
            LogEntry(AT + 0.25, "POST", "/x?a=b", 201, 12),
        ),
        (
            (
                '{"time_iso8601":"2025-10-10T13:55:36+02:00","request":"GET /y HTTP/2.0",'
                '"status":304,"bytes_sent":0}'
            ),
            LogEntry(AT, "GET", "/y", 304, 0, "HTTP/2.0"),
        ),
        (
            (
                '{"level":"info","ts":1760097336.5,"logger":"http.log.access","request":{"method":'
                '"GET","host":"shop.test","uri":"/z","headers":{}},"size":77,"status":200}'
            ),
            LogEntry(AT + 0.5, "GET", "/z", 200, 77, tls=False),
        ),
    ],
    ids=["combined", "no-size", "http/0.9", "proxy", "nginx-json", "nginx-json-request", "caddy"],
)
def test_a_line_is_read_in_either_form(text: str, entry: LogEntry) -> None:
    """Lines of Nginx, Apache and Caddy are read alike."""
    assert parse_line(text) == entry


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hello", "not in a known format"),
        (LINE.replace("GET /a.css?v=1 HTTP/1.1", r"\x16\x03\x01"), "no request"),
        (LINE.replace("GET /a.css?v=1 HTTP/1.1", "OPTIONS *"), "no path"),
        (LINE.replace("10/Oct", "40/Oct"), "no time such as 10/Oct"),
        ('{"status":200', "invalid JSON"),
        ('{"status":200,"request":"GET / HTTP/1.1"}', "no time (msec, ts"),
        ('{"ts":NaN,"status":200,"request":"GET / HTTP/1.1"}', "invalid JSON"),
        ('{"ts":1,"request":"GET / HTTP/1.1"}', "no status"),
        ('{"ts":1,"status":200}', "no request"),
        ('{"ts":{},"status":[],"request":{"method":{},"uri":[]}}', "no "),
    ],
)
def test_a_line_that_is_no_request_says_what_is_missing(text: str, words: str) -> None:
    """Scanners and broken clients write such lines into every log."""
    with pytest.raises(ValueError, match=re.escape(words)):
        parse_line(text)


@given(st.text(max_size=200) | st.builds(lambda t: "{" + t, st.text(max_size=100)))
def test_no_line_breaks_the_reader(text: str) -> None:
    """Each line is a request or counts as bad."""
    made = tally(text)
    assert made.good + made.bad == bool(text.strip())


def test_bad_lines_are_counted_and_the_first_are_kept_with_their_number() -> None:
    """Empty lines are neither good nor bad."""
    made = tally(LINE, "", "one", LINE, "two")
    assert (made.good, made.bad) == (2, 2)
    assert [(name, number) for name, number, _ in made.bad_lines] == [
        ("access.log", 3),
        ("access.log", 5),
    ]


def test_rate_and_peak_are_those_of_the_log() -> None:
    """Mean from the first to the last line; most in one second of the clock."""
    made = tally(*(line("GET", "/", second=s) for s in (0, 0, 0, 1, 4)))
    assert (made.rate_per_s, made.peak_per_s) == (1.25, 3)


def test_json_lines_and_combined_lines_may_be_mixed() -> None:
    """A server that changed its format in the middle of the day."""
    json_line = '{"ts":1760097336,"request":{"method":"GET","uri":"/"},"status":200,"size":5}'
    assert tally(LINE, json_line, LINE).good == 3


ALB = (
    "h2 2025-10-10T11:55:36.500000Z app/shop/1 192.0.2.7:4001 10.0.0.1:80 0.001 0.025 0.000 201 201"
    ' 340 712 "POST https://shop.test:443/order?x=1 HTTP/2.0" "curl/8" ECDHE-RSA TLSv1.3 arn:x'
)
CONSOLE = (
    "2025/10/10 11:55:36.500\tINFO\thttp.log.access.log0\thandled request\t"
    '{"request":{"remote_ip":"192.0.2.7","remote_port":"4001","proto":"HTTP/2.0","method":"POST",'
    '"uri":"/order","headers":{"Content-Type":["application/json; charset=utf-8"]},'
    '"tls":{"version":772}},"bytes_read":90,"size":712,"status":201}'
)


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        (
            ALB,
            LogEntry(
                *(AT + 0.5, "POST", "/order?x=1", 201, 712, "HTTP/2.0"),
                tls=True,
                request_bytes=340,
                upstream_s=0.025,
                connection="192.0.2.7 4001",
            ),
        ),
        (
            ALB.removeprefix("h2 ").partition(' "curl')[0].replace("0.025", "-1"),
            LogEntry(
                *(AT + 0.5, "POST", "/order?x=1", 201, 712, "HTTP/2.0"),
                request_bytes=340,
                connection="192.0.2.7 4001",
            ),
        ),
        (
            (
                '[10/Oct/2025:13:55:36 +0200] "forum.test" 192.0.2.7 "GET /t/hello/12 HTTP/2.0"'
                ' "Mozilla/5.0 (X11)" "topics/show" 200 5120 "-" 0.120 0.130 "ann" "-" "-"'
            ),
            LogEntry(AT, "GET", "/t/hello/12", 200, 5120, "HTTP/2.0", upstream_s=0.12),
        ),
        (
            (
                '192.0.2.7 - - [10/Oct/2025:13:55:36 +0200] "GET /api HTTP/1.1" 200 5 "-" "curl/8"'
                " 120 0.010 [shop-web-80] [] 10.0.0.2:80, 10.0.0.3:80 0, 5 0.250, 0.500 502, 200 af"
            ),
            LogEntry(AT, "GET", "/api", 200, 5, "HTTP/1.1", request_bytes=120, upstream_s=0.75),
        ),
        (
            CONSOLE,
            LogEntry(
                *(AT + 0.5, "POST", "/order", 201, 712, "HTTP/2.0"),
                tls=True,
                body_bytes=90,
                content_type="application/json",
                connection="192.0.2.7 4001",
            ),
        ),
        (
            f"shop.test:443 {LINE}",
            LogEntry(AT, "GET", "/a.css?v=1", 200, 2326, "HTTP/1.1"),
        ),
    ],
    ids=["alb", "elb", "discourse", "ingress-nginx", "caddy-console", "vhost"],
)
def test_known_formats_are_recognised(text: str, entry: LogEntry) -> None:
    """With the protocol, TLS, connection and backend's time that the format has."""
    assert parse_line(text) == entry


def test_colours_of_a_console_are_no_part_of_the_line() -> None:
    """Caddy colours the level if its output is a terminal."""
    assert parse_line(CONSOLE.replace("INFO", "\x1b[34mINFO\x1b[0m")) == parse_line(CONSOLE)


CLOUDFRONT = (
    "#Version: 1.0",
    (
        "#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status"
        " cs-uri-query cs-protocol cs-bytes time-taken ssl-protocol cs-protocol-version c-port"
    ),
    "\t".join(
        (
            *("2025-10-10", "11:55:36", "AMS1", "812", "192.0.2.7", "GET", "d.test", "/a.js"),
            *("200", "v=2", "https", "120", "0.001", "TLSv1.3", "HTTP/2.0", "4711"),
        )
    ),
)


def test_the_w3c_format_names_its_fields_itself() -> None:
    """Lines below ``#Fields:`` are read by it, and a later one may change it."""
    reader = LogReader()
    assert [reader.read(text) for text in CLOUDFRONT[:2]] == [None, None]
    entry = LogEntry(
        *(AT, "GET", "/a.js?v=2", 200, 812, "HTTP/2.0"),
        tls=True,
        request_bytes=120,
        connection="192.0.2.7 4711",
    )
    assert reader.read(CLOUDFRONT[2]) == entry
    reader.read("#Fields: date time cs-method cs-uri-stem cs-uri-query sc-status")
    changed = reader.read("2025-10-10 11:55:36 GET /b - 304")
    assert changed == LogEntry(AT, "GET", "/b", 304, 0)


def test_w3c_fields_that_lack_a_request_say_so() -> None:
    """The line is counted as bad, with the missing field."""
    with pytest.raises(ValueError, match="lacks a request"):
        LogReader().read("#Fields: date time sc-status")


@pytest.mark.parametrize(
    ("notation", "text"),
    [
        ('%h %l %u %t "%r" %>s %b', LINE),
        ('LogFormat "%h %l %u %t \\"%r\\" %>s %b" mine', LINE),
        (
            '%a [%{msec}t] %m %U%q %H %>s %B "%{User-Agent}i"',
            '192.0.2.7 [1760097336000] GET /a.css?v=1 HTTP/1.1 200 2326 "curl/8"',
        ),
        (
            "$time_iso8601|$request_method|$request_uri|$server_protocol|$status|$body_bytes_sent",
            "2025-10-10T13:55:36+02:00|GET|/a.css?v=1|HTTP/1.1|200|2326",
        ),
        (
            "${msec} $host $uri $args $request_method $server_protocol ${status}x$bytes_sent",
            "1760097336.000 shop.test /a.css v=1 GET HTTP/1.1 200x2326",
        ),
        (
            "$host$status $upstream_addr : $msec $request_method $uri $server_protocol $bytes_sent",
            "shop.test200 192.0.2.9:80 : 1760097336.000 GET /a.css?v=1 HTTP/1.1 2326",
        ),
        (
            "log_format m '$remote_addr [$time_local] ' '\"$request\" $status $body_bytes_sent';",
            '192.0.2.7 [10/Oct/2025:13:55:36 +0200] "GET /a.css?v=1 HTTP/1.1" 200 2326',
        ),
    ],
)
def test_a_format_is_given_in_either_notation(notation: str, text: str) -> None:
    """Nginx's, Apache's, or the line of the configuration that defines it."""
    entry = LogReader([given_format(notation)], only=True).read(text)
    assert entry == LogEntry(AT, "GET", "/a.css?v=1", 200, 2326, "HTTP/1.1")


def test_escaped_json_of_nginx_is_read_by_its_format() -> None:
    """Keys may have any name, numbers may be missing, and escapes become characters."""
    of = log_format(
        (
            *("j", "escape=json", '{"t":"$time_iso8601","r":"$request","code":$status,'),
            '"up":$upstream_response_time,"c":$connection,"n":$connection_requests}',
        )
    )
    reader = LogReader([of])
    begin = r'{"t":"2025-10-10T13:55:36+02:00","r":"GET \/a?q=\"x\" HTTP/1.1","code":200,'
    text = begin + '"up":,"c":7,"n":2}'
    assert reader.read(text) == LogEntry(
        AT, "GET", '/a?q="x"', 200, 0, "HTTP/1.1", connection="7", nth=2
    )
    assert reader.used == ["log_format j"]


def test_bytes_that_a_log_escapes_become_percent_codes() -> None:
    r"""Nginx writes ``\xC3`` for a byte that a request may hold only as ``%C3``."""
    assert parse_line(line("GET", r"/caf\xC3\xA9")).target == "/caf%C3%A9"


@pytest.mark.parametrize(
    ("notation", "words"),
    [
        ("hello", "has no fields"),
        (
            "$remote_addr $status",
            "lacks a time ($time_local, $time_iso8601 or $msec; %t) and a requ",
        ),
        ("%t %r", "lacks a status"),
    ],
)
def test_a_format_without_a_request_is_refused(notation: str, words: str) -> None:
    """The message names the missing fields in both notations."""
    with pytest.raises(DefinitionError, match=re.escape(words)):
        given_format(notation)


def test_a_refusal_shows_the_line_and_its_understood_fields() -> None:
    """For a given format up to where the line leaves it; secrets of the line are replaced."""
    reader = LogReader([given_format("$remote_addr|$time_local|$request|$status")], only=True)
    words = reader.refusal("192.0.2.7|10/Oct/2025:13:55:36 +0200;GET /a?key=3f9a HTTP/1.1")
    assert "192.0.2.7|10/Oct/2025:13:55:36 +0200;GET /a?key= HTTP/1.1" in words
    assert "--format: understood $remote_addr, $time_local; expected '|'" in words
    free = LogReader().refusal("10/Oct/2025:13:55:36 GET\x1b[2J mail ann@shop.test")
    assert "understood: a time 10/Oct/2025:13:55:36, a method GET" in free
    assert "\x1b" not in free
    assert "ann@shop.test" not in free
    assert "--format '$remote_addr ...'" in free


@pytest.mark.parametrize(
    ("notation", "text"),
    [
        ("$http_x_forwarded_for $upstream_addr [$time_local] $request $status", "1, " * 10_000),
        ("$remote_user [$http_user_agent] ($http_referer) $msec $request $status", " [ (" * 8_000),
        ("$upstream_a $upstream_b $upstream_c $upstream_d $msec $request $status", "a : " * 8_000),
        ("$host$request_uri$args$uri $msec $request $status", "a" * 30_000),
        ("$connection$bytes_sent$request_length$a $msec $request $status", "1" * 30_000),
        ("$host$status$a$status $msec $request $status", "1" * 30_000),
    ],
)
def test_hostile_lines_take_no_more_than_linear_time(notation: str, text: str) -> None:
    """A line of 30,000 characters is refused like any other; with backtracking this would hang."""
    with pytest.raises(ValueError, match="not in the given format"):
        LogReader([given_format(notation)], only=True).read(text)


def test_names_of_users_may_hold_blanks() -> None:
    """Nothing quotes them in the combined format."""
    assert parse_line(LINE.replace("ann", "ann of shop")).target == "/a.css?v=1"


@given(st.text(max_size=60), st.sampled_from(["", "log_format ", "LogFormat ", "$status %r", "%{"]))
def test_no_format_breaks_the_reader(text: str, begin: str) -> None:
    """Each text is a format or is refused, and no line breaks the reader of a format."""
    try:
        of = given_format(begin + text + "$msec $request $status")
    except DefinitionError:
        return
    reader = LogReader([of], only=True)
    for one in (LINE, text, "{"):
        with contextlib.suppress(ValueError):
            reader.read(one)
        assert "correct --format" in reader.refusal(one)
