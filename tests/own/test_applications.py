"""Parameters of FastCGI, uwsgi, SCGI and gRPC are found where they stand, and changed there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.own.test_table import found, space, tuned
from tuner.own.bound import BoundSpace
from tuner.own.nginx.scripts import scripts
from tuner.own.nginx.serving import NginxServing, servers, serving
from tuner.own.nginx.table import bind
from tuner.own.nginx.tree import parse
from tuner.space.space import Space, bind_space
from tuner.workload.workload import BackendProtocol


def proxy_of(*upstream: BackendProtocol) -> Space:
    """Return the space of proxies whose upstreams speak these protocols."""
    base = space("proxy").facts
    return bind_space("nginx/proxy", replace(base, upstream=upstream, response_bytes=1 << 20))


def main(http: str) -> str:
    """Return a main file."""
    return f"events {{}}\nhttp {{\n{http}}}\n"


def reached_by(folder: Path, *paths: str) -> NginxServing:
    """Return what a workload of several paths reaches."""
    tree = parse(folder / "nginx.conf")
    return serving(tree, paths, server_name="", tls=False, proxied=True)


def bound_by(folder: Path, protocol: BackendProtocol, http: str) -> tuple[NginxServing, BoundSpace]:
    """Write a main file with these lines; return what a request reaches, and its parameters."""
    (folder / "nginx.conf").write_text(main(http))
    reached = found(folder, "/x", proxied=True)
    return reached, bind(proxy_of(protocol), reached)


def names(of: Space) -> set[str]:
    """Return the names of a space's parameters."""
    return {parameter.name for parameter in of.parameters}


@pytest.mark.parametrize("protocol", ["fastcgi", "uwsgi", "scgi", "grpc"])
def test_parameters_are_searched_where_their_protocol_is_spoken(protocol: BackendProtocol) -> None:
    """A proxy over HTTP has none of them, and their own space none of the others."""
    http, own = names(proxy_of("http")), names(proxy_of(protocol))
    assert f"{protocol}_buffer_size" in own - http
    assert "proxy_buffer_size" in http - own
    for other in {"fastcgi", "uwsgi", "scgi", "grpc"} - {protocol}:
        assert not {name for name in own if name.startswith(f"{other}_")}


def test_what_applications_may_suffer_from_is_a_trade() -> None:
    """Kept connections and stale pages are searched only with --allow, and say why."""
    known = {parameter.name: parameter for parameter in proxy_of("fastcgi", "uwsgi").parameters}
    for name in ("keep_conn", "keepalive", "cache_lock", "cache_background_update", "buffering"):
        assert known[f"fastcgi_{name}"].trades, name
    for name in ("cache_lock", "cache_background_update", "buffering"):
        assert known[f"uwsgi_{name}"].trades, name


def test_buffers_of_a_location_are_changed_with_the_size_that_must_fit(tmp_path: Path) -> None:
    """Nginx would refuse the compiled-in one, as for a proxy over HTTP."""
    reached, bound = bound_by(
        tmp_path,
        "fastcgi",
        "    fastcgi_buffers 16 16k;\n"
        "    server { listen 80;\n"
        "        location / {\n            fastcgi_pass app:9000;\n        }\n    }\n",
    )
    assert bound.baseline.values["fastcgi_buffers_number"] == 16
    _, texts = tuned(
        tmp_path,
        bound,
        reached,
        fastcgi_buffers_number=8,
        fastcgi_buffers_size=4096,
        fastcgi_buffer_size=24576,
    )
    text = texts["nginx.conf"]
    assert "    fastcgi_buffers 8 4k;\n" in text
    assert "fastcgi_buffer_size 24k;\n" in text
    assert "fastcgi_busy_buffers_size 28k;\n" in text


def test_fastcgi_keeps_connections_by_two_settings(tmp_path: Path) -> None:
    """The upstream keeps them, and the application is asked to."""
    reached, bound = bound_by(
        tmp_path,
        "fastcgi",
        "    upstream php {\n        server unix:/run/php.sock;\n    }\n"
        "    server { listen 80;\n"
        "        location / {\n            fastcgi_pass php;\n        }\n    }\n",
    )
    assert bound.baseline.values["fastcgi_keep_conn"] is False
    _, texts = tuned(tmp_path, bound, reached, fastcgi_keep_conn=True, fastcgi_keepalive=8)
    assert "server unix:/run/php.sock;\n        keepalive 8;\n    }" in texts["nginx.conf"]
    assert "fastcgi_pass php;\n            fastcgi_keep_conn on;\n" in texts["nginx.conf"]


def test_an_address_gets_an_upstream_block_once(tmp_path: Path) -> None:
    """Two locations that pass to one address share it; a socket's path makes a name too."""
    (tmp_path / "nginx.conf").write_text(
        main(
            "    server {\n        listen 80;\n"
            "        location /a { fastcgi_pass unix:/run/php.sock; }\n"
            "        location / { fastcgi_pass unix:/run/php.sock; }\n    }\n"
        )
    )
    reached = reached_by(tmp_path, "/a", "/x")
    bound = bind(proxy_of("fastcgi"), reached)
    _, texts = tuned(tmp_path, bound, reached, fastcgi_keep_conn=True, fastcgi_keepalive=4)
    text = texts["nginx.conf"]
    assert text.count("upstream kept_unix__run_php_sock {") == 1
    assert text.count("server unix:/run/php.sock;") == 1
    assert text.count("fastcgi_pass kept_unix__run_php_sock;") == 2


