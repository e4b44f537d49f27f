"""Tests of a template's reach: no searched value reaches what is never searched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.render.placed import LAB
from tests.spaces import load_space
from tuner.errors import DefinitionError
from tuner.render.reach import edges, unsearched
from tuner.render.render import EXPORT, render
from tuner.render.syntax import NGINX
from tuner.servers import apache, caddy, envoy, haproxy, nghttpx
from tuner.space.space import Space

SYNTAXES = {
    "nginx": NGINX,
    **{adapter.name: adapter.syntax for adapter in (apache, caddy, envoy, haproxy, nghttpx)},
}
SPACE = """\
space: {server}/mine
server: {server}
template: mine.j2
parameters:
  switch: {{type: boolean, default: off}}
  number: {{type: integer, range: [1, 1000], default: 1}}
  word: {{type: choice, choices: [one, two], default: one}}
  gogc: {{type: integer, range: [50, 1600], default: 100}}
  kept: {{type: boolean, fixed: on, default: {{stock: off, hand: on}}}}
"""
ASKED = "{% set asked = [p.switch, p.number, p.word, p.gogc, p.kept] %}\n"
"""A template must write every parameter; these are asked for."""


def bind(tmp_path: Path, server: str, template: str, force: tuple[str, ...] = ()) -> Space:
    """Return a user's own space with this template."""
    (tmp_path / "s.yaml").write_text(SPACE.format(server=server), encoding="utf-8")
    (tmp_path / "mine.j2").write_text(ASKED + template, encoding="utf-8")
    space = load_space(str(tmp_path / "s.yaml"), connections=1, memory_bytes=1 << 30)
    return replace(space, forced=tuple((name, "forced") for name in force))


def write_edges(space: Space) -> int:
    """Render what shows where values lead to; how many there are."""
    tried = list(edges(space, space.baseline("stock")))
    for configuration in tried:
        render(space.template, configuration, space, LAB, SYNTAXES[space.server])
    return len(tried)


HOSTILE = {
    "a value": ("nginx", "ssl_protocols {{ p.word }};", "ssl_protocols"),
    "a quoted name": ("nginx", '"ssl_protocols" {{ p.word }};', "ssl_protocols"),
    "a condition": ("nginx", "{% if p.number > 500 %}\netag off;\n{% endif %}", "etag"),
    "a name that is put together": ("nginx", "ssl{{ '_protocols' | safe }} {{ p.word }};",
                                    "ssl_protocols"),
    "a loop": ("nginx", "{% for n in active('word') %}\nssl_ciphers {{ text[n] }};\n{% endfor %}",
               "ssl_ciphers"),
    "a macro": ("nginx", "{% macro m(v) %}ssl_ciphers {{ v }};{% endmacro %}{{ m(p.word) }}",
                "ssl_ciphers"),
    "what is around it": ("nginx", "if ($x = {{ p.word }}) { limit_rate 5; }", "limit_rate"),
    "the digest": ("nginx", "ssl_ciphers {{ digest }};", "ssl_ciphers"),
    "the place's digest": ("nginx", "ssl_ciphers {{ placement.digest }};", "ssl_ciphers"),
    "the command of OpenSSL": ("nginx", "ssl_conf_command Ciphersuites {{ p.word }};",
                               "ssl_conf_command"),
    "options beside kernel TLS": (
        "nginx", "ssl_conf_command Options {{ 'KTLS,PrioritizeChaCha' if p.switch else 'KTLS' }};",
        "ssl_conf_command"),
    "a file": ("nginx", "include {{ p.word }};", "include"),
    "a log that is not kept": (
        "nginx", "access_log {{ 'off' if p.switch else '/srv/access.log' }};", "access_log"),
    "a variable": ("nginx", "set $v {{ p.word }};\nlimit_rate $v;", "limit_rate"),
    "a variable of a variable": (
        "nginx", "map $w $v {\n default 1;\n}\nset $w {{ p.word }};\nlimit_rate ${v};",
        "limit_rate"),
    "a map": ("nginx", "map $uri $v {\n default {{ p.number }};\n}\nlimit_rate $v;", "limit_rate"),
    "a variable that is a limit": ("nginx", "set $limit_rate {{ p.number }};", "limit_rate"),
    "a comment's sign in a word": (
        "nginx", "index a}#b; ssl_ciphers {{ p.word }};", "ssl_ciphers"),
    "a brace that is not closed": (
        "nginx", "index ${a ; ssl_ciphers {{ p.word }}; }", "ssl_ciphers"),
    "Lua": ("nginx", "access_by_lua_block { '{{ p.word }}' }", "access_by_lua_block"),
    "Caddy's block": ("caddy", "a.test {\n\ttls {\n\t\tcurves {{ p.word }}\n\t}\n}", "curves"),
    "Caddy's condition": ("caddy", "a.test {\n{% if not p.switch %}\n\tlog\n{% endif %}\n}", "log"),
    "Caddy's snippet": (
        "caddy",
        "(s) {\n\ttls {\n\t\tciphers {args[0]}\n\t}\n}\na.test {\n\timport s {{ p.word }}\n}",
        "import"),
    "Caddy's environment": (
        "caddy", "a.test {\n\trequest_body {\n\t\tmax_size {$GOGC}\n\t}\n}", "request_body"),
    "an option": ("nghttpx", "ciphers={{ p.word }}", "ciphers"),
    "an included file": ("nghttpx", "include=/etc/{{ p.word }}", "include"),
    "an option of an address": (
        "haproxy", "listen a\n\tbind :443 ssl crt a.pem ciphers {{ p.word }}", "ciphers"),
    "a timeout against slow clients": (
        "haproxy", "defaults\n\ttimeout client {{ p.number }}", "timeout client"),
    "a check of who it is": (
        "haproxy", "backend a\n\tserver b c:1 ssl verify {{ p.word }}", "verify"),
    "a rule of access": (
        "haproxy", "frontend a\n{% if p.switch %}\n\thttp-request deny\n{% endif %}",
        "http-request"),
    "a field": ("envoy", "static_resources: {listeners: [{ecdh_curves: [{{ p.word }}]}]}",
                "ecdh_curves"),
    "a filter": (
        "envoy", "http_filters:\n{% if p.switch %}\n- {name: a}\n{% endif %}", "http_filters"),
    "Envoy's quotes": ("envoy", '"adm\\u0069n": {address: {{ p.word }}}', "admin"),
    "HAProxy's quotes": ("haproxy", 'global\n\t"stats" socket {{ p.word }}', "stats"),
    "Apache's cases": ("apache", "sslPROTOCOL {{ p.word }}", "sslPROTOCOL"),
    "Apache's continued lines": ("apache", "SSLCipher\\\nSuite {{ p.word }}", "SSLCipherSuite"),
    "Apache's sections": (
        "apache", "<Location /{{ p.word }}>\nRequire all granted\n</Location>", "Require"),
    "Apache's definitions": ("apache", "Define P {{ p.word }}\nSSLProtocol ${P}", "Define"),
    "a program of a log": (
        "apache", "CustomLog {{ '/srv/a' if p.switch else '/srv/b' }} common", "CustomLog"),
}  # fmt: skip


