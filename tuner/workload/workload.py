"""A workload: the requests to the server, and the expected answers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from tuner.errors import DefinitionError, quoted
from tuner.paths import data_dir
from tuner.reading.access_log import begins_log
from tuner.reading.inputs import BODY_BYTES, open_input, read_input
from tuner.reading.located import Node, read_yaml
from tuner.reading.shipped import names_in, shipped_file
from tuner.workload import workload_keys as shapes
from tuner.workload.answers import ANSWER_HEADER, Answer, read_answer
from tuner.workload.arrivals import Arrival, read_arrival
from tuner.workload.bodies import read_body
from tuner.workload.grpc import LARGEST_STREAM, MEDIA_TYPE, TRAILERS, framed, is_grpc
from tuner.workload.site import FILE_KINDS, FileKind, SiteFile, content
from tuner.workload.url_list import read_urls
from tuner.workload.wire import WIRE, Wire, read_wire

BackendProtocol = Literal["http", "fastcgi", "uwsgi", "scgi", "grpc"]
BACKEND_PROTOCOLS: tuple[BackendProtocol, ...] = get_args(BackendProtocol)

_FIELD_VALUE = re.compile(r"[\t -~\x80-\U0010ffff]*")
_SET_BY_GENERATOR = ("connection", "content-length", "transfer-encoding")
INDEX = "index.html"
_OK = 200


@dataclass(frozen=True, slots=True)
class Request:
    """One kind of request, with its share of the mix."""

    weight: float
    """Share, relative to the other requests'."""
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    expect_status: int | None
    """Expected status; None: any."""
    expect_length: int | None
    """Bytes of the response's body; None: not checked."""
    expect_sha256: str | None
    """SHA-256 of the response's body, 64 hex digits; None: not checked."""
    answer: Answer | None = None
    """Answer of a backend that gives each request its own."""
    checked: shapes.Checked = "sample"
    """Answers with a check of the hash; status and length are checked on all."""


@dataclass(frozen=True, slots=True)
class Backend:
    """The answer of the servers behind the proxy to every request."""

    body: bytes
    content_type: str
    count: int = 1
    """Number of identical servers behind the server under test."""
    serves_site: bool = False
    """True if it answers with the site's files instead of a single body."""
    own_answers: bool = False
    """True if it gives each request its own answer instead of a single body."""
    protocols: tuple[BackendProtocol, ...] = ("http",)
    """Protocols in which the server under test asks it."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The load that a study offers."""

    name: str
    summary: str
    wire: Wire
    requests: tuple[Request, ...]
    connections: int
    arrival: Arrival
    timeout_s: float
    """Time after which a request without an answer is an error."""
    site: tuple[SiteFile, ...]
    backend: Backend | None
    """Set if the server under test is a proxy."""
    own_site: bool = False
    """True to ask for the user's own files, on the server under test."""

    @property
    def requests_in_flight(self) -> int:
        """Most requests that can be open at a time, as all are in a closed loop."""
        return self.connections * self.wire.streams

    @property
    def speaks_grpc(self) -> bool:
        """True if the requests use gRPC."""
        return any(is_grpc(request.headers) for request in self.requests)

    @property
    def answerable(self) -> frozenset[BackendProtocol]:
        """Return the protocols in which a backend of the lab can answer the requests."""
        if self.backend is None:
            return frozenset()
        if self.speaks_grpc:
            return frozenset({"grpc"})
        # The files of a site are served by Nginx alone.
        site: frozenset[BackendProtocol] = frozenset({"http"})
        return site if self.backend.serves_site else site | {"fastcgi", "uwsgi", "scgi"}


def load_workload(name_or_path: str) -> Workload:
    """Read a built-in workload by name, or a YAML file by its path.

    The answers of site and backend are known, so every answer must have status 200 and the right
    length and hash, unless the file sets other values. This exposes a configuration that changes
    what clients get.

    Raises:
        DefinitionError: the workload does not exist, or its file is wrong.
    """
    path = _find(name_or_path)
    if _is_log(path):
        raise DefinitionError(
            f"is an access log; make a workload of it: tuner workload from-log {path} -o mine.yaml",
            path=str(path),
        )
    return _workload(read_yaml(path), path.parent)


def _is_log(path: Path) -> bool:
    """Return whether a file is an access log rather than a workload, by its first line."""
    with open_input(path) as file:
        line = file.readline(_LONGEST_LINE)
    return line.startswith(_PACKED) or begins_log(line.decode("utf-8", "replace").rstrip("\r\n"))


