"""Workloads: what is asked, and what a right answer is."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tuner.errors import DefinitionError
from tuner.workload.arrivals import Profile, Recorded, Step
from tuner.workload.site import generate
from tuner.workload.wire import Tls, Wire
from tuner.workload.workload import Workload, load_workload

SITE = "site: [{path: /index.html, size: 1k}, {path: /a/big.bin, size: 100k}]\n"
BACKEND = "backend: {body: '[1]'}\n"
GRPC = (
    "backend: {body: a}\nrequests: [{path: /index.html, headers: {Content-Type: application/grpc}}]"
)


def load(tmp_path: Path, text: str) -> Workload:
    """Read a workload from text."""
    path = tmp_path / "w.yaml"
    path.write_text(f"workload: mine\n{text}", encoding="utf-8")
    return load_workload(str(path))


def refusal(tmp_path: Path, text: str) -> str:
    """Return the message that reading raises, without the folder."""
    with pytest.raises(DefinitionError) as raised:
        load(tmp_path, text)
    return str(raised.value).replace(f"{tmp_path}/", "")


def test_the_static_workload_is_one_page_of_1_kb() -> None:
    """32 connections, Poisson, HTTP/1.1 cleartext, and every answer is known in advance."""
    workload = load_workload("static")
    page = generate(workload)["index.html"]
    (request,) = workload.requests
    assert len(page) == 1024
    assert (workload.wire, workload.connections, workload.arrival) == (
        Wire(),
        32,
        "poisson",
    )
    assert workload.backend is None
    assert (request.method, request.path, request.expect_status) == ("GET", "/index.html", 200)
    assert request.expect_length == 1024
    assert request.expect_sha256 == hashlib.sha256(page).hexdigest()


def test_the_proxy_workload_expects_what_its_backend_answers() -> None:
    """Fixed JSON, 32 connections."""
    workload = load_workload("proxy")
    assert workload.backend is not None
    assert json.loads(workload.backend.body)["status"] == "shipped"
    assert workload.backend.content_type == "application/json"
    assert workload.connections == 32
    (request,) = workload.requests
    assert request.expect_length == len(workload.backend.body)
    assert request.expect_sha256 == hashlib.sha256(workload.backend.body).hexdigest()


def test_a_mix_of_requests(tmp_path: Path) -> None:
    """Weights, methods, headers, queries, and a folder's index."""
    workload = load(
        tmp_path,
        SITE + "connections: 8\narrival: constant\ntimeout: 250ms\n"
        "requests:\n"
        "  - {path: /, weight: 3}\n"
        "  - {path: '/a/big.bin?v=2', headers: {Accept-Encoding: gzip, X-A: 'b c'}}\n"
        "  - {path: /index.html, method: HEAD}\n"
        "  - {path: /gone, expect: {status: 404}}\n",
    )
    index, big, head, gone = workload.requests
    assert (workload.connections, workload.arrival, workload.timeout_s) == (8, "constant", 0.25)
    assert (index.weight, index.expect_length) == (3, 1024)
    assert big.headers == (("Accept-Encoding", "gzip"), ("X-A", "b c"))
    assert big.expect_length == 102_400
    assert (head.expect_status, head.expect_length, head.expect_sha256) == (200, None, None)
    assert (gone.expect_status, gone.expect_length) == (404, None)


def test_the_wire_of_a_workload(tmp_path: Path) -> None:
    """Protocol, TLS, streams, and how long a connection lives; ``tls: on`` is TLS as it comes."""
    plain = load(tmp_path, SITE + "protocol: http/1.1\ntls: off\nrequests: [{path: /}]")
    assert plain.wire == Wire()
    (tmp_path / "ca.pem").write_text("")
    text = (
        "protocol: http2\nstreams: 8\nrequests_per_connection: 100\n"
        "tls: {ca: ca.pem, verify: off, resume: off, server_name: shop.test,\n"
        "      expect: {version: TLSv1.3}}\nrequests: [{path: /}]"
    )
    tls = Tls("shop.test", str(tmp_path / "ca.pem"), verify=False, resume=False, version="TLSv1.3")
    assert load(tmp_path, SITE + text).wire == Wire("http2", tls, 8, 100)
    assert load(tmp_path, SITE + "tls: on\nrequests: [{path: /}]").wire == Wire(tls=Tls())


def test_patterns_of_arrivals(tmp_path: Path) -> None:
    """Arrivals follow a recording in the file's folder, or a profile."""
    (tmp_path / "day.txt").write_text("5\n5.5\n7\n")
    recorded = load(tmp_path, SITE + "arrival: {instants: day.txt}\nrequests: [{path: /}]").arrival
    assert recorded == Recorded(str(tmp_path / "day.txt"), (0.0, 0.5, 2.0))
    text = (
        "arrival: {rates: [{for: 2s, rate: 1}, {for: 1s, rate: 1, to: 4}]}\nrequests: [{path: /}]"
    )
    assert load(tmp_path, SITE + text).arrival == Profile((Step(2, 1, 1), Step(1, 1, 4)))


