"""Tests of a space's binding to host, server and workload, and of its parameters."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.errors import DefinitionError
from tuner.machine.facts import HostFacts, ServerFacts
from tuner.space.facts import space_facts
from tuner.space.space import Space, SpaceFacts, bind_space
from tuner.workload.wire import WireProtocol
from tuner.workload.workload import load_workload

CLEARTEXT = SpaceFacts(
    server_cores=2,
    connections=32,
    memory_bytes=8 << 30,
    server_version=(1, 22, 1),
    modules=("http_ssl", "http_v2", "threads"),
    response_bytes=1024,
    kernel=(6, 1, 0),
    openssl=(3, 0, 15),
)
TLS = replace(CLEARTEXT, tls=True)
KTLS = replace(TLS, kernel_tls=True)
HOST = HostFacts(
    hostname="one",
    cpus=(0, 1),
    cpu_model="",
    memory_bytes=4 << 30,
    kernel="6.1.0-18-amd64",
    distribution="",
    virtualisation="none",
    file_limit=4096,
    somaxconn=2048,
    realtime=True,
    user="root",
)
NGINX = ServerFacts(
    "nginx",
    "/usr/sbin/nginx",
    "1.22.1",
    ("http_ssl",),
    "built with OpenSSL 3.0.8 7 Feb 2023 (running with OpenSSL 3.0.15 3 Sep 2024)",
)


def load(tmp_path: Path, text: str, facts: SpaceFacts, force: tuple[str, ...] = ()) -> Space:
    """Bind the parameters in ``text``."""
    path = tmp_path / "s.yaml"
    head = "space: nginx/mine\nserver: nginx\nparameters:\n"
    path.write_text(head + textwrap.indent(textwrap.dedent(text), "  "), encoding="utf-8")
    return bind_space(str(path), facts, force)


def test_facts_come_from_host_server_and_workload() -> None:
    """Each from where it is known."""
    facts = space_facts(HOST, NGINX, load_workload("https"), 1)
    assert (facts.tls, facts.protocol) == (True, "http2")
    assert (facts.kernel, facts.openssl) == ((6, 1, 0), (3, 0, 15))
    assert (facts.somaxconn, facts.file_limit, facts.server_cores) == (2048, 4096, 1)
    assert facts.response_bytes == max(
        request.expect_length or 0 for request in load_workload("https").requests
    )
    assert space_facts(HOST, NGINX, load_workload("proxy"), 1).proxied


@pytest.mark.parametrize(
    ("build", "version"),
    [
        ("built with OpenSSL 3.0.15 3 Sep 2024", (3, 0, 15)),
        ("built with OpenSSL 1.1.1w  11 Sep 2023", (1, 1, 1)),
        ("built with LibreSSL 3.9.2", ()),
        ("", ()),
    ],
)
def test_the_library_is_read_from_the_build(build: str, version: tuple[int, ...]) -> None:
    """Only OpenSSL has what is asked for by its version."""
    assert replace(NGINX, build=build).openssl_tuple == version


@pytest.mark.parametrize(
    ("requires", "facts", "reason"),
    [
        ("{tls: on}", CLEARTEXT, "is for TLS; the workload is http1, cleartext"),
        ("{tls: off}", TLS, "is for cleartext; the workload is http1 over TLS"),
        ("{protocol: [http2, http3]}", TLS, "is for http2 or http3; the workload is http1 over"),
        ("{response_bytes: {above: 1k}}", TLS, "is for response bytes above 1k; the workload has"),
        ("{streams: {below: 1}}", TLS, "is for streams below 1; the workload has 1"),
        ("{proxied: on}", TLS, "is for workloads with a backend"),
        ("{upstream: [uwsgi, scgi]}", TLS, "is for upstreams that speak uwsgi or scgi; these"),
        ("{openssl: '>= 3.2'}", TLS, "needs OpenSSL >= 3.2; this is 3.0.15"),
        ("{openssl: '>= 1'}", replace(TLS, openssl=()), "needs OpenSSL >= 1; this is built with"),
        ("{kernel: '>= 6.2'}", TLS, "needs Linux >= 6.2; this is 6.1.0"),
        ("{kernel_tls: on}", TLS, "needs the kernel's TLS, which is not loaded"),
        ("{module: [threads, http_v3]}", TLS, "needs the module http_v3, which is not built in"),
        ("{version: '>= 1.20, < 1.22'}", TLS, "needs version >= 1.20, < 1.22; this is 1.22.1"),
    ],
)
def test_what_is_missing_leaves_a_parameter_out(
    tmp_path: Path, requires: str, facts: SpaceFacts, reason: str
) -> None:
    """A left-out parameter has its reason, and one that the workload does not use is apart."""
    space = load(tmp_path, f"p: {{type: boolean, default: off, requires: {requires}}}\n", facts)
    reported = dict(space.left_out) | dict(space.unused)
    assert reported["p"].startswith(reason)
    assert ("p" in dict(space.unused)) == reason.startswith("is for")


SENDFILE = """\
ktls: {type: boolean, default: off, requires: {tls: on, kernel_tls: on}}
sendfile:
  type: boolean
  default: on
  when:
    any:
      - workload: {tls: off}
      - ktls: on
buffers:
  type: integer
  range: [1, 4]
  default: 2
  when:
    any:
      - sendfile: off
      - {workload: {tls: on}, ktls: off}
