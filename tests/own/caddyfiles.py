"""Configurations of Caddy with the settings and the structure of well-known ones.

The settings are those of Caddy's own packages and site, and of the deployment files of Mathesar,
Plane, Nextcloud AIO, Stoat, Hoppscotch, dockprom, Authelia's guides, n8n, and of applications with
a page next to their API. The texts are ours.

``@DIR@`` is the configuration's folder, ``@PORT@`` where it listens, ``@PLAIN@`` another port,
``@BACK@`` the port behind it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import dedent

from tuner.machine.facts import ServerFacts
from tuner.servers import caddy

API = ("/api/orders/b3f1c2a4", "/api/x?y=1")
FILES = ("/index.html", "/", "/style.css", "/missing")


@functools.cache
def here() -> ServerFacts:
    """Return the Caddy of this machine, asked once."""
    return caddy.detect()


@dataclass(frozen=True)
class Case:
    """One configuration."""

    text: str
    proxied: bool = False
    tls: bool = False
    host: str = ""
    """Host that requests name; empty: the address."""
    files: Mapping[str, str] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    """Parameters that stay as the user has them."""
    name: str = "Caddyfile"
    extra: tuple[str, ...] = ()
    """Further paths."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths that the workload requests."""
        return (*(API if self.proxied else FILES), *self.extra)

    def texts(self) -> dict[str, str]:
        """Return the files by their path."""
        return {
            self.name: dedent(self.text),
            **{name: dedent(text) for name, text in self.files.items()},
        }


