"""Workloads: what is asked, and what a right answer is."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tuner.errors import DefinitionError
from tuner.site import generate
from tuner.workload import Workload, load_workload

SITE = "site: [{path: /index.html, size: 1k}, {path: /a/big.bin, size: 100k}]\n"
BACKEND = "backend: {body: '[1]'}\n"


def load(tmp_path: Path, text: str) -> Workload:
    """Read a workload from text."""
    path = tmp_path / "w.yaml"
    path.write_text(f"workload: mine\n{text}", encoding="utf-8")
    return load_workload(str(path))


def refusal(tmp_path: Path, text: str) -> str:
    """What reading it is answered with, without the folder."""
    with pytest.raises(DefinitionError) as raised:
        load(tmp_path, text)
    return str(raised.value).replace(f"{tmp_path}/", "")


def test_the_static_workload_is_one_page_of_1_kb() -> None:
    """32 connections, Poisson, HTTP/1.1 cleartext, and every answer is known in advance."""
    workload = load_workload("static")
    page = generate(workload)["index.html"]
    (request,) = workload.requests
    assert len(page) == 1024
    assert (workload.protocol, workload.connections, workload.arrival) == (
        "http/1.1",
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


def test_what_the_user_expects_goes_before_what_is_generated(tmp_path: Path) -> None:
    """A backend of 2 KB behind a filter that shortens it, say."""
    text = BACKEND + "requests: [{path: /x, method: POST, body: 'a=1', expect: {length: 7}}]"
    (request,) = load(tmp_path, text).requests
    assert (request.expect_length, request.body) == (7, b"a=1")


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
        (SITE + "arrival: bursts\nrequests: [{path: /}]", "allowed: poisson, constant"),
        (SITE + "connections: 0\nrequests: [{path: /}]", "0 is out of range; allowed: 1 to 100000"),
        ("site: [{path: /../x, size: 1}]\nrequests: [{path: /}]", "'/../x' is no plain path"),
        ("site: [{path: /x, size: 1t}]\nrequests: [{path: /}]", "expected a size such as 512"),
        ("site: [{path: /x, size: 1g}]\nrequests: [{path: /}]", "is out of range"),
        (
            "site: [{path: /x, size: 1}, {path: /x/y, size: 1}]\nrequests: [{path: /}]",
            "'/x' cannot be a file and a folder",
        ),
        ('backend: {body: "\\0"}\nrequests: [{path: /}]', "control characters are not allowed"),
        ("backend: {body: a, content_type: x}\nrequests: [{path: /}]", "no media type such as"),
        (BACKEND + "requests: [{path: /, expect: {sha256: ab}}]", "expected 64 hexadecimal digits"),
    ],
)
def test_a_wrong_workload_is_answered_at_its_line(tmp_path: Path, text: str, answer: str) -> None:
    """With the bad value and with what is allowed."""
    assert answer in refusal(tmp_path, text)


def test_an_unknown_workload_is_answered_with_those_there_are() -> None:
    """And with how to name one's own."""
    with pytest.raises(DefinitionError, match=r"'statc'; built in: proxy, static; did you mean"):
        load_workload("statc")
