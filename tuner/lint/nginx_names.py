"""Rules for names in Nginx's configurations: unknown directives, and servers that nobody asks."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from tuner.lint.finding import LintFacts
from tuner.lint.nginx_rule import DOCS, NginxFindings, NginxRule
from tuner.own.nginx.serving import address_of
from tuner.own.nginx.tree import OWN_NAMES, Directive, Tree

_MODULES = ("lua_", "js_", "subs_filter", "geoip2", "more_", "brotli", "zstd", "echo")
"""Beginnings of names of widespread modules that are not part of Nginx."""
_CLOSE = 0.85
"""Similarity of a misspelt name; names of other modules are less similar."""


_NEWER = frozenset(
    {
        *("http2", "http3", "http3_hq", "http3_max_concurrent_streams", "http3_stream_buffer_size"),
        *("quic_active_connection_id_limit", "quic_bpf", "quic_gso", "quic_host_key", "quic_retry"),
        *("ssl_reject_handshake", "ssl_conf_command", "proxy_ssl_conf_command", "ssl_alpn"),
        *("grpc_ssl_conf_command", "uwsgi_ssl_conf_command", "ssl_ocsp", "ssl_ocsp_cache"),
        *("ssl_ocsp_responder", "ssl_key_log", "proxy_ssl_key_log", "grpc_ssl_key_log"),
        *("uwsgi_ssl_key_log", "ssl_object_cache_inheritable", "ssl_certificate_cache"),
        *("proxy_ssl_certificate_cache", "grpc_ssl_certificate_cache", "ssl_ech_file"),
        *("uwsgi_ssl_certificate_cache", "ssl_certificate_compression", "keepalive_time"),
        *("keepalive_min_timeout", "proxy_cookie_flags", "proxy_half_close", "proxy_pass_trailers"),
        *("add_header_inherit", "add_trailer_inherit", "early_hints", "max_headers", "pass"),
        *("mp4_start_key_frame", "proxy_smtp_auth", "max_errors", "xclient", "resolver_timeout"),
        *("limit_conn_dry_run", "limit_req_dry_run", "auth_delay", "server_tokens", "state"),
        *("proxy_allow_upstream", "proxy_request_dynamic", "proxy_bind_dynamic", "sticky"),
        *("password_file", "client_body_early", "scgi_allow_upstream", "uwsgi_allow_upstream"),
    }
)
"""Directives that crossplane's table lacks (https://nginx.org/en/docs/dirindex.html)."""


def _unknown(tree: Tree, _: LintFacts) -> NginxFindings:
    # Imported here, because its tables take time that other commands must not spend.
    from crossplane.analyzer import DIRECTIVES

    for found in _named(tree.directives):
        name = found.name
        if name in DIRECTIVES or name in _NEWER or name.startswith(_MODULES) or "_by_lua" in name:
            continue
        close = get_close_matches(found.name, DIRECTIVES, 1, _CLOSE)
        if close:
            yield found, f"{found.name} is not a directive; did you mean {close[0]}?"


def _named(directives: tuple[Directive, ...]) -> Iterator[Directive]:
    """Yield the directives with names of Nginx's."""
    for found in directives:
        yield found
        if found.name not in OWN_NAMES:
            yield from _named(found.block or ())


def _ignored_servers(tree: Tree, _: LintFacts) -> NginxFindings:
    for http in tree.children("http"):
        first: dict[tuple[str, str], Directive] = {}
        for server in http.children("server"):
            listens = [one.args[0] for one in server.children("listen") if one.args]
            for address in dict.fromkeys(map(address_of, listens or ["80"])):
                for directive in server.children("server_name"):
                    for name in dict.fromkeys(directive.args):
                        other = first.setdefault((address, name), server)
                        if other is not server:
                            said = f"{name} at {address} is the server at {other.where} already"
                            yield directive, said


RULES: tuple[NginxRule, ...] = (
    NginxRule(
        "unknown-directive",
        "wrong",
        _unknown,
        "Nginx refuses a configuration with a directive that it does not know",
        "write the name as the documentation has it",
        DOCS + "dirindex.html",
    ),
    NginxRule(
        "ignored-server",
        "wrong",
        _ignored_servers,
        "Of several servers with one name at one address, Nginx asks the first only",
        "remove one of them, or give it another name",
        DOCS + "http/server_names.html",
    ),
)
