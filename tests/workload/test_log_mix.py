"""The workload that comes of a log: kinds of requests, files and how they are asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.reading.test_access_log import AT, line, tally
from tuner.reading import log_tally
from tuner.reading.log_tally import LogTally
from tuner.workload.log_mix import Mix, Serve, make_mix
from tuner.workload.workload import Request, Workload, load_workload


def mix(made: LogTally, *, serve: Serve | None = None, top: int = 50) -> Mix:
    """Return the workload of a log."""
    return make_mix(made, name="shop", source="access.log", serve=serve, top=top)


def loaded(folder: Path, made: Mix) -> Workload:
    """Return the same, as a study reads it."""
    path = folder / "shop.yaml"
    path.write_text(made.text, encoding="utf-8")
    return load_workload(str(path))


def asked(workload: Workload) -> dict[tuple[str, str, int | None], Request]:
    """Return the requests by method, path and expected status."""
    return {(r.method, r.path, r.expect_status): r for r in workload.requests}


def test_a_mix_has_the_frequencies_sizes_and_statuses_of_the_log(tmp_path: Path) -> None:
    """Statuses of one path stay apart, and each is asked for by the means that gives it."""
    lines = [
        *[line("GET", "/", size=size) for size in (900, 1_000, 1_000, 5_000)],
        *[line("GET", "/css/a.css", 304, 0)] * 2,
        line("GET", "/css/a.css", size=300),
        line("GET", "/css/a.css", 206, 100),
        *[line("GET", "/old", 404)] * 2,
        line("GET", "/secret", 403),
        line("HEAD", "/css/a.css", size=0),
        line("GET", "/blog", 301),
    ]
    made = mix(tally(*lines))
    assert (made.requests, made.covered, made.left_out) == (8, 13, ())
    workload = loaded(tmp_path, made)
    found = asked(workload)
    assert {key: request.weight for key, request in found.items()} == {
        ("GET", "/", 200): 4,
        ("GET", "/css/a.css", 200): 1,
        ("GET", "/css/a.css", 304): 2,
        ("GET", "/css/a.css", 206): 1,
        ("GET", "/old", 404): 2,
        ("GET", "/secret", 404): 1,
        ("HEAD", "/css/a.css", 200): 1,
        ("GET", "/blog", None): 1,
    }
    assert found["GET", "/css/a.css", 304].headers == (("If-None-Match", "*"),)
    assert found["GET", "/css/a.css", 206].headers == (("Range", "bytes=0-99"),)
    assert found["GET", "/css/a.css", 206].expect_length == 100
    assert {f.path: f.size_bytes for f in workload.site} == {
        "/index.html": 1_000,
        "/css/a.css": 300,
        "/blog/index.html": 1,
    }


def test_identifiers_of_paths_are_one_kind_with_the_sizes_of_all(tmp_path: Path) -> None:
    """Several invented paths stand for it, one for each quarter of the sizes."""
    lines = [line("GET", f"/img/{n * 7919 + 10**9:x}a1.jpg", size=100 * n) for n in range(1, 41)]
    made = mix(tally(*lines))
    assert (made.requests, made.covered) == (1, 40)
    workload = loaded(tmp_path, made)
    assert [file.size_bytes for file in workload.site] == [600, 1_600, 2_600, 3_600]
    assert [request.weight for request in workload.requests] == [10, 10, 10, 10]
    assert "# 100.0%: GET /img/{hash}.jpg 200" in made.text


def test_rare_paths_join_until_there_are_few_kinds(tmp_path: Path) -> None:
    """Frequent ones keep their own; nothing falls out, and each share is written."""
    lines = [line("GET", "/")] * 50 + [line("GET", f"/blog/{name}") for name in "abcdefghij"]
    lines += [line("GET", f"/wiki/{name}/talk") for name in "abcdefghij"]
    made = mix(tally(*lines), top=3)
    assert (made.requests, made.covered, made.left_out) == (3, 70, ())
    assert [text.strip() for text in made.text.splitlines() if text.startswith("  #")] == [
        "# 71.4%: GET / 200",
        "# 14.3%: GET /blog/{any} 200",
        "# 14.3%: GET /wiki/{any} 200",
    ]
    loaded(tmp_path, made)


def test_at_most_two_percent_of_a_long_tailed_log_fall_out(tmp_path: Path) -> None:
    """Only the server's own failures, which no file gives."""
    lines = [line("GET", f"/p/{n}/{'x' * (n % 17)}", (200, 404, 304)[n % 3]) for n in range(3_000)]
    made = mix(tally(*lines, *[line("GET", "/p", 502)] * 30), top=20)
    assert made.left_out == (("statuses that no file answers with", 30),)
    loaded(tmp_path, made)


