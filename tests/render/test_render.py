"""Rendering: one text for one configuration, with nothing forgotten and nothing guessed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.render.placed import LAB
from tests.spaces import load_space
from tuner.errors import DefinitionError
from tuner.render.render import EXPORT, Placement, cpu_mask, render, render_backend, unified_diff
from tuner.servers.catalog import server
from tuner.space.configuration import Value
from tuner.space.space import BASELINES, Space, SpaceFacts, bind_space, spaces
from tuner.workload.workload import load_workload


def bind(name: str, version: tuple[int, ...] = (1, 22, 1)) -> Space:
    """Return a space on four cores."""
    return load_space(name, server_cores=4, server_version=version)


def directives(text: str) -> dict[str, str]:
    """Return arguments by directive; of one given twice, the first."""
    pairs = (line.strip().rstrip(";").partition(" ") for line in text.splitlines())
    found: dict[str, str] = {}
    for name, _, arguments in pairs:
        found.setdefault(name, arguments)
    return found


def static(values: Mapping[str, Value], placement: Placement = LAB) -> dict[str, str]:
    """Return the directives for some values of the static space, on top of ``stock``."""
    space = bind("nginx/static")
    configuration = space.complete(values, space.baseline("stock"))
    return directives(render(space.template, configuration, space, placement))


def proxy(values: Mapping[str, Value], version: tuple[int, ...] = (1, 22, 1)) -> dict[str, str]:
    """Likewise for the proxy's space."""
    space = bind("nginx/proxy", version)
    configuration = space.complete(values, space.baseline("stock"))
    placement = replace(LAB, upstreams=("127.0.0.1:19000",))
    return directives(render(space.template, configuration, space, placement))


STOCK = """\
# nginx/static, configuration 2c961dc1914b

worker_processes 1;
pid /srv/run/nginx.pid;
error_log /srv/logs/error.log;

events {
    worker_connections 512;
    multi_accept off;
}

http {
"""
STOCK_HTTP = """\
    client_body_temp_path /srv/run/client_body;
    proxy_temp_path /srv/run/proxy;
    fastcgi_temp_path /srv/run/fastcgi;
    uwsgi_temp_path /srv/run/uwsgi;
    scgi_temp_path /srv/run/scgi;
    access_log /srv/logs/access.log combined;
    sendfile off;
    keepalive_requests 1000;
    keepalive_timeout 75s;
    gzip off;
    output_buffers 2 32k;
    open_file_cache off;

    server {
        listen 127.0.0.1:18080 backlog=511;
        server_name localhost;
        root /srv/site;

        # Proves which configuration is running.
        location = /.tuner/live {
            access_log off;
            default_type text/plain;
            return 200 0123456789ab;
        }
    }
}
"""


def test_stock_is_written_to_the_byte() -> None:
    """A change of the rendered text is a change of what is compared; it does not slip in."""
    space = bind("nginx/static")
    text = render(space.template, space.baseline("stock"), space, LAB)
    assert text.startswith(STOCK)
    assert text.endswith(STOCK_HTTP)


@pytest.mark.parametrize("name", spaces())
@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("version", [(1, 18, 0), (1, 22, 1), (1, 29, 7)])
def test_every_baseline_is_rendered_alike_each_time(
    name: str, baseline: str, version: tuple[int, ...]
) -> None:
    """Ending in one line end, without blank lines in a row or blanks at a line's end."""
    space = bind(name, version)
    adapter = server(space.server)
    one, two = (adapter.export_text(space.baseline(baseline), space) for _ in "ab")
    assert one == two
    assert one.endswith("\n")
    assert "\n\n\n" not in one
    assert not [line for line in one.splitlines() if line != line.rstrip()]


def test_an_export_is_a_production_configuration() -> None:
    """Port 80, the usual paths, no trace of the lab."""
    space = bind("nginx/static")
    placement = replace(EXPORT, user="www-data")
    text = render(space.template, space.baseline("hand"), space, placement)
    written = directives(text)
    assert written["listen"] == "80 reuseport backlog=4095"
    assert written["root"] == "/var/www/html"
    assert written["pid"] == "/run/nginx.pid"
    assert written["access_log"] == "/var/log/nginx/access.log combined"
    assert written["user"] == "www-data"
    assert written["worker_cpu_affinity"] == "auto"
    assert written["worker_rlimit_nofile"] == "8192"
    assert "temp_path" not in text
    assert "tuner/live" not in text