def test_a_file_of_urls_shares_the_weight_of_its_entry(tmp_path: Path) -> None:
    """URLs of a file may have methods and weights, and share their entry's other fields."""
    (tmp_path / "urls.txt").write_text(
        "# the most asked\n/ 3\nHEAD https://shop.test/a/big.bin?v=1\n/gone 1\n"
    )
    text = "requests: [{urls: urls.txt, weight: 10, headers: {A: b}}, {path: /, weight: 2}]"
    with pytest.raises(DefinitionError, match=r"urls\.txt:4: path: the site has no '/gone'"):
        load(tmp_path, SITE + text)
    (tmp_path / "urls.txt").write_text("/ 3\nHEAD https://shop.test/a/big.bin?v=1\n")
    index, big, plain = load(tmp_path, SITE + text).requests
    assert (index.weight, big.weight, plain.weight) == (7.5, 2.5, 2)
    assert (big.method, big.path, big.headers) == ("HEAD", "/a/big.bin?v=1", (("A", "b"),))


@pytest.mark.parametrize("line", ["/ 0", "/ x", "GET", "GET / 1 2"])
def test_a_wrong_line_of_a_file_of_urls_is_answered(tmp_path: Path, line: str) -> None:
    """With its number and what is expected."""
    (tmp_path / "urls.txt").write_text(f"/\n{line}\n")
    with pytest.raises(DefinitionError, match=r"urls\.txt:2: expected \[METHOD\] TARGET"):
        load(tmp_path, SITE + "requests: [{urls: urls.txt}]")


def test_a_body_may_stand_in_a_file_and_every_answer_be_checked(tmp_path: Path) -> None:
    """Bytes as they are."""
    (tmp_path / "order.bin").write_bytes(b"\x00\xff")
    entry = "{path: /, method: POST, body_file: order.bin, expect: {check: all}}"
    (request,) = load(tmp_path, BACKEND + f"requests: [{entry}]").requests
    assert request.body == b"\x00\xff"
    assert request.checked == "all"


def test_what_the_user_expects_goes_before_what_is_generated(tmp_path: Path) -> None:
    """A backend of 2 KB behind a filter that shortens it, say."""
    text = BACKEND + "requests: [{path: /x, method: POST, body: 'a=1', expect: {length: 7}}]"
    (request,) = load(tmp_path, text).requests
    assert (request.expect_length, request.body) == (7, b"a=1")


def test_requests_of_grpc_are_messages_in_frames(tmp_path: Path) -> None:
    """The body and the answer are messages; method and trailers are those of gRPC."""
    file = tmp_path / "mine.yaml"
    file.write_text(
        "workload: mine\nprotocol: http2\nbackend: {serves: answers}\n"
        "requests: [{path: /a.B/C, headers: {Content-Type: application/grpc+proto}, body: hi,"
        " answer: {size: 3}}]\n"
    )
    workload = load_workload(str(file))
    (request,) = workload.requests
    assert (workload.speaks_grpc, request.method, request.body) == (True, "POST", b"\0\0\0\0\2hi")
    assert request.expect_length == 8
    assert ("TE", "trailers") in request.headers
    assert workload.answerable == {"grpc"}
    assert load_workload("proxy").answerable == {"http", "fastcgi", "uwsgi", "scgi"}
    assert load_workload("file-100k-h2").answerable == {"http"}
    assert load_workload("static").answerable == set()


def test_a_stream_of_grpc_has_its_messages_in_a_row(tmp_path: Path) -> None:
    """In both directions; the answer is as long as all of its messages with their frames."""
    file = tmp_path / "mine.yaml"
    file.write_text(
        "workload: mine\nprotocol: http2\nbackend: {serves: answers}\n"
        "requests: [{path: /a.B/C, headers: {Content-Type: application/grpc}, body: hi,"
        " messages: 3, answer: {size: 10, messages: 4, every: 2ms, times: [1ms, 5ms]}}]\n"
    )
    (request,) = load_workload(str(file)).requests
    assert request.body == b"\0\0\0\0\2hi" * 3
    assert request.expect_length == 4 * 15
    assert request.answer is not None
    assert request.answer.lasts_s == pytest.approx(0.011)


