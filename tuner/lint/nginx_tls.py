"""Rules for Nginx's TLS: costs, and caches of sessions."""

from __future__ import annotations

from tuner.lint.finding import LintFacts
from tuner.lint.nginx_rule import DOCS, NginxFindings, NginxRule
from tuner.lint.nginx_scope import ScopedDirective, spots
from tuner.own.nginx.locations import PASSES
from tuner.own.nginx.tree import Directive, Tree, walk

_SSL = DOCS + "http/ngx_http_ssl_module.html#"


def _is_tls(server: Directive) -> bool:
    return any("ssl" in one.args for one in server.children("listen")) or any(
        one.args == ("on",) for one in server.children("ssl")
    )


def _serves_files(server: Directive) -> bool:
    """Return whether a request may be answered by a file: not of a pure proxy."""
    locations = [found for found in walk((server,)) if found.name == "location"]
    answered = (*PASSES, "return", "rewrite", "deny", "content_by_lua_block")
    if any(not any(True for _ in found.children(*answered)) for found in locations):
        return True
    catches_all = any(found.args in (("/",), ("^~", "/")) for found in locations)
    turned_away = any(True for _ in server.children("return"))
    return not (catches_all or turned_away)


def _sendfile_tls(tree: Tree, facts: LintFacts) -> NginxFindings:
    for server in spots(tree, "server"):
        # An upstream has servers without a block.
        if server.directive.block is None or not _is_tls(server.directive):
            continue
        if not _serves_files(server.directive):
            continue
        within = ScopedDirective(server.directive, (*server.levels, server.directive.block))
        directive = within.one("sendfile")
        if directive is None or directive.args != ("on",):
            continue
        asked = any(
            one.args[:1] == ("Options",) and one.args[-1:] == ("KTLS",)
            for one in within.all_of("ssl_conf_command")
        )
        if not asked:
            yield directive, "sendfile has no effect under TLS unless the kernel encrypts"
        elif not facts.kernel_tls:
            yield (
                directive,
                "the kernel's TLS is requested but not loaded, so sendfile has no effect",
            )


def _builtin_cache(tree: Tree, _: LintFacts) -> NginxFindings:
    for spot in spots(tree, "ssl_session_cache"):
        if any(arg.partition(":")[0] == "builtin" for arg in spot.directive.args):
            yield spot.directive, "each worker has its own cache of sessions"


def _full_handshakes(tree: Tree, _: LintFacts) -> NginxFindings:
    for spot in spots(tree, "ssl_session_tickets"):
        cache = spot.one("ssl_session_cache")
        shared = cache is not None and any(arg.startswith("shared:") for arg in cache.args)
        if spot.directive.args == ("off",) and not shared:
            yield spot.directive, "no tickets, and no cache that workers share"


RULES: tuple[NginxRule, ...] = (
    NginxRule(
        "sendfile-under-tls",
        "costs",
        _sendfile_tls,
        "Encrypted data passes through the server's memory, so output_buffers applies instead",
        "ssl_conf_command Options KTLS; with the kernel's TLS loaded, if a measurement favours it",
        _SSL + "ssl_conf_command",
    ),
    NginxRule(
        "builtin-cache",
        "costs",
        _builtin_cache,
        "Another worker does not know a returning client, and memory is fragmented",
        "ssl_session_cache shared:SSL:10m; alone",
        _SSL + "ssl_session_cache",
    ),
    NginxRule(
        "full-handshakes",
        "costs",
        _full_handshakes,
        "Every connection needs a full handshake, a server's most expensive operation",
        "ssl_session_cache shared:SSL:10m;",
        _SSL + "ssl_session_cache",
    ),
)