def test_the_affinity_stays_on_the_servers_cores() -> None:
    """Plain ``auto`` would spread the workers over the generator's core too."""
    bound = {"worker_cpu_affinity": "auto"}
    assert static(bound, replace(LAB, cpu_mask="10"))["worker_cpu_affinity"] == "auto 10"
    assert static(bound)["worker_cpu_affinity"] == "auto"
    assert "worker_cpu_affinity" not in static({})


@pytest.mark.parametrize(
    ("cpus", "mask"),
    [((0,), "1"), ((1,), "10"), ((0, 2), "101"), ((3, 1), "1010"), ((9,), "1000000000")],
)
def test_a_mask_counts_from_the_right(cpus: tuple[int, ...], mask: str) -> None:
    """CPU 0 is the last digit, as nginx.org documents it."""
    assert cpu_mask(cpus) == mask


def test_trades_are_written_with_their_companions() -> None:
    """Buffer and flush of the log, and what the file cache needs."""
    log = static({"access_log_buffer": 65536, "access_log_flush": 3})
    assert log["access_log"] == "/srv/logs/access.log combined buffer=64k flush=3s"
    cache = static({"open_file_cache": 1000, "open_file_cache_min_uses": 2})
    assert cache["open_file_cache"] == "max=1000 inactive=60s"
    assert cache["open_file_cache_valid"] == "60s"
    assert cache["open_file_cache_min_uses"] == "2"


def test_inactive_parameters_are_not_written() -> None:
    """Without sendfile nothing of it; with it no output buffers."""
    without, with_it = static({"sendfile": False}), static({"sendfile": True})
    assert {"tcp_nopush", "sendfile_max_chunk"}.isdisjoint(without)
    assert "output_buffers" not in with_it
    assert (with_it["tcp_nopush"], with_it["sendfile_max_chunk"]) == ("off", "2m")


def test_the_version_comes_with_its_connection_header() -> None:
    """1.0 closes; 1.1 must not say ``close``, or nothing is kept alive."""
    old, new = proxy({}), proxy({"proxy_http_version": "1.1", "upstream_keepalive": 32})
    assert (old["proxy_http_version"], old["proxy_set_header"]) == ("1.0", "Connection close")
    assert "keepalive" not in old
    assert (new["proxy_http_version"], new["proxy_set_header"]) == ("1.1", 'Connection ""')
    assert new["keepalive"] == "32"


@pytest.mark.parametrize(("version", "written"), [((1, 29, 6), None), ((1, 29, 7), "0")])
def test_no_keepalive_is_said_where_it_is_not_the_default(
    version: tuple[int, ...], written: str | None
) -> None:
    """`keepalive 0` is written from 1.29.7 on, where 32 is the default; before, it is refused."""
    values: dict[str, Value] = {"proxy_http_version": "1.1", "upstream_keepalive": 0}
    assert proxy(values, version).get("keepalive") == written


@pytest.mark.parametrize(
    ("first", "number", "size", "busy"),
    [
        (4096, 8, 4096, "8k"),
        (28 << 10, 8, 4096, "28k"),
        (4096, 64, 65536, "128k"),
        (16384, 8, 8192, "32k"),
    ],
)
def test_the_busy_buffers_follow(first: int, number: int, size: int, busy: str) -> None:
    """Two of the largest buffer, but never more than all of them less one."""
    values: dict[str, Value] = {
        "proxy_buffer_size": first,
        "proxy_buffers_number": number,
        "proxy_buffers_size": size,
    }
    assert proxy(values)["proxy_busy_buffers_size"] == busy


def test_a_proxy_needs_something_to_stand_in_front_of() -> None:
    """A proxy needs a workload with a backend, and files refuse one."""
    space = bind("nginx/proxy")
    with pytest.raises(DefinitionError, match="needs a workload with a backend"):
        render(space.template, space.baseline("stock"), space, LAB)
    space = bind("nginx/static")
    with pytest.raises(DefinitionError, match="has no upstream"):
        render(
            space.template, space.baseline("stock"), space, replace(LAB, upstreams=("127.0.0.1:1",))
        )