def test_a_backend_of_a_given_size_is_still_json(tmp_path: Path) -> None:
    """Padded with blanks, so that buffers can be tuned for larger answers."""
    text = "backend: {body: '{\"a\": 1}', size: 16k}\nrequests: [{path: /x}]"
    backend = load(tmp_path, text).backend
    assert backend is not None
    assert len(backend.body) == 16 << 10
    assert json.loads(backend.body) == {"a": 1}


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (SITE, "w.yaml:1: 'requests' is missing"),
        (SITE + "requests: []", "w.yaml:3: requests: at least one request is needed"),
        ("requests: [{path: /}]", "w.yaml:1: a workload needs a 'site' or a 'backend' to ask"),
        (SITE + "requests: [{path: /b}]", "w.yaml:3: path: the site has no '/b'; it has: /index"),
        (SITE + "requests: [{path: b}]", "w.yaml:3: path: 'b' is not allowed; a path starts with"),
        (SITE + "requests: [{path: '/a b'}]", "w.yaml:3: path: '/a b' is not allowed"),
        (SITE + "requests: [{path: /, weight: 0}]", "w.yaml:3: weight: allowed: a number above 0"),
        (SITE + "requests: [{path: /, wait: 0}]", "w.yaml:3: unknown key 'wait'; did you mean"),
        (
            SITE + "requests: [{path: /, headers: {Connection: close}}]",
            "w.yaml:3: Connection: 'Connection' is set by the load generator",
        ),
        (
            SITE + 'requests: [{path: /, headers: {X: "a\\nHost: b"}}]',
            "w.yaml:3: X: a header's value holds no line breaks",
        ),
        (SITE + "protocol: h2\nrequests: [{path: /}]", "w.yaml:3: protocol: 'h2' is not allowed"),
        (
            SITE + "protocol: http3\nrequests: [{path: /}]",
            "http3 is always encrypted; add: tls: on",
        ),
        (
            SITE + "streams: 8\nrequests: [{path: /}]",
            "w.yaml:3: streams: http1 carries one request",
        ),
        (SITE + "tls: {ca: no.pem}\nrequests: [{path: /}]", "w.yaml:3: ca: no.pem does not exist"),
        (
            SITE + "arrival: {rates: [{for: 1s, rate: 0}]}\nrequests: [{path: /}]",
            "one rate above 0",
        ),
        (SITE + "arrival: {instants: no}\nrequests: [{path: /}]", "no: cannot be read"),
        (SITE + "requests: [{path: /, body_file: no}]", "no cannot be read: No such file"),
        (SITE + "arrival: bursts\nrequests: [{path: /}]", "allowed: poisson, constant"),
        (SITE + "connections: 0\nrequests: [{path: /}]", "0 is out of range; allowed: 1 to 100000"),
        ("site: [{path: /../x, size: 1}]\nrequests: [{path: /}]", "'/../x' is not a plain path"),
        ("site: [{path: /x, size: 1t}]\nrequests: [{path: /}]", "expected a size such as 512"),
        ("site: [{path: /x, size: 1g}]\nrequests: [{path: /}]", "is out of range"),
        (
            "site: [{path: /x, size: 1}, {path: /x/y, size: 1}]\nrequests: [{path: /}]",
            "'/x' cannot be a file and a folder",
        ),
        ('backend: {body: "\\0"}\nrequests: [{path: /}]', "control characters are not allowed"),
        (GRPC, "w.yaml:3: requests: gRPC needs HTTP/2; add to the workload: protocol: http2"),
        ("protocol: http2\n" + GRPC[:-1] + ", {path: /}]", "gRPC and others need workloads of"),
        (
            "protocol: http2\n"
            + GRPC.replace("body: a", "serves: answers")[:-2]
            + ", answer: {status: 404}}]",
            "answers of gRPC have the status 200",
        ),
        (
            f"{SITE}protocol: http2\n" + GRPC.replace("body: a", "serves: site"),
            "it serves no site",
        ),
        (
            "protocol: http2\n"
            + GRPC.replace("body: a", "serves: answers")[:-2]
            + ", answer: {messages: 11, every: 500ms}}]",
            "stream of '/index.html' lasts 5 s, and an answer after 5 s is an error",
        ),
        (
            "protocol: http2\n"
            + GRPC.replace("body: a", "serves: answers")[:-2]
            + ", answer: {messages: 100, size: 256k}}]",
            "answer: the messages have 26214900 bytes; allowed: 16777216 in all",
        ),
        (
            "backend: {serves: answers}\nrequests: [{path: /, answer: {messages: 2}}]",
            "only gRPC has messages; add the header Content-Type: application/grpc",
        ),
        (BACKEND + "requests: [{path: /, messages: 2}]", "only gRPC has messages"),
        ("backend: {body: a, content_type: x}\nrequests: [{path: /}]", "not a media type such as"),
        (BACKEND + "requests: [{path: /, expect: {sha256: ab}}]", "expected 64 hexadecimal digits"),
    ],
)
def test_a_wrong_workload_is_answered_at_its_line(tmp_path: Path, text: str, answer: str) -> None:
    """With the bad value and with what is allowed."""
    assert answer in refusal(tmp_path, text)


def test_an_unknown_workload_is_answered_with_those_there_are() -> None:
    """And with how to name one's own."""
    with pytest.raises(
        DefinitionError, match=r"'statc'; built in: .*https, .*static; did you mean 'static'"
    ):
        load_workload("statc")
