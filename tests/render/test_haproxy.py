"""HAProxy's template and quotes: text in its own language with any values."""

from __future__ import annotations

import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.hosts.nginxes import ask
from tests.render.placed import LAB
from tests.servers.labs import free_ports, here
from tests.spaces import load_space
from tuner.errors import DefinitionError
from tuner.hosts import local
from tuner.machine.facts import ServerFacts
from tuner.reading.haproxy_text import SECTIONS, lines
from tuner.render.render import EXPORT, Placement, export_placement, render
from tuner.servers import haproxy
from tuner.space.configuration import Configuration
from tuner.space.facts import space_facts
from tuner.space.space import bind_space
from tuner.workload.wire import Tls, Wire
from tuner.workload.workload import load_workload

SPACE = load_space(
    "haproxy/proxy", server_version=(2, 6, 12), modules=("CPU_AFFINITY", "LINUX_SPLICE")
)
HAND = SPACE.baseline("hand")
PLACEMENT = replace(LAB, upstreams=("127.0.0.1:18081",))
LIMIT = "tune.quic.frontend.conn-tx-buffers.limit"
WINDOW = "tune.quic.frontend.default-max-window-size"
STREAMS = "tune.quic.frontend.max-streams-bidi"
OWNER = "tune.quic.socket-owner"
COPY = "tune.quic.zero-copy-fwd-send"
START = "tune.quic.cc-hystart"
HOSTILE = st.text(st.sampled_from("ab{}$\\\"'#;%, \n\r\t\x00é/"), max_size=12)


def answer(url: str) -> str | None:
    """Return the body at a URL, once its server listens."""
    deadline = time.monotonic() + 10
    while (found := ask(url)) is None and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def written(placement: Placement = PLACEMENT, configuration: Configuration = HAND) -> str:
    """Return the file of a configuration."""
    return render("haproxy/proxy", configuration, SPACE, placement, haproxy.syntax)


def shape(text: str) -> list[tuple[str, int]]:
    """Return the first word of each line with the number of its words."""
    return [(line.words[0], len(line.words)) for line in lines(text)]


def test_a_setting_that_is_left_to_haproxy_is_not_written() -> None:
    """`auto` stands for the line's absence."""
    text = written(configuration=SPACE.baseline("stock"))
    assert "backlog" not in text
    assert "tune.runqueue-depth" not in text
    tuned = SPACE.complete({"backlog": 2000, "tune_runqueue_depth": 64}, HAND)
    assert {("backlog", 2), ("tune.runqueue-depth", 2)} <= set(shape(written(PLACEMENT, tuned)))


def test_each_thread_has_a_core_of_the_instances_own() -> None:
    """CPU 0 is the last digit of the mask; an export counts from 0."""
    hand = SPACE.complete({"nbthread": 2, "cpu_map": True}, HAND)
    maps = [line.words[1:] for line in lines(written(replace(PLACEMENT, cpu_mask="1010"), hand))
            if line.words[0] == "cpu-map"]  # fmt: skip
    assert maps == [("1/1", "1"), ("1/2", "3")]
    exported = haproxy.export_text(hand, SPACE, EXPORT)
    assert "cpu-map 1/1 0" in exported
    assert "cpu-map 1/2 1" in exported


