"""Whole configurations of known products, condensed anew, with what tuner says of each.

The texts are ours, in ``products/``: the structure and the particular settings of each product's
own guide or package. A line ``# === PATH`` begins a further file. A text of Nginx without ``http``
is a site of a copied folder with the usual main file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path(__file__).with_name("products")
_FILE = re.compile(r"^# === (\S+)\n", re.MULTILINE)
_MAIN = """\
user www-data;
worker_processes auto;
pid /run/nginx.pid;
include /etc/nginx/modules-enabled/*.conf;
events { worker_connections 768; }
http {
    sendfile on;
    tcp_nopush on;
    types_hash_max_size 2048;
    include /etc/nginx/mime.types;
    default_type application/octet-stream;
    access_log /var/log/nginx/access.log;
    error_log /var/log/nginx/error.log;
    include /etc/nginx/conf.d/*.conf;
    include /etc/nginx/sites-enabled/*;
}
"""
_SHIPPED = {
    "mime.types": "types { text/html html; text/css css; application/javascript js; }\n",
    "fastcgi_params": "fastcgi_param QUERY_STRING $query_string;\n",
}


@dataclass(frozen=True)
class Product:
    """The expectations of one configuration."""

    workload: str = "proxy"
    """The workload that is tried first."""
    said: tuple[str, ...] = ()
    """Parts of its notes."""
    not_said: tuple[str, ...] = ()
    """Parts that no note has."""
    ways: tuple[str, ...] = ()
    """Options of the refusals, in the order in which they are followed."""
    values: Mapping[str, object] | None = None
    """Values of the baseline."""


def nginx_files(name: str) -> dict[str, str]:
    """Return the files of a copied folder, by path; the main file is ``nginx.conf``."""
    found = _files(f"nginx/{name}.conf", "")
    text = found.pop("")
    if "nginx.conf" in found:
        return found
    return {"nginx.conf": _MAIN, f"sites-enabled/{name}": text, **_SHIPPED, **found}


def caddy_files(name: str) -> dict[str, str]:
    """Return the files of a folder, by path; the main file is ``Caddyfile``."""
    return _files(f"caddy/{name}.caddyfile", "Caddyfile")


def _files(name: str, first: str) -> dict[str, str]:
    text, *parts = _FILE.split((_FOLDER / name).read_text())
    return {first: text, **dict(zip(parts[::2], parts[1::2], strict=True))}


_TYPES = "--prefix /etc/nginx/mime.types=/etc/nginx/mime.types"
NGINX: Mapping[str, Product] = {
    "nextcloud": Product(said=("use TLS", "root /var/www/nextcloud", "stands behind php-handler")),
    "wordpress": Product(said=("stands behind",), not_said=("if ($request_method",)),
    "mattermost": Product(values={"upstream_keepalive": 32, "proxy_buffers_number": 256}),
    "mastodon": Product(values={"proxy_http_version": "1.1", "gzip": True}),
    "gitlab": Product(said=("stands behind gitlab-workhorse",), values={"gzip": False}),
    "discourse": Product(
        said=("limit_conn connperip 20 is not carried over", "stands behind forum"),
        values={"gzip": True},
    ),
    "matomo": Product(ways=("--workload static",), said=("ssl_dhparam",)),
    "peertube": Product(
        said=("ssl_stapling on is not carried over", "stands behind backend"),
        values={"access_log_buffer": 65536},
    ),
    "moodle": Product(ways=("--location /index.php",), said=("stands behind 127.0.0.1:9000",)),
    "odoo": Product(said=("stands behind odoo",), values={"proxy_http_version": "1.0"}),
    "grafana": Product(ways=("--location /grafana/",)),
    "jellyfin": Product(
        ways=("--prefix /etc/letsencrypt=FOLDER",), said=("stands behind $jellyfin:8096",)
    ),
    "home-assistant": Product(values={"proxy_buffering": False}),
    "ingress": Product(
        said=(
            "init_by_lua_block {…} is not carried over",
            "stream is not carried over",
            "stands behind upstream_balancer",
        ),
        values={"upstream_keepalive": 320, "worker_processes": 2},
    ),
    "h5bp": Product(
        "static", said=("root /var/www/site.example/public",), values={"gzip_comp_level": 5}
    ),
    "authelia": Product(said=("stands behind $upstream",)),
    "vaultwarden": Product(
        said=("stands behind vault",),
        not_said=("allow 192.168",),
        values={"upstream_keepalive": 2},
    ),
    "gitea": Product(said=("stands behind localhost:3000",)),
    "harbor": Product(said=("access_log /dev/stdout", "stands behind core")),
    "sentry": Product(
        ways=(_TYPES,),
        said=("stands behind sentry",),
        values={"upstream_keepalive": 2, "proxy_buffers_number": 4},
    ),
    "synapse": Product(ways=("--workload static",), said=("root /var/www/element",)),
    "jitsi": Product(ways=("--workload static",)),
    "collabora": Product(ways=("--location /browser",), said=("is asked in cleartext",)),
    "onlyoffice": Product(ways=("--location /ds-vpath/",)),
    "netbox": Product(said=("stands behind 127.0.0.1:8001",)),
    "swag": Product(
        ways=(f"{_TYPES} --prefix /etc/nginx/fastcgi_params=/etc/nginx/fastcgi_params",),
        said=("is read for /config/nginx", "stands behind 127.0.0.1:9000"),
        values={"worker_processes": 4},
    ),
    "minio": Product(said=("stands behind minio_s3",), values={"proxy_buffering": False}),
    "jenkins": Product(values={"upstream_keepalive": 32, "sendfile": False}),
    "redmine": Product(said=("stands behind thins",)),
    "django": Product(said=("stands behind",)),
    "drupal": Product(said=("stands behind",)),
    "prometheus": Product(ways=("--location /prometheus/",), said=("auth_basic Monitoring",)),
    "generated": Product(said=("stands behind app.example",)),
    "plus": Product(
        said=(
            "server a.internal:8080 resolve service=http slow_start=30s max_conns=200 is changed",
            "health_check uri=/health match=ok is not carried over",
        ),
    ),
    "single-page": Product(said=("stands behind ${API_HOST}:${API_PORT}",), values={"gzip": True}),
}
CADDY: Mapping[str, Product] = {
    "nextcloud": Product(said=("stands behind unix//run/php/php-fpm.sock",)),
    "wordpress": Product(said=("stands behind 127.0.0.1:9000",)),
    "vaultwarden": Product(said=("stands behind localhost:8000",)),
    "home": Product(said=("ha.home.example is served",)),
    "authelia": Product(said=("stands behind authelia:9091",)),
    "monitoring": Product(
        ways=("--location /grafana/",), said=("the workload comes from another address",)
    ),
    "synapse": Product(said=("stands behind localhost:8008",)),
    "mastodon": Product(said=("stands behind 127.0.0.1:3000",)),
    "plane": Product(ways=("--env-file FILE",), said=("stands behind api:8000",)),
    "single-page": Product(ways=("--location /backend/",), said=("stands behind app:3000",)),
    "storage": Product(said=("is asked in cleartext", "needs no checks")),
    "sites": Product(said=("stands behind unix//run/gitea", "a file is written")),
    "frontend": Product(said=("it turns the requests of the workload away",)),
    "path-only": Product(ways=("--location /v2/",), said=("stands behind app:1",)),
}