def _find(name_or_path: str) -> Path:
    if "/" in name_or_path or name_or_path.endswith((".yaml", ".yml", ".log", ".gz", ".zst")):
        return Path(name_or_path)
    folder = data_dir("studies") / "workloads"
    return shipped_file(name_or_path, "workload", names_in(folder), folder, "--workload")


_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
"""First bytes of files packed by gzip and Zstandard (RFC 1952, RFC 8878)."""
_LONGEST_LINE = 65_536


def _workload(root: Node, folder: Path) -> Workload:
    keys = shapes.WORKLOAD.read(root)
    own_site = "site" in keys and keys["site"].content == shapes.OWN_SITE
    site = _site(keys["site"]) if "site" in keys and not own_site else ()
    backend = _backend(keys["backend"]) if "backend" in keys else None
    if not site and not own_site and (backend is None or backend.serves_site):
        raise root.error("a workload needs a 'site' or a 'backend' to ask")
    answers = {file.path: content(file) for file in site}
    requests = _numbered(
        request
        for node in keys["requests"].sequence()
        for request in _requests(node, None if own_site else answers, backend, folder)
    )
    if not requests:
        raise keys["requests"].error("at least one request is needed")
    wire = read_wire({key: keys[key] for key in WIRE if key in keys}, folder)
    timeout_s = shapes.TIMEOUT.read(keys["timeout"]) if "timeout" in keys else 5.0
    _check_grpc(keys["requests"], requests, wire, backend)
    _check_streams(keys["requests"], requests, timeout_s)
    return Workload(
        name=keys["workload"].text(),
        summary=keys["summary"].text() if "summary" in keys else "",
        wire=wire,
        requests=requests,
        connections=shapes.CONNECTIONS.read(keys["connections"]) if "connections" in keys else 32,
        arrival=read_arrival(keys["arrival"], folder) if "arrival" in keys else "poisson",
        timeout_s=timeout_s,
        site=site,
        backend=backend,
        own_site=own_site,
    )


def _check_grpc(
    node: Node, requests: Sequence[Request], wire: Wire, backend: Backend | None
) -> None:
    """Raise DefinitionError if requests of gRPC cannot be offered.

    Raises:
        DefinitionError: at the line of the workload.
    """
    count = sum(is_grpc(request.headers) for request in requests)
    if not count:
        return
    if count < len(requests):
        raise node.error("requests of gRPC and others need workloads of their own")
    if wire.protocol != "http2":
        raise node.error("gRPC needs HTTP/2; add to the workload: protocol: http2")
    if backend is not None and backend.serves_site:
        raise node.error("a backend of gRPC has a body or answers; it serves no site")
    if any(request.answer and request.answer.status != _OK for request in requests):
        raise node.error("answers of gRPC have the status 200")


def _check_streams(node: Node, requests: Sequence[Request], timeout_s: float) -> None:
    """Raise DefinitionError if a stream of messages cannot end before its timeout.

    Raises:
        DefinitionError: at the line of the workload.
    """
    for request in requests:
        answer = request.answer
        if answer and answer.messages > 1 and answer.lasts_s >= timeout_s:
            raise node.error(
                f"the stream of {quoted(request.path)} lasts {answer.lasts_s:g} s, and an answer"
                f" after {timeout_s:g} s is an error; raise the timeout, or shorten the stream"
            )


def _site(node: Node) -> tuple[SiteFile, ...]:
    files: dict[str, SiteFile] = {}
    for item in node.sequence():
        keys = shapes.FILE.read(item)
        path = keys["path"].text()
        if not shapes.SITE_PATH.fullmatch(path):
            raise keys["path"].error(
                f"{quoted(path)} is not a plain path; allowed: letters, digits, '.', '_', '-'"
                " between slashes, such as /css/site.css"
            )
        if path in files:
            raise keys["path"].error(f"{quoted(path)} is given twice")
        kind = shapes.FILE_KIND.read(keys["kind"]) if "kind" in keys else _kind_of(path)
        files[path] = SiteFile(path, shapes.FILE_SIZE.read(keys["size"]), kind)
    for path in files:
        if any(other.startswith(path + "/") for other in files):
            raise node.error(f"{quoted(path)} cannot be a file and a folder")
    total = sum(file.size_bytes for file in files.values())
    if total > shapes.LARGEST_SITE:
        raise node.error(f"the site has {total} bytes; allowed: {shapes.LARGEST_SITE} in all")
    return tuple(files.values())


def _kind_of(path: str) -> FileKind:
    suffix = path.rpartition(".")[2].replace("txt", "text")
    return next((kind for kind in FILE_KINDS if kind == suffix), "binary")