@pytest.mark.parametrize(
    ("version", "modules", "settings"),
    [
        ("2.8.0", (), {LIMIT, STREAMS}),
        ("2.9.0", (), {LIMIT, STREAMS, OWNER}),
        ("3.0.11", ("QUIC_OPENSSL_COMPAT",), {LIMIT, STREAMS, OWNER, COPY, START, "limited-quic"}),
        ("3.1.0", (), {WINDOW, STREAMS, OWNER, COPY, START}),
        ("3.3.0", (), {COPY}),
    ],
)
def test_http3_has_a_listener_and_the_settings_of_its_version(
    version: str, modules: tuple[str, ...], settings: set[str]
) -> None:
    """As the manual of each version has them, and all that have a value are written."""
    workload = replace(load_workload("proxy"), wire=Wire("http3", Tls(), streams=64))
    request = replace(workload.requests[0], expect_length=1 << 20)
    server = ServerFacts("haproxy", "haproxy", version, ("QUIC", *modules), "")
    workload = replace(workload, requests=(request,))
    space = bind_space("haproxy/proxy", space_facts(local.facts(), server, workload, 2))
    text = haproxy.export_text(space.baseline("hand"), space, export_placement(workload.wire))
    found = [line.words for line in lines(text)]
    assert {words[0] for words in found if "quic" in words[0]} == settings
    (bind,) = (words for words in found if words[0] == "bind" and words[1].startswith("quic"))
    assert bind[2:] == (
        *("ssl", "crt", "/etc/ssl/site/site.pem", "alpn", "h3", "quic-cc-algo", "cubic"),
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "on"),
        (0, "0"),
        ("/srv/a-b_c.d:80", "/srv/a-b_c.d:80"),
        ("", "''"),
        ("a b", "'a b'"),
        ("#a", "'#a'"),
        ("$HOME", "'$HOME'"),
        ("back\\slash", "'back\\slash'"),
        ("it's", '"it\'s"'),
        ("'$a\\\"", '"\'\\$a\\\\\\""'),
    ],
)
def test_how_values_are_written(value: object, text: str) -> None:
    """Bare if they are plain; between single quotes, or double ones where it holds one."""
    assert haproxy.quote_haproxy(value) == text


@given(HOSTILE)
@example("${HOME}")
def test_every_value_is_read_as_it_was_meant(value: str) -> None:
    """One word of the same text, or a refusal."""
    try:
        text = haproxy.quote_haproxy(value)
    except DefinitionError:
        return
    assert [line.words for line in lines(f"global {text}")] == [("global", value)]


@given(HOSTILE)
@pytest.mark.parametrize("field", ["run_dir", "log_dir", "digest", "live_path"])
def test_no_placement_adds_a_directive(field: str, value: str) -> None:
    """The file has the same structure as with harmless paths, or is refused."""
    if field == "live_path" and not value:
        return  # empty means that there is none
    try:
        text = written(replace(PLACEMENT, **{field: value}))  # type: ignore[arg-type]
    except DefinitionError:
        return
    assert shape(text) == shape(written())


@given(st.sampled_from(sorted(HAND.values)), HOSTILE)
def test_no_value_adds_a_section(name: str, value: str) -> None:
    """Even one that no space would allow, as from a record that somebody edited."""
    edited = Configuration.of(SPACE.name, {**HAND.values, name: value})
    try:
        text = written(PLACEMENT, edited)
    except DefinitionError:
        return
    heads = [line.words[0] for line in lines(text) if line.words[0] in SECTIONS]
    assert heads == ["global", "defaults", "frontend", "backend"]
    known = {word for line in lines(written()) for word in line.words} | {value, HAND.digest}
    options = {"option", "tune.runqueue-depth", "busy-polling", "http-no-delay", "log", "global",
               "backlog", "fd@3", "fd@4", "httplog", "no-tls-tickets", "ssl-default-bind-options",
               "dontlog-normal", "log-format", "splice-auto", "forwardfor"}  # fmt: skip
    words = {word for line in lines(text) for word in line.words[:1]}
    assert words <= known | options


@pytest.mark.integration
def test_a_real_haproxy_reads_a_value_as_it_was_meant(tmp_path: Path) -> None:
    """Each value is the body of an answer."""
    binary = here("haproxy").binary
    values = ["a b", "$HOME", "it's", '"', "#", "\\n", "\\x41", "'$a\\\"\\\\", "é;,{}%"]
    (port,) = free_ports(1)
    rules = "".join(
        f"\thttp-request return status 200 content-type text/plain string"
        f" {haproxy.quote_haproxy(value)} if {{ path /{number} }}\n"
        for number, value in enumerate(values)
    )
    file = tmp_path / "haproxy.cfg"
    file.write_text(
        "defaults\n\tmode http\n\ttimeout client 5s\n\ttimeout connect 5s\n\ttimeout server 5s\n"
        f"frontend f\n\tbind 127.0.0.1:{port}\n{rules}",
        encoding="utf-8",
    )
    with subprocess.Popen([binary, "-db", "-f", file], stderr=subprocess.DEVNULL) as process:
        try:
            for number, value in enumerate(values):
                assert answer(f"http://127.0.0.1:{port}/{number}") == value
        finally:
            process.kill()