def test_a_grpc_server_hears_its_own_name_from_a_new_block(tmp_path: Path) -> None:
    """Nginx makes :authority of the address."""
    reached, bound = bound_by(
        tmp_path,
        "grpc",
        "    server {\n        listen 80 http2;\n"
        "        location / {\n            grpc_pass grpc://10.0.0.1:50051;\n        }\n    }\n",
    )
    _, texts = tuned(tmp_path, bound, reached, grpc_keepalive=64, grpc_buffer_size=16384)
    text = texts["nginx.conf"]
    block = "upstream kept_10_0_0_1_50051 {\n        server 10.0.0.1:50051;\n        keepalive 64;"
    assert block in text
    assert "grpc_pass grpc://kept_10_0_0_1_50051;\n" in text
    assert "grpc_set_header Host 10.0.0.1:50051;\n" in text
    assert "grpc_buffer_size 16k;\n" in text


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("grpc_pass grpcs://10.0.0.1:443;", "which is not an address in cleartext"),
        ("set $to 10.0.0.1:1; grpc_pass $to;", "which is another for each request"),
        ("grpc_pass 10.0.0.1:1; } grpc_set_header X y; if ($no) {", "headers are set outside"),
    ],
)
def test_connections_stay_as_they_are_where_a_block_would_show(
    location: str, reason: str, tmp_path: Path
) -> None:
    """The reason and the way out stand in the notes."""
    (tmp_path / "nginx.conf").write_text(
        main(f"    server {{ listen 80; location / {{ {location} }} }}\n")
    )
    bound = bind(proxy_of("grpc"), found(tmp_path, "/x", proxied=True))
    assert reason in dict(bound.space.left_out)["grpc_keepalive"]
    assert "grpc_buffer_size" in names(bound.space)


def test_a_cache_is_updated_in_the_background_where_there_is_one(tmp_path: Path) -> None:
    """The update adds `updating` to the stale answers that are allowed; no cache is added."""
    http = (
        "    fastcgi_cache_path /var/cache/app keys_zone=app:10m;\n"
        "    server { listen 80;\n"
        "        location / {\n            fastcgi_pass php:9000;\n CACHE        }\n    }\n"
    )
    cache = "            fastcgi_cache app;\n            fastcgi_cache_use_stale error timeout;\n"
    (tmp_path / "nginx.conf").write_text(main(http.replace(" CACHE", cache)))
    reached = found(tmp_path, "/x", proxied=True)
    bound = bind(proxy_of("fastcgi"), reached)
    values = {"fastcgi_cache_lock": True, "fastcgi_cache_background_update": True}
    _, texts = tuned(tmp_path, bound, reached, **values)
    text = texts["nginx.conf"]
    assert "fastcgi_cache_use_stale error timeout updating;\n" in text
    assert "fastcgi_cache_background_update on;\n" in text
    assert "fastcgi_cache_lock on;\n" in text
    (tmp_path / "nginx.conf").write_text(main(http.replace(" CACHE", "")))
    without = bind(proxy_of("fastcgi"), found(tmp_path, "/x", proxied=True))
    assert "has no fastcgi_cache" in dict(without.space.left_out)["fastcgi_cache_lock"]


def test_locations_of_several_protocols_have_the_parameters_of_each(tmp_path: Path) -> None:
    """A parameter is set where its protocol is spoken, and nowhere else."""
    (tmp_path / "nginx.conf").write_text(
        main(
            "    server { listen 80;\n"
            "        location /api { proxy_pass http://10.0.0.1; }\n"
            "        location / { uwsgi_pass 10.0.0.2:9; }\n    }\n"
        )
    )
    reached = reached_by(tmp_path, "/api", "/x")
    bound = bind(proxy_of("http", "uwsgi"), reached)
    _, texts = tuned(tmp_path, bound, reached, uwsgi_buffer_size=8192, proxy_buffering=False)
    api, rest = texts["nginx.conf"].split("location / {")
    assert "proxy_buffering off;" in api
    assert "uwsgi" not in api
    assert "uwsgi_buffer_size 8k;" in rest
    assert "proxy" not in rest


@pytest.mark.parametrize(
    ("text", "paths", "wanted"),
    [
        ("location / { try_files $uri /index.php?$args; }", ["/a"], {"/index.php"}),
        ("index index.php index.html;", ["/"], {"/index.php"}),
        ("location / { rewrite ^ /app/front.php last; }", ["/a"], {"/app/front.php"}),
        ("location / { fastcgi_pass a:1; }", ["/x/run.php/rest?y.php"], {"/x/run.php"}),
        ("location / { fastcgi_pass a:1; }", ["/b.cgi"], {"/b.cgi"}),
        ("location / { proxy_pass http://a; }", ["/page.html", "/a.phpx"], set()),
        ("location / { try_files /../secret.php =404; }", ["/a"], set()),
    ],
)
def test_scripts_that_nginx_may_look_for(
    text: str, paths: list[str], wanted: set[str], tmp_path: Path
) -> None:
    """They are requested, or named by the server; nothing outside of the root is."""
    (tmp_path / "nginx.conf").write_text(main(f"server {{ {text} }}\n"))
    (server,) = servers(parse(tmp_path / "nginx.conf").http())
    assert set(scripts(server, paths)) == wanted