MINE = """\
space: nginx/mine
server: nginx
template: mine.conf.j2
parameters:
  worker_processes: {type: integer, range: [1, 4], default: 1}
  tcp_nodelay: {type: boolean, default: on}
"""


def mine(tmp_path: Path, template: str) -> str:
    """Render a user's own template with a user's own space."""
    (tmp_path / "s.yaml").write_text(MINE, encoding="utf-8")
    (tmp_path / "mine.conf.j2").write_text(template, encoding="utf-8")
    space = load_space(str(tmp_path / "s.yaml"), connections=1, memory_bytes=1)
    return render(space.template, space.baseline("stock"), space, LAB)


def test_a_users_own_template_builds_on_the_shipped_ones(tmp_path: Path) -> None:
    """One block is enough to add a directive."""
    text = mine(
        tmp_path,
        '{% extends "nginx/_base.conf.j2" %}\n'
        "{% block http %}\n    tcp_nodelay {{ p.tcp_nodelay }};\n{% endblock %}\n"
        "{% block locations %}\n        root {{ placement.root }};\n{% endblock %}\n",
    )
    assert directives(text)["tcp_nodelay"] == "on"


def test_a_constant_is_quoted_as_any_value_is(tmp_path: Path) -> None:
    """A constant is quoted even where Jinja2 would fold it at compile time."""
    text = mine(
        tmp_path,
        "a {{ 'b c' }} {{ 'd' ~ ';' }} {{ '<' }} {{ 1 + 1 }};"
        " {{ p.worker_processes }} {{ p.tcp_nodelay }}\n",
    )
    assert text == 'a "b c" "d;" "<" 2; 1 on\n'


