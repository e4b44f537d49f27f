"""Configurations of HAProxy as people have them.

Their settings and structure are those of Debian's package, of HAProxy's own examples for an edge
proxy and for content switching, and of guides for Nextcloud, CouchDB, rate limits and blue-green
deployments. The texts are ours.

``@DIR@`` is the configuration's folder, ``@PORT@`` where it listens, ``@PLAIN@`` another port, and
``@BACK@`` the port behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import dedent

SHORT = """\
defaults
    mode http
    timeout connect 5s
    timeout client 50s
    timeout server 50s
"""


@dataclass(frozen=True)
class Case:
    """One configuration."""

    text: str
    tls: bool = False
    left_out: frozenset[str] = frozenset()
    """Parameters that stay as the user has them."""
    notes: tuple[str, ...] = ()
    """Beginnings of the lab's notes, after ``haproxy.cfg:LINE: ``."""
    files: Mapping[str, str] = field(default_factory=dict)
    name: str = "haproxy.cfg"
    host: str = ""
    proxied: bool = True
    paths: tuple[str, ...] = ("/api/orders/b3f1c2a4", "/", "/api/x?y=1", "/static/style.css")

    def texts(self) -> dict[str, str]:
        """Return the files by their path."""
        return {self.name: dedent(self.text), **self.files}