CASES: Mapping[str, Case] = {
    "package": Case(
        text="""\
        # One site for every host.
        :@PORT@ {
        \t# Set this path to your site's directory.
        \troot * @DIR@/www

        \tfile_server
        \t# reverse_proxy localhost:8080
        }
        """
    ),
    "site without braces": Case(
        text="""\
        :@PORT@

        root * @DIR@/www
        file_server
        templates
        redir   /old   /old/
        rewrite /guide/* /index.html
        reverse_proxy /api/* localhost:@BACK@
        """,
        extra=("/guide/x", "/old"),
    ),
    "site without braces, its API": Case(
        proxied=True,
        text="""\
        :@PORT@

        root * @DIR@/www
        file_server
        templates
        reverse_proxy /api/* localhost:@BACK@
        """,
    ),
    "Mathesar": Case(
        proxied=True,
        text="""\
        :@PORT@ {
        \tlog {
        \t\toutput stdout
        \t}
        \trespond /health-check 200
        \tencode zstd gzip
        \thandle_path /media/* {
        \t\t@downloads query dl=*
        \t\theader @downloads Content-disposition "attachment; filename={query.dl}"
        \t\tfile_server {
        \t\t\tprecompressed br zstd gzip
        \t\t\troot {$TUNER_NOT_SET:@DIR@/www}
        \t\t}
        \t}
        \treverse_proxy 127.0.0.1:@BACK@
        }
        """,
        extra=("/health-check",),
    ),
    "Plane": Case(
        proxied=True,
        host="plane.test",
        text="""\
        (proxies) {
        \trequest_body {
        \t\tmax_size 5MB
        \t}
          redir /spaces /spaces/ permanent
        \treverse_proxy /spaces/* 127.0.0.1:@PLAIN@
        \treverse_proxy /api/* 127.0.0.1:@BACK@
        \treverse_proxy /* 127.0.0.1:@PLAIN@
        }

        {
        \tauto_https off
        \tservers {
        \t\tmax_header_size 25MB
        \t\tclient_ip_headers X-Forwarded-For X-Real-IP
        \t\ttrusted_proxies static 0.0.0.0/0
        \t}
        }

        http://plane.test:@PORT@ {
        \timport proxies
        }

        http://other.test:@PORT@ {
        \timport proxies
        }
        """,
        extra=("/spaces",),
    ),
    "Nextcloud": Case(
        proxied=True,
        host="cloud.test",
        text="""\
        {
            auto_https disable_redirects

            storage file_system {
                root @DIR@/data
            }

            servers {
                # nothing yet
            }

            log {
                level ERROR
            }
        }

        http://other.test:@PORT@,
        http://cloud.test:@PORT@ {
            header -Server

            # the office
            route /browser/* {
                reverse_proxy 127.0.0.1:@PLAIN@
            }
            route /push/* {
                uri strip_prefix /push
                reverse_proxy 127.0.0.1:@PLAIN@
            }
            route {
                header Strict-Transport-Security max-age=31536000;
                reverse_proxy 127.0.0.1:@BACK@   # Apache
            }
            redir /.well-known/carddav /remote.php/dav/ 301
        }
        """,
        extra=("/.well-known/carddav",),
    ),
    "Stoat": Case(
        proxied=True,
        host="chat.test",
        text="""\
        http://chat.test:@PORT@ {
        \troute /api* {
        \t\turi strip_prefix /api
        \t\treverse_proxy http://127.0.0.1:@BACK@ {
        \t\t\theader_down Location "^/" "/api/"
        \t\t}
        \t}
        \troute /ws {
        \t\turi strip_prefix /ws
        \t\treverse_proxy http://127.0.0.1:@PLAIN@
        \t}
        \treverse_proxy http://127.0.0.1:@PLAIN@
        }
        """,
    ),
    "Hoppscotch, a port for each": Case(
        proxied=True,
        text="""\
        {
        \tadmin off
        \tpersist_config off
        }

        :@PLAIN@ {
        \ttry_files {path} /
        \troot * @DIR@/www
        \tfile_server
        }

        :@PORT@ {
        \t@mock {
        \t\theader_regexp host Host ^[^.]+\\.mock\\..*$
        \t}

        \thandle @mock {
        \t\trewrite * /mock{uri}
        \t\treverse_proxy localhost:@BACK@
        \t}

        \thandle {
        \t\treverse_proxy localhost:@BACK@
        \t}
        }
        """,
    ),
    "Hoppscotch, a path for each": Case(
        text="""\
        :@PORT@ {
        \troot * @DIR@/www
        \tfile_server
        \thandle_path /backend* {
        \t\t@mock host *.mock.*
        \t\thandle @mock {
        \t\t\trewrite * /mock{path}
        \t\t\treverse_proxy localhost:@BACK@
        \t\t}
        \t\thandle {
        \t\t\treverse_proxy localhost:@BACK@
        \t\t}
        \t}
        \thandle {
        \t\troot * @DIR@/www
        \t\tfile_server
        \t\ttry_files {path} /
        \t}
        }
        """,
    ),
    "dockprom": Case(
        proxied=True,
        text="""\
        {
            admin off
        }
        :@PORT@ {
            basic_auth /secret/* {
                bob $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG
            }

            reverse_proxy 127.0.0.1:@BACK@
        }

        :@PLAIN@ {
            reverse_proxy 127.0.0.1:@BACK@
        }""",
    ),
    "Authelia": Case(
        proxied=True,
        host="app.test",
        text="""\
        {
                auto_https off
                servers {
                        trusted_proxies static \\
         173.245.48.0/20 \\
         103.21.244.0/22

                        trusted_proxies_strict
                }
        }

        (auth) {
                forward_auth 127.0.0.1:@BACK@ {
                        uri /api/authz/forward-auth
                        copy_headers \\
         Remote-User \\
         Remote-Groups
                }
        }
        http://auth.test:@PORT@ {
                reverse_proxy 127.0.0.1:@PLAIN@
        }

        http://app.test:@PORT@ {
                import auth
                reverse_proxy 127.0.0.1:@BACK@ {
                }
        }
        """,
    ),
    "n8n, over TLS": Case(
        proxied=True,
        tls=True,
        host="localhost",
        text="""\
        {
        \tauto_https off
        }
        https://localhost:@PORT@ {
        \tencode gzip zstd
        \theader {
        \t\tStrict-Transport-Security "max-age=31536000; includeSubDomains; preload"
        \t\tX-Frame-Options "DENY"
        \t}
        \ttls @DIR@/cert.pem @DIR@/key.pem {
        \t\tcurves x25519
        \t}
        \treverse_proxy localhost:@BACK@
        }""",
    ),
    "page beside its API": Case(
        host="shop.test",
        text="""\
        http://shop.test:@PORT@ {
        \tencode zstd gzip

        \t@api path /api* /health
        \thandle @api {
        \t\treverse_proxy 127.0.0.1:@BACK@
        \t}
        \thandle {
        \t\troot * @DIR@/www
        \t\ttry_files {path} {path}/ /index.html
        \t\tfile_server
        \t}
        }
        http://www.shop.test:@PORT@ {
        \tredir https://shop.test{uri} permanent
        }
        """,
        extra=("/some/where",),
    ),
    "two that take turns": Case(
        proxied=True,
        host="blue.test",
        left_out=frozenset(("encode_zstd_level",)),
        text="""\
        http://blue.test:@PORT@ {
        \theader ?X-Content-Type-Options nosniff
        \treverse_proxy 127.0.0.1:@BACK@ localhost:@BACK@ {
        \t\tlb_policy round_robin
        \t\thealth_uri /health
        \t\thealth_interval 1s
        \t\tfail_duration 10s
        \t\tlb_try_duration 30s
        \t\tlb_try_interval 250ms
        \t\tflush_interval -1
        \t\ttransport http {
        \t\t\tread_timeout 24h
        \t\t\tkeepalive 30s
        \t\t\tkeepalive_idle_conns 10
        \t\t}
        \t}
        \tencode gzip
        \tlog {
        \t\toutput file @DIR@/run/access.log {
        \t\t\troll_size 10MB
        \t\t\troll_keep_for 720h
        \t\t}
        \t\tformat console
        \t}
        }
        """,
    ),
    "several files": Case(
        proxied=True,
        host="app.test",
        text="""\
        {
        \tadmin off
        }
        import snippets/*.caddy
        import @DIR@/sites/*
        """,
        files={
            "snippets/logs.caddy": """\
            (logs) {
            \tlog {
            \t\toutput file @DIR@/run/{args[0]}.log
            \t}
            }
            """,
            "sites/app": """\
            http://app.test:@PORT@ {
                import logs app
                import ../proxy.caddy
            }
            """,
            "proxy.caddy": "reverse_proxy 127.0.0.1:@BACK@ {\n  header_up Host {host} # ours\n}\n",
        },
    ),
    "JSON": Case(
        proxied=True,
        name="caddy.json",
        text="""\
        {
          "admin": {"disabled": true},
          "apps": {
            "http": {
              "servers": {
                "mine": {
                  "listen": [":@PORT@"],
                  "idle_timeout": "2m",
                  "routes": [
                    {
                      "handle": [
                        {"handler": "reverse_proxy", "upstreams": [{"dial": "127.0.0.1:@BACK@"}]}
                      ]
                    }
                  ]
                }
              }
            }
          }
        }
        """,
    ),
}