def test_paths_that_no_file_can_have_get_a_name_that_one_can(tmp_path: Path) -> None:
    """Escapes, dots and a path that is both a file and a folder cost as much by another name."""
    lines = [line("GET", t) for t in ("/%7Eann", "/index.html/x", "/", "/.hidden", "//a", "/a/b")]
    made = mix(tally(*lines))
    assert made.left_out == ()
    assert len(loaded(tmp_path, made).requests) == 6


def test_what_the_lab_cannot_answer_is_left_out_and_said(tmp_path: Path) -> None:
    """With the share and the reason, in the file's head too."""
    lines = [
        *[line("GET", "/")] * 96,
        *[line("GET", "/down", 503)] * 3,
        line("POST", "/order", 201),
    ]
    made = mix(tally(*lines))
    assert dict(made.left_out) == {
        "statuses that no file answers with": 3,
        "methods that no file answers (--as backend keeps them)": 1,
    }
    assert "# Left out, 3.0%: statuses that no file answers with." in made.text
    assert [r.path for r in loaded(tmp_path, made).requests] == ["/"]


def test_nothing_of_a_log_becomes_yaml(tmp_path: Path) -> None:
    """Quotes and braces in a query are text."""
    target = "/a?x={b},#[c]:'d'&e=\\\\x22"
    workload = loaded(tmp_path, mix(tally(line("GET", target), line("GET", "/"), keep_query=True)))
    assert {r.path for r in workload.requests} == {"/", target}


def test_a_log_of_unique_targets_stays_in_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rarest kinds join wider ones; no request is lost, and the frequent ones stay."""
    monkeypatch.setattr(log_tally, "_MOST_KINDS", 100)
    lines = [
        line("GET", f"/{'ab'[n % 4 // 2]}/z?q{n}=") if n % 2 else line("GET", "/")
        for n in range(2_000)
    ]
    made = tally(*lines)
    assert len(made.kinds) <= 100
    assert made.kinds["GET", "/", 200].count == 1_000
    assert made.forgotten == 0
    assert sum(kind.count for kind in made.kinds.values()) == made.good


def caddy(at_s: float, port: int, protocol: str = "HTTP/2.0") -> str:
    """Return a line of Caddy over TLS, from one client's port."""
    request = {
        "remote_ip": "192.0.2.7",
        "remote_port": str(port),
        "proto": protocol,
        "method": "GET",
        "uri": "/",
        "tls": {"version": 772},
    }
    return json.dumps({"ts": AT + at_s, "request": request, "status": 200, "size": 5})


def test_protocol_tls_and_connections_follow_the_log(tmp_path: Path) -> None:
    """The file says what the log has, and the workload uses what most requests have."""
    lines = [caddy(n / 10 + port, port) for n in range(4) for port in range(50)]
    made = mix(tally(*lines, caddy(60, 99, "HTTP/1.1")))
    workload = loaded(tmp_path, made)
    assert workload.wire.protocol == "http2"
    assert workload.wire.tls is not None
    assert workload.wire.requests_per_connection == 4
    assert "# Protocol: HTTP/2.0 99.5%, HTTP/1.1 0.5%; the workload uses http2." in made.text
    assert "# TLS: 100.0% of the requests; the workload uses it." in made.text


def test_what_a_log_does_not_say_about_connections_is_said(tmp_path: Path) -> None:
    """The combined format has the protocol alone."""
    made = mix(tally(line("GET", "/")))
    assert "# TLS: the log does not have it ($scheme); the workload uses cleartext." in made.text
    assert "# Connections: the log does not have them" in made.text
    assert loaded(tmp_path, made).wire.words == "http/1.1, cleartext"