def _backend(node: Node) -> Backend:
    keys = shapes.BACKEND.read(node)
    count = shapes.COUNT.read(keys["count"]) if "count" in keys else 1
    if "serves" in keys:
        serves = shapes.SERVES.read(keys["serves"])
        if "body" in keys:
            raise keys["body"].error("a backend that serves something has no body; leave one out")
        if serves == "site":
            return Backend(b"", "", count, serves_site=True)
        return Backend(b"", _media_type(keys), count, own_answers=True)
    if "body" not in keys:
        raise node.error("what it answers is missing: a 'body', or 'serves: site'")
    body = keys["body"].text()
    if "size" in keys:
        # Spaces are the only padding that keeps JSON valid.
        body = body.ljust(shapes.PADDED.read(keys["size"]))
    if any(ord(char) < 32 and char not in "\t\n\r" for char in body) or "\x7f" in body:
        raise keys["body"].error("control characters are not allowed, except tabs and line ends")
    data = body.encode()
    if len(data) > shapes.LARGEST_BACKEND_BODY:
        raise keys["body"].error(f"{len(data)} bytes; allowed: {shapes.LARGEST_BACKEND_BODY}")
    return Backend(data, _media_type(keys), count)


def _media_type(keys: Mapping[str, Node]) -> str:
    media = keys["content_type"].text() if "content_type" in keys else "application/json"
    if not shapes.MEDIA_TYPE.fullmatch(media):
        raise keys["content_type"].error(
            f"{quoted(media)} is not a media type such as application/json"
        )
    return media


def _requests(
    node: Node, answers: Mapping[str, bytes] | None, backend: Backend | None, folder: Path
) -> list[Request]:
    """Return the request of an entry, or those of its file of URLs, which share its weight."""
    entries = node.entries()
    if "urls" not in entries:
        return [_request(node, answers, backend, folder)]
    keys = shapes.URLS.read(node)
    path = folder / keys["urls"].text()
    lines = read_urls(path)
    whole = sum(weight for _, _, weight, _ in lines)
    share = shapes.WEIGHT.read(keys["weight"]) if "weight" in keys else 1.0
    shared = {key: node for key, node in entries.items() if key in {"headers", "expect"}}
    made = []
    for method, target, weight, line in lines:
        texts = {"method": method, "path": target, "weight": repr(share * weight / whole)}
        nodes = {key: Node(str(path), line, key, text) for key, text in texts.items()}
        made.append(
            _request(Node(str(path), line, "", {**nodes, **shared}), answers, backend, folder)
        )
    return made


def _body(keys: Mapping[str, Node], folder: Path) -> tuple[bytes, str]:
    """Return the body of a request, and the media type of a generated one."""
    if "body_file" not in keys:
        if "body" in keys and not isinstance(keys["body"].content, str):
            return read_body(keys["body"])
        return keys["body"].text().encode() if "body" in keys else b"", ""
    if "body" in keys:
        raise keys["body"].error("both body and body_file are given; leave one out")
    path = folder / keys["body_file"].text()
    try:
        return read_input(path, BODY_BYTES), ""
    except DefinitionError as error:
        raise keys["body_file"].error(f"{path} {error.message}") from None


def _request(
    node: Node, answers: Mapping[str, bytes] | None, backend: Backend | None, folder: Path
) -> Request:
    keys = shapes.REQUEST.read(node)
    method, headers = _method_and_headers(keys)
    grpc = is_grpc(headers)
    path = keys["path"].text()
    if not shapes.TARGET.fullmatch(path):
        raise keys["path"].error(
            f"{quoted(path)} is not allowed; a path starts with '/' and holds neither blanks nor "
            "characters beyond ASCII (write them as %20, %C3%A9)"
        )
    status, length, sha256, checked = _expect(keys.get("expect"))
    any_status = "expect" in keys and _is_any_status(keys["expect"])
    fixed = backend is not None and not backend.serves_site
    own = _own_answer(keys, backend)
    messages = shapes.MESSAGES.read(keys["messages"]) if "messages" in keys else 1
    if not grpc and ("messages" in keys or (own and own.messages > 1)):
        raise node.error(f"only gRPC has messages; add the header Content-Type: {MEDIA_TYPE}")
    answer = backend.body if backend and fixed else _lookup(path, answers or {})
    if own is not None:
        answer = own.body
        status = own.status if status is None and not any_status else status
    if grpc and answer is not None:
        answer = _stream(keys.get("answer", node), answer, own.messages if own else 1)
    # The content of the user's own files is unknown here, so only the status is expected.
    unknown = answer is None and own is None and status is None
    if unknown and answers is not None and not any_status:
        raise keys["path"].error(
            f"the site has no {quoted(path)}; it has: {', '.join(answers)} (for a missing file "
            "add the expected status: expect: {status: 404})"
        )
    if status is None and not any_status:
        status = 200
    # The answer to HEAD has the length in a header and no body.
    free = "expect" in keys and "body" in keys["expect"].entries()
    if answer is not None and (status == 200 or own) and method != "HEAD" and not free:
        length = len(answer) if length is None else length
        sha256 = hashlib.sha256(answer).hexdigest() if sha256 is None else sha256
    weight = shapes.WEIGHT.read(keys["weight"]) if "weight" in keys else 1.0
    if weight <= 0:
        raise keys["weight"].error("allowed: a number above 0")
    body, media = _body(keys, folder)
    if grpc:
        body = _stream(node, body, messages)
    if media and not any(name.lower() == "content-type" for name, _ in headers):
        headers = (*headers, ("Content-Type", media))
    return Request(
        weight=weight,
        method=method,
        path=path,
        headers=headers,
        body=body,
        expect_status=status,
        expect_length=length,
        expect_sha256=sha256,
        answer=own,
        checked=checked,
    )