@pytest.mark.parametrize(
    ("template", "answer"),
    [
        ("{{ p.worker_processes }}", "template mine.conf.j2: does not write tcp_nodelay"),
        ("a\nb {{ p.tcp_nodelai }};", "mine.conf.j2:2: there is no value to write"),
        ("a\nb {{ p.tcp_nodelai }};", "of this space): b {{ p.tcp_nodelai }};"),
        ("{{ p.tcp_nodelay ~ '$' }}", "mine.conf.j2:1: 'True$' holds '$', which Nginx would"),
        ("{{ nothing }}", "mine.conf.j2:1: 'nothing' is undefined"),
        ("a\n{% if %}", "mine.conf.j2:2: Expected an expression"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{% include 'x' %}", "there is no template 'x'"),
        ("{{ p.tcp_nodelay + 'x' }}", "unsupported operand"),
        ("{{ ''.__class__.__mro__ }}", "is unsafe"),
    ],
)
def test_a_wrong_template_is_answered(tmp_path: Path, template: str, answer: str) -> None:
    """A parameter that would be searched without any effect is an error, as is what fails."""
    with pytest.raises(DefinitionError) as raised:
        mine(tmp_path, template)
    assert answer in str(raised.value)


def test_an_unknown_template_is_answered() -> None:
    """By its name."""
    space = bind("nginx/static")
    for name, answer in {"nginx/none": "there is no template", "../x": "is not a name"}.items():
        with pytest.raises(DefinitionError, match=answer):
            render(name, space.baseline("stock"), space, LAB)


def test_only_a_workload_with_a_backend_has_one() -> None:
    """A static site needs none."""
    with pytest.raises(DefinitionError, match="'static' has no backend"):
        render_backend(load_workload("static"), LAB)


def test_the_difference_reads_as_diff_writes_it() -> None:
    """The difference is one that ``patch`` applies."""
    assert unified_diff("a\nb\n", "a\nc\n", ("baseline", "tuned")) == (
        "--- baseline\n+++ tuned\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
    )
    assert unified_diff("a\n", "a\n", ("x", "y")) == ""


def wired(version: tuple[int, ...], **facts: object) -> dict[str, str]:
    """Directives of the static space under TLS, by default values, with what a version has."""
    known = SpaceFacts(
        server_cores=2,
        connections=32,
        memory_bytes=8 << 30,
        server_version=version,
        modules=("http_ssl", "http_v2", "http_v3", "threads"),
        tls=True,
        response_bytes=100 << 10,
        streams=64,
        kernel=(6, 1, 0),
        openssl=(3, 0, 15),
    )
    space = bind_space("nginx/static", replace(known, **facts))  # type: ignore[arg-type]
    protocol = space.facts.protocol
    text = render(
        "nginx/static",
        space.baseline("hand"),
        space,
        replace(LAB, tls_dir="/srv/tls", protocol=protocol),
    )
    return directives(text)


def test_tls_brings_its_own_parameters() -> None:
    """And takes sendfile's away, unless the kernel encrypts."""
    plain, kernel = wired((1, 22, 1)), wired((1, 22, 1), kernel_tls=True)
    assert plain["ssl_session_cache"] == "shared:tuner:10m"
    assert (plain["ssl_buffer_size"], plain["output_buffers"]) == ("16k", "2 32k")
    assert "sendfile" not in plain
    assert "ssl_conf_command" not in plain
    assert kernel["ssl_conf_command"] == "Options -KTLS"
    assert "ssl_conf_command" not in wired((1, 21, 3), kernel_tls=True)


def test_http2_brings_its_own_parameters() -> None:
    """Those that were taken out of Nginx are not among them."""
    written = wired((1, 22, 1), protocol="http2")
    assert written["http2_chunk_size"] == "8k"
    assert written["http2_max_concurrent_streams"] == "128"
    assert not {"http2_max_requests", "http2_idle_timeout"} & written.keys()
    assert "http2_chunk_size" not in wired((1, 22, 1))


@pytest.mark.parametrize(
    ("version", "gso"), [((1, 25, 1), None), ((1, 25, 2), "off"), ((1, 29, 7), "off")]
)
def test_http3_brings_its_own_parameters(version: tuple[int, ...], gso: str | None) -> None:
    """QUIC needs reuseport, so that is nothing to choose; kernel TLS is not for it."""
    written = wired(version, protocol="http3", kernel_tls=True)
    assert written["http3_stream_buffer_size"] == "64k"
    assert written["http3_max_concurrent_streams"] == "128"
    assert written.get("quic_gso") == gso
    assert not {"sendfile", "ssl_conf_command", "http2_chunk_size"} & written.keys()


def test_http3_is_left_out_where_it_is_not_built_in() -> None:
    """Before 1.25, or without the module."""
    for facts in ({"version": (1, 22, 1)}, {"version": (1, 29, 7), "modules": ("http_ssl",)}):
        assert not any(name.startswith("http3") for name in wired(**facts, protocol="http3"))


def test_large_files_may_be_read_by_threads() -> None:
    """With a pool of its own, and postponed output under TLS."""
    space = bind_space(
        "nginx/static",
        SpaceFacts(2, 32, 8 << 30, (1, 22, 1), ("threads",), response_bytes=1 << 20),
    )
    chosen = space.complete(
        {"aio": "threads", "thread_pool_threads": 16, "directio": 1 << 20}, space.baseline("stock")
    )
    written = directives(render("nginx/static", chosen, space, LAB))
    assert written["thread_pool"] == "default threads=16"
    assert (written["aio"], written["directio"]) == ("threads", "1m")


def test_past_the_page_cache_files_pass_through_buffers() -> None:
    """Since directio turns sendfile off; with sendfile alone the buffers mean nothing."""
    space = bind_space(
        "nginx/static", SpaceFacts(2, 32, 8 << 30, (1, 22, 1), (), response_bytes=1 << 20)
    )
    hand = space.baseline("hand")
    assert "output_buffers_size" not in hand.values
    chosen = space.complete({"directio": 1 << 20, "output_buffers_size": 65_536}, hand)
    assert directives(render("nginx/static", chosen, space, LAB))["output_buffers"] == "2 64k"


def test_a_proxy_may_go_without_buffers() -> None:
    """The buffer for the header stays, with as much busy as Nginx takes."""
    written = proxy({"proxy_buffering": False, "proxy_buffer_size": 28 << 10})
    assert (written["proxy_buffering"], written["proxy_buffer_size"]) == ("off", "28k")
    assert written["proxy_busy_buffers_size"] == "28k"
    assert "proxy_buffers" not in written