CASES = {
    "the least": Case(
        SHORT
        + """\
frontend web
    bind 127.0.0.1:@PORT@
    default_backend app
backend app
    server one 127.0.0.1:@BACK@
"""
    ),
    "as Debian packages it": Case(
        """\
        global
        \tlog /dev/log\tlocal0
        \tlog /dev/log\tlocal1 notice
        \tstats timeout 30s
        \tdaemon
        \tssl-default-bind-options ssl-min-ver TLSv1.2 no-tls-tickets

        defaults
        \tlog\tglobal
        \tmode\thttp
        \toption\thttplog
        \toption\tdontlognull
                timeout connect 5000
                timeout client  50000
                timeout server  50000

        frontend shop
        \tbind 127.0.0.1:@PORT@   # the shop's
        \tuse_backend api if { path_beg /api }
        \tdefault_backend static

        backend api
        \tserver api1 127.0.0.1:@BACK@ check inter 2s maxconn 500

        backend static
        \tserver web1 127.0.0.1:@BACK@ maxconn 500
        """
    ),
    "an edge proxy": Case(
        """\
        global
            nbthread 1          # as on the old machine
            tune.maxaccept 100
            tune.ssl.cachesize 100000

        defaults web
            mode http
            option forwardfor
            timeout client 60s
            timeout server 60s
            timeout connect 1s
            timeout http-keep-alive 5s

        frontend plain from web
            bind 127.0.0.1:@PLAIN@
            redirect scheme https code 301

        frontend edge from web
            bind 127.0.0.1:@PORT@ ssl crt @DIR@/site.pem alpn h2,http/1.1
            http-response set-header Strict-Transport-Security "max-age=31536000"
            http-request set-header X-Proto https
            default_backend app

        backend app from web
            http-reuse always
            default-server maxconn 100 check
            server one 127.0.0.1:@BACK@
            server two 127.0.0.1:@BACK@ weight 3
        """,
        tls=True,
        notes=("frontend edge is served; another one is not", "crt is the lab's own certificate"),
    ),
    "content switching": Case(
        """\
        defaults
            mode http
            balance roundrobin
            timeout connect 5s
            timeout client 50s
            timeout server 50s
            option http-server-close
        listen stats
            bind 127.0.0.1:@PLAIN@
            stats uri /
        frontend public
            bind 127.0.0.1:@PORT@
            acl is_static path_beg /static
            http-request deny deny_status 404 if { path /secret }
            use_backend files if is_static
            default_backend app
        backend files
            balance roundrobin
            option httpchk GET /favicon.ico
            server s1 127.0.0.1:@BACK@ check
        backend app
            balance leastconn
            cookie SERVER insert indirect nocache
            server a1 127.0.0.1:@BACK@ cookie a1 check
        """,
        left_out=frozenset({"balance"}),
        notes=("frontend public is served; another one is not", "option httpchk is not carried"),
    ),
    "a listen section": Case(
        SHORT
        + """\
listen couch
    bind 127.0.0.1:@PORT@ backlog 2048
    balance uri depth 2
    option http-no-delay
    server one 127.0.0.1:@BACK@ pool-max-conn 4 pool-purge-delay 10s
    server two 127.0.0.1:@BACK@ pool-max-conn 4 pool-purge-delay 10s
""",
        left_out=frozenset({"balance"}),
    ),
    "limits of rates": Case(
        """\
        global
            maxconn 2000
            stats socket @DIR@/run/admin.sock mode 660 level admin
        peers mine
            peer here 127.0.0.1:@PLAIN@
        defaults
            mode http
            timeout connect 5s
            timeout client 50s
            timeout server 50s
        frontend web
            bind 127.0.0.1:@PORT@ maxconn 1000
            stick-table type ip size 100k expire 30s store http_req_rate(10s)
            http-request track-sc0 src
            http-request deny deny_status 429 if { sc_http_req_rate(0) gt 1000000 }
            http-request set-var(txn.path) path
            default_backend app
        backend app
            stick-table type ip size 10k
            http-response set-header X-Path %[var(txn.path)]
            server one 127.0.0.1:@BACK@ maxconn 50
        """,
        notes=("maxconn is not carried over",),
    ),
    "blue and green": Case(
        """\
        global
            setenv COLOUR blue
            tune.bufsize 32768
        defaults
            mode http
            timeout connect 5s
            timeout client 1m
            timeout server 1m
            option http-keep-alive
        frontend web
            bind "127.0.0.1:@PORT@"
            http-request set-header X-Colour "${COLOUR} one"
            http-request set-header X-Words 'a "b" #c'
            use_backend %[env(COLOUR)]
        backend blue
            server one 127.0.0.1:@BACK@
        backend green
            server one 127.0.0.1:@BACK@ disabled
        """
    ),
    "everything closed": Case(
        SHORT
        + """\
    option httpclose
frontend web
    bind 127.0.0.1:@PORT@
    default_backend app
backend app
    http-reuse never
    server one 127.0.0.1:@BACK@ ssl verify none
""".replace(" ssl verify none", ""),
        left_out=frozenset(
            {
                *("http_connection_mode", "pool_max_conn", "pool_low_conn", "pool_purge_delay"),
                *("tune_idle_pool_shared", "tune_pool_low_fd_ratio"),
            }
        ),
    ),
    "its own pages of errors": Case(
        SHORT
        + """\
    errorfile 503 @DIR@/503.http
frontend web
    bind 127.0.0.1:@PORT@,127.0.0.1:@PLAIN@
    http-request return status 200 content-type text/plain string pong if { path /ping }
    http-request deny deny_status 503 if { path /busy }
    default_backend app
backend app
    server one 127.0.0.1:@BACK@
""",
        files={"503.http": "HTTP/1.1 503 Busy\r\nContent-Length: 5\r\n\r\nbusy\n"},
        paths=("/ping", "/busy", "/api/orders/b3f1c2a4"),
    ),
    "a proxy over TLS alone": Case(
        """\
        global
            ssl-default-bind-curves X25519:P-256
            tune.idletimer 2s
            tune.ssl.maxrecord 1419
        defaults
            mode http
            timeout connect 5s
            timeout client 50s
            timeout server 50s
        frontend https-in
            bind 127.0.0.1:@PORT@ ssl crt @DIR@/site.pem strict-sni ssl-min-ver TLSv1.2
            compression algo gzip
            compression type text/plain
            default_backend cloud
        backend cloud
            http-request set-header X-Forwarded-Proto https if { ssl_fc }
            server app 127.0.0.1:@BACK@ check observe layer7
        """,
        tls=True,
        left_out=frozenset({"curves"}),
        notes=("crt is the lab's own certificate",),
    ),
}
