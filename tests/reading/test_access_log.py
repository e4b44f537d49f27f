"""Access logs: what is read of them, and the workload that comes of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.reading import access_log
from tuner.reading.access_log import LogEntry, LogTally, parse_line
from tuner.workload.log_mix import Mix, Serve, make_mix
from tuner.workload.workload import Workload, load_workload

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


def mix(made: LogTally, *, serve: Serve | None = None, top: int = 50) -> Mix:
    """Return the workload of a log."""
    return make_mix(made, name="shop", source="access.log", serve=serve, top=top)


def loaded(folder: Path, made: Mix) -> Workload:
    """Return the same, as a study reads it."""
    path = folder / "shop.yaml"
    path.write_text(made.text, encoding="utf-8")
    return load_workload(str(path))


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        (LINE, LogEntry(AT, "GET", "/a.css?v=1", 200, 2326)),
        (LINE.replace("2326", "-"), LogEntry(AT, "GET", "/a.css?v=1", 200, 0)),
        (LINE.replace("/a.css?v=1 HTTP/1.1", "/"), LogEntry(AT, "GET", "/", 200, 2326)),
        (
            LINE.replace("/a.css", "http://shop.test/a.css"),
            LogEntry(AT, "GET", "/a.css?v=1", 200, 2326),
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
            LogEntry(AT, "GET", "/y", 304, 0),
        ),
        (
            (
                '{"level":"info","ts":1760097336.5,"logger":"http.log.access","request":{"method":'
                '"GET","host":"shop.test","uri":"/z","headers":{}},"size":77,"status":200}'
            ),
            LogEntry(AT + 0.5, "GET", "/z", 200, 77),
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
        ("hello", "neither the combined format nor JSON"),
        (LINE.replace("GET /a.css?v=1 HTTP/1.1", r"\x16\x03\x01"), "no request"),
        (LINE.replace("GET /a.css?v=1 HTTP/1.1", "OPTIONS *"), "no path"),
        (LINE.replace("10/Oct", "40/Oct"), "no time such as"),
        ('{"status":200', "invalid JSON"),
        ('{"status":200,"request":"GET / HTTP/1.1"}', "no time (msec, ts"),
        ('{"ts":NaN,"status":200,"request":"GET / HTTP/1.1"}', "no time (msec, ts"),
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


def test_a_mix_has_the_frequencies_sizes_and_statuses_of_the_log(tmp_path: Path) -> None:
    """The majority decides; a confirmation (304) and a range (206) are of a file that is there."""
    lines = [
        *[line("GET", "/", size=size) for size in (900, 1_000, 1_000, 5_000)],
        *[line("GET", "/css/a.css", 304, 0)] * 2,
        line("GET", "/css/a.css", size=300),
        *[line("GET", "/old", 404)] * 2,
        line("HEAD", "/css/a.css", size=0),
    ]
    made = mix(tally(*lines))
    assert (made.requests, made.covered, made.left_out) == (4, 10, ())
    workload = loaded(tmp_path, made)
    weights = {(r.method, r.path): (r.weight, r.expect_status) for r in workload.requests}
    assert weights == {
        ("GET", "/"): (4, 200),
        ("GET", "/css/a.css"): (3, 200),
        ("GET", "/old"): (2, 404),
        ("HEAD", "/css/a.css"): (1, 200),
    }
    assert {f.path: f.size_bytes for f in workload.site} == {
        "/index.html": 1_000,
        "/css/a.css": 300,
    }


def test_what_the_lab_cannot_answer_is_left_out_and_said(tmp_path: Path) -> None:
    """With the share and the reason, in the file's head too."""
    lines = [
        *[line("GET", "/")] * 94,
        *[line("GET", "/moved", 301)] * 3,
        line("GET", "/%7Eann"),
        line("GET", "/index.html/x"),
        line("POST", "/order", 201),
    ]
    made = mix(tally(*lines))
    assert dict(made.left_out) == {
        "statuses that no file answers with": 3,
        "paths that are not plain file names": 1,
        "paths that are both a file and a folder": 1,
        "methods that no file answers (--as backend keeps them)": 1,
    }
    assert "# Left out, 3.0%: statuses that no file answers with." in made.text
    assert [r.path for r in loaded(tmp_path, made).requests] == ["/"]


def test_other_methods_make_it_a_proxys_workload(tmp_path: Path) -> None:
    """The backend answers every request with a body of the typical size."""
    lines = [line("POST", "/orders", 201, 2_000)] * 4 + [
        line("GET", "/orders?page=1", size=700)
    ] * 6
    workload = loaded(tmp_path, mix(tally(*lines)))
    assert workload.backend is not None
    assert len(workload.backend.body) == 700
    assert {(r.method, r.expect_status) for r in workload.requests} == {("GET", 200), ("POST", 200)}


def test_the_rest_beyond_the_most_frequent_is_said() -> None:
    """The workload states how many requests it leaves out, and its share of the log."""
    made = mix(tally(*(line("GET", f"/{n}") for n in range(10) for _ in range(10 - n))), top=3)
    assert made.requests == 3
    assert made.covered == 27
    assert made.left_out == (("beyond the most frequent", 28),)
    assert "The requests below are 49.1% of them." in made.text


def test_nothing_of_a_log_becomes_yaml(tmp_path: Path) -> None:
    """Quotes and braces in a target are text."""
    target = "/a?x={b},#[c]:'d'&e=\\\\x22"
    workload = loaded(tmp_path, mix(tally(line("GET", target), line("GET", "/"), keep_query=True)))
    assert {r.path for r in workload.requests} == {"/", target}


def test_a_log_of_unique_targets_stays_in_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rarest kinds are given up, counted; the frequent ones are not lost."""
    monkeypatch.setattr(access_log, "_MOST_KINDS", 100)
    lines = [line("GET", f"/?q={n}") if n % 2 else line("GET", "/") for n in range(2_000)]
    made = tally(*lines)
    assert len(made.kinds) <= 100
    assert made.kinds["GET", "/"].count == 1_000
    assert made.forgotten + sum(kind.count for kind in made.kinds.values()) == made.good


def test_json_lines_and_combined_lines_may_be_mixed() -> None:
    """A server that changed its format in the middle of the day."""
    entry = {"ts": AT, "request": {"method": "GET", "uri": "/"}, "status": 200, "size": 5}
    assert tally(LINE, json.dumps(entry)).good == 2