def _stream(node: Node, message: bytes, messages: int) -> bytes:
    """Return the messages of one direction in their frames.

    Raises:
        DefinitionError: at the node, for a stream that is too long.
    """
    total = messages * len(framed(message))
    if total > LARGEST_STREAM:
        raise node.error(f"the messages have {total} bytes; allowed: {LARGEST_STREAM} in all")
    return framed(message, messages)


def _method_and_headers(keys: Mapping[str, Node]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return both, with what every request of gRPC has."""
    headers = _headers(keys["headers"]) if "headers" in keys else ()
    grpc = is_grpc(headers)
    if grpc and not any(name.lower() == "te" for name, _ in headers):
        headers = (*headers, TRAILERS)
    method = keys["method"].text() if "method" in keys else "POST" if grpc else "GET"
    if not shapes.TOKEN.fullmatch(method):
        raise keys["method"].error(f"{quoted(method)} is not an HTTP method such as GET")
    return method, headers


def _own_answer(keys: Mapping[str, Node], backend: Backend | None) -> Answer | None:
    """Return the answer of the backend to one request, if it gives each its own."""
    if backend is not None and backend.own_answers:
        return read_answer(keys["answer"]) if "answer" in keys else Answer()
    if "answer" in keys:
        raise keys["answer"].error("only a backend with `serves: answers` has answers of requests")
    return None


def _numbered(requests: Iterable[Request]) -> tuple[Request, ...]:
    """Return the requests with the header that names their answer to the backend."""
    return tuple(
        request
        if request.answer is None
        else replace(request, headers=(*request.headers, (ANSWER_HEADER, str(number))))
        for number, request in enumerate(requests)
    )


def _lookup(path: str, answers: Mapping[str, bytes]) -> bytes | None:
    plain = path.partition("?")[0]
    return answers.get(plain + INDEX if plain.endswith("/") else plain)


def _expect(node: Node | None) -> tuple[int | None, int | None, str | None, shapes.Checked]:
    if node is None:
        return None, None, None, "sample"
    keys = shapes.EXPECT.read(node)
    if "body" in keys:
        shapes.BODY_CHECK.read(keys["body"])
    any_status = _is_any_status(node)
    sha256 = keys["sha256"].text() if "sha256" in keys else None
    if sha256 is not None and not shapes.SHA256.fullmatch(sha256):
        raise keys["sha256"].error(f"expected 64 hexadecimal digits, found {quoted(sha256)}")
    return (
        shapes.STATUS.read(keys["status"]) if "status" in keys and not any_status else None,
        shapes.LENGTH.read(keys["length"]) if "length" in keys else None,
        None if sha256 is None else sha256.lower(),
        shapes.CHECK.read(keys["check"]) if "check" in keys else "sample",
    )


def _is_any_status(expect: Node) -> bool:
    """Return whether a request accepts every status, as for redirects, which differ by server."""
    status = expect.entries().get("status")
    return status is not None and status.content == shapes.ANY


def _headers(node: Node) -> tuple[tuple[str, str], ...]:
    headers: list[tuple[str, str]] = []
    for name, value in node.entries().items():
        text = value.text()
        if not shapes.TOKEN.fullmatch(name):
            raise value.error(f"{quoted(name)} is not a header name")
        if name.lower() in _SET_BY_GENERATOR:
            raise value.error(f"{quoted(name)} is set by the load generator")
        if not _FIELD_VALUE.fullmatch(text):
            raise value.error("a header's value holds no line breaks or control characters")
        headers.append((name, text))
    return tuple(headers)