"""


def test_a_condition_may_have_several_ways_to_hold(tmp_path: Path) -> None:
    """Files are sent by the kernel in cleartext, or if it encrypts; else they are read."""
    clear = load(tmp_path, SENDFILE, CLEARTEXT)
    assert clear.baseline("stock").values == {"sendfile": True}
    assert clear.complete({"sendfile": False}, clear.baseline("stock")).values["buffers"] == 2
    plain = load(tmp_path, SENDFILE, TLS)
    assert plain.baseline("stock").values == {"buffers": 2}
    kernel = load(tmp_path, SENDFILE, KTLS)
    stock = kernel.baseline("stock")
    assert stock.values == {"ktls": False, "buffers": 2}
    assert kernel.complete({"ktls": True}, stock).values == {"ktls": True, "sendfile": True}
    assert kernel.needs(kernel.parameter("buffers")) == "either sendfile is off, or ktls is off"


@pytest.mark.parametrize(
    ("space", "protocol", "streams", "least"),
    [
        ("nginx/static", "http1", 1, 512),
        ("nginx/static", "http2", 50, 512),
        ("nginx/static", "http3", 50, 100 + 50 * 56 + 64),
        ("nginx/proxy", "http2", 50, 50 + 2500 + 64),
        ("nginx/proxy", "http3", 50, 50 + 2500 + 50 * 56 + 64),
    ],
)
def test_nginx_has_a_connection_for_all_that_takes_one(
    space: str, protocol: WireProtocol, streams: int, least: int
) -> None:
    """Streams of QUIC and requests to an upstream do; a stream of HTTP/2 does not."""
    facts = replace(
        TLS,
        connections=50,
        protocol=protocol,
        streams=streams,
        server_version=(1, 31, 4),
        modules=("http_ssl", "http_v2", "http_v3", "threads"),
        proxied=space == "nginx/proxy",
    )
    assert bind_space(space, facts).baseline("stock").values["worker_connections"] == least


def test_a_bound_may_come_from_the_host(tmp_path: Path) -> None:
    """The kernel cuts a backlog off, silently."""
    text = 'b: {type: integer, range: [511, "min(65535, somaxconn)"], default: 511}\n'
    space = load(tmp_path, text, replace(TLS, somaxconn=4096))
    assert space.parameter("b").high == 4096


def test_spaces_share_what_they_have_in_common(tmp_path: Path) -> None:
    """The included file's parameters come first; a mistake is answered in the file it is in."""
    common = tmp_path / "_common.yaml"
    common.write_text("parameters:\n  a: {type: boolean, default: on}\n", encoding="utf-8")
    text = "space: nginx/mine\nserver: nginx\ninclude: _common.yaml\nparameters:\n"
    path = tmp_path / "s.yaml"
    path.write_text(text + "  b: {type: boolean, default: on, when: {a: on}}\n", encoding="utf-8")
    assert [p.name for p in bind_space(str(path), TLS).parameters] == ["a", "b"]
    path.write_text(text + "  a: {type: boolean, default: on}\n", encoding="utf-8")
    with pytest.raises(DefinitionError, match=r"s.yaml:5: a: 'a' is given twice; first in .*_com"):
        bind_space(str(path), TLS)
    common.write_text("parameters:\n  a: {type: boolean}\n", encoding="utf-8")
    with pytest.raises(DefinitionError, match=r"_common.yaml:2: a: 'default' is missing"):
        bind_space(str(path), TLS)
    text = text.replace("_common", "_other") + "  b: {type: boolean, default: on}\n"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DefinitionError, match=r"s.yaml:3: include: there is no file .*_other.yaml"):
        bind_space(str(path), TLS)


@pytest.mark.parametrize(
    "line",
    ["ssl_ciphers: {type: choice, choices: [a, b], default: a}",
     "limit_rate: {type: integer, range: [1, 9], default: 1}",
     "mine: {type: boolean, default: off, directive: ssl_early_data}"],
)  # fmt: skip
def test_what_is_never_searched_is_refused_unless_forced(tmp_path: Path, line: str) -> None:
    """By the parameter's name or the directive's; the way out is said, and taken note of."""
    name = line.partition(":")[0]
    with pytest.raises(DefinitionError, match=rf"s.yaml:4: .*never searched.*--force {name}"):
        load(tmp_path, line + "\n", TLS)
    forced = load(tmp_path, line + "\n", TLS, (name,))
    assert [found for found, _ in forced.forced] == [name]


def test_forcing_what_needs_no_force_is_an_error(tmp_path: Path) -> None:
    """`--force` with a parameter that needs none, or an unknown one, is refused."""
    with pytest.raises(DefinitionError, match="--force: 'a' is not a parameter that needs --force"):
        load(tmp_path, "a: {type: boolean, default: on}\n", TLS, ("a",))
    with pytest.raises(DefinitionError, match="--force: 'b' is not a parameter of nginx/mine"):
        load(tmp_path, "a: {type: boolean, default: on}\n", TLS, ("b",))


def test_what_a_template_of_ones_own_may_be_forced_to_is_taken_note_of(tmp_path: Path) -> None:
    """A directive of the never-list by its name; the built-in templates write none."""
    path = tmp_path / "s.yaml"
    text = "space: nginx/mine\nserver: nginx\ntemplate: {}\nparameters:\n"
    text += "  a: {{type: boolean, default: on}}\n"
    path.write_text(text.format("t.j2"), encoding="utf-8")
    assert [name for name, _ in bind_space(str(path), TLS, ("ssl_early_data",)).forced] == [
        "ssl_early_data"
    ]
    path.write_text(text.format("nginx/static"), encoding="utf-8")
    with pytest.raises(DefinitionError, match="not a parameter of nginx/mine that needs"):
        bind_space(str(path), TLS, ("ssl_early_data",))