def test_many_open_connections_of_a_log_are_used(tmp_path: Path) -> None:
    """By Little's law: connections that last, and how many began."""
    lines = [caddy(at, port) for port in range(100) for at in (port / 100, 9 + port / 100)]
    workload = loaded(tmp_path, mix(tally(*lines)))
    # 100 connections of 9 s in 9.99 s; the busiest second has 5 times the mean rate.
    assert workload.connections == pytest.approx(450, rel=0.05)


def sent(method: str, uri: str, length: int, times: str = "-") -> str:
    """Return a JSON line of Nginx with the length of the request and the backend's time."""
    return json.dumps(
        {
            "msec": AT,
            "request": f"{method} {uri} HTTP/1.1",
            "status": 200,
            "body_bytes_sent": 700,
            "request_length": length,
            "upstream_response_time": times,
        }
    )


def test_other_methods_make_it_a_proxys_workload(tmp_path: Path) -> None:
    """The backend gives each request an answer with the status and sizes of the log."""
    lines = [line("POST", "/orders", 201, 2_000)] * 4 + [line("GET", "/orders", size=700)] * 6
    made = mix(tally(*lines, line("GET", "/%7Eann", 404, 9), line("GET", "/x", 504)))
    assert made.left_out == (("failures of the backend (502, 504)", 1),)
    workload = loaded(tmp_path, made)
    assert workload.backend is not None
    assert workload.backend.own_answers
    assert {
        (r.method, r.path, r.expect_status, r.expect_length, r.weight) for r in workload.requests
    } == {
        ("POST", "/orders", 201, 2_000, 4),
        ("GET", "/orders", 200, 700, 6),
        ("GET", "/%7Eann", 404, 9, 1),
    }
    names = [value for r in workload.requests for name, value in r.headers if "Answer" in name]
    assert sorted(names) == ["0", "1", "2"]


def test_times_of_the_backend_are_those_of_the_log(tmp_path: Path) -> None:
    """As quantiles for equal shares; several upstreams of one request add up."""
    lines = [sent("GET", "/a", 200, f"0.0{n:02}") for n in range(100)]
    lines += [sent("GET", "/b", 200, "0.200, 0.300")]
    made = mix(tally(*lines))
    found = {r.path: r.answer for r in loaded(tmp_path, made).requests}
    first, second = found["/a"], found["/b"]
    assert first is not None
    assert second is not None
    assert len(first.times_s) == 16
    assert sum(first.times_s) / 16 == pytest.approx(0.05, abs=0.01)
    assert second.times_s == (0.5,)
    assert "# Backend: the log has its times for 100.0% of the requests." in made.text


def test_bodies_of_requests_are_as_long_as_in_the_log(tmp_path: Path) -> None:
    """By the length of the request without that of a header, and never of blanks."""
    lines = [sent("GET", "/a", 300)] * 9 + [sent("POST", "/api/b", 1_300, "0.001")] * 9
    lines += [sent("POST", "/api/c", 300 + 100 * n, "0.001") for n in range(1, 9)]
    found = loaded(tmp_path, mix(tally(*lines))).requests
    assert [len(r.body) for r in found if r.path == "/api/c"] == [200, 400, 600, 800]
    (posted,) = [r for r in found if r.path == "/api/b"]
    assert len(posted.body) == 1_000
    assert len(json.loads(posted.body)) > 10
    assert ("Content-Type", "application/json") in posted.headers


def test_a_log_without_sizes_of_bodies_says_what_is_assumed(tmp_path: Path) -> None:
    """A form, unless the path names a program's interface."""
    made = mix(tally(line("POST", "/login", 302)))
    assert any("they have 512 bytes" in note for note in made.notes)
    assert any("so it answers at once" in note for note in made.notes)
    (posted,) = loaded(tmp_path, made).requests
    assert len(posted.body) == 512
    assert ("Content-Type", "application/x-www-form-urlencoded") in posted.headers