@pytest.mark.parametrize(("server", "template", "name"), HOSTILE.values(), ids=HOSTILE)
def test_a_searched_value_is_refused_where_it_changes_what_is_never_searched(
    tmp_path: Path, server: str, template: str, name: str
) -> None:
    """Before anything is served, with the directive's name."""
    with pytest.raises(DefinitionError, match=rf"template mine\.j2: {name}\b"):
        write_edges(bind(tmp_path, server, template))


@pytest.mark.parametrize(
    ("server", "template"),
    [
        ("nginx", "ssl_protocols TLSv1.3;\nkeepalive_requests {{ p.number }};"),
        ("nginx", "ssl_conf_command Options {{ 'KTLS' if p.switch else '-KTLS' }};"),
        ("nginx", "access_log /srv/a.log main{% if p.switch %} buffer={{ p.number }}{% endif %};"),
        ("nginx", "{% if p.kept %}\netag off;\n{% endif %}"),
        ("nginx", "set $v {{ p.word }};\nset $w 5;\nlimit_rate $w;"),
        ("caddy", "a.test {\n\tlog {\n\t\tsampling {\n\t\t\tfirst {{ p.number }}\n\t\t}\n\t}\n}"),
        ("nghttpx", "ciphers=x\nworkers={{ p.number }}"),
        ("envoy", "admin: {address: a}\nconcurrency: {{ p.number }}"),
        ("haproxy", "listen a\n\tbind :443 ssl ciphers x backlog {{ p.number }}"),
        ("apache", "SSLProtocol TLSv1.3\n<IfModule a>\nKeepAlive {{ p.switch }}\n</IfModule>"),
        ("haproxy", "defaults\n\ttimeout client 5s\n\ttimeout http-keep-alive {{ p.number }}"),
    ],
)
def test_what_is_the_users_own_affair_is_written(
    tmp_path: Path, server: str, template: str
) -> None:
    """Constants, fixed parameters, and what parameters are for."""
    assert write_edges(bind(tmp_path, server, template)) > len(SPACE.splitlines())


def test_a_directive_that_is_forced_by_name_is_written(tmp_path: Path) -> None:
    """A directive that `--force` names is written, like that of a forced parameter."""
    template = "ssl_protocols {{ p.word }};\netag {{ p.switch }};"
    with pytest.raises(DefinitionError, match=r"--force etag"):
        write_edges(bind(tmp_path, "nginx", template, ("ssl_protocols",)))
    assert write_edges(bind(tmp_path, "nginx", template, ("ssl_protocols", "etag")))


def test_every_configuration_is_looked_at(tmp_path: Path) -> None:
    """One that no end of a range shows is refused when it comes to be written."""
    template = "{% if p.number == 7 %}\netag off;\n{% endif %}"
    space = bind(tmp_path, "nginx", template)
    assert write_edges(space)
    configuration = space.complete({"number": 7}, space.baseline("hand"))
    for placement in (LAB, EXPORT):
        with pytest.raises(DefinitionError, match="etag is never searched"):
            render(space.template, configuration, space, placement)


def test_without_its_searched_values_a_configuration_keeps_what_is_fixed(tmp_path: Path) -> None:
    """So baselines that differ in what is fixed are each their own measure."""
    space = bind(tmp_path, "nginx", "")
    given = space.complete({"number": 7, "word": "two"}, space.baseline("hand"))
    kept = unsearched(space, given).values
    assert (kept["number"], kept["word"], kept["kept"]) == (1, "one", True)
