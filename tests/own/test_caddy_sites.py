"""Tests of Caddy's sites: which one is served, what the lab keeps of it, and JSON-only parts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.own.caddyfiles import here
from tuner.errors import DefinitionError
from tuner.own.caddy import reader
from tuner.own.caddy.origin import change_config
from tuner.own.caddy.server import CaddyOwnConfiguration, OwnCaddy, read
from tuner.own.caddy.tree import put
from tuner.own.home import LocalHome
from tuner.own.server import OwnOptions
from tuner.own.target import THIS_MACHINE
from tuner.reading.env_file import read_env_file
from tuner.servers.certificate import make_certificate
from tuner.servers.ground import TargetGround
from tuner.space.space import SpaceFacts, bind_space
from tuner.workload.workload import load_workload

SITES = """\
{
\temail ops@example.com
\tservers :443 {
\t\ttimeouts {
\t\t\tidle 2m
\t\t}
\t}
}
(app) {
\treverse_proxy {args[0]} {
\t\ttransport http {
\t\t\tkeepalive_idle_conns_per_host 8
\t\t}
\t}
}
*.example.com {
\ttls {
\t\tclient_auth {
\t\t\tmode request
\t\t}
\t}
\tlog one {
\t\toutput net 192.0.2.1:514
\t}
\t@shop host shop.example.com
\thandle @shop {
\t\t@outside not remote_ip 10.0.0.0/8
\t\tabort @outside
\t\tbasic_auth {
\t\t\tbob $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG
\t\t}
\t\timport app 127.0.0.1:3000
\t}
\t@blog host blog.example.com
\thandle @blog {
\t\timport app https://10.0.0.7:8443
\t}
}
http://files.example.com:8080 {
\troot * /srv/files
\tfile_server
}
"""


def taken(text: str, tmp_path: Path, kind: str = "proxy", **wishes: Any) -> CaddyOwnConfiguration:
    """Return a configuration that was read."""
    (tmp_path / "Caddyfile").write_text(text)
    wanted = OwnOptions(str(tmp_path / "Caddyfile"), **wishes)
    return read(wanted, load_workload(kind), LocalHome(here().binary))


def adapted(mine: CaddyOwnConfiguration) -> tuple[OwnCaddy, tuple[str, ...]]:
    """Return a configuration adapted to the lab's port, with its notes."""
    server = here()
    if mine.wishes.keep_upstreams:
        # The upstreams of these texts do not exist, so that no request is tried.
        mine = replace(mine, needs=None)
    kind = "proxy" if mine.workload.backend else "static"
    facts = SpaceFacts(
        1,
        32,
        8 << 30,
        server.version_tuple,
        server.modules,
        tls=mine.workload.wire.tls is not None,
        proxied=kind == "proxy",
    )
    return mine.adapt(bind_space(f"caddy/{kind}", facts), server)


def served(made: OwnCaddy, tmp_path: Path) -> dict[str, Any]:
    """Return the baseline as the lab serves it."""
    tls = made.own.workload.wire.tls is not None
    ground = TargetGround(
        binary="caddy",
        instances_dir=tmp_path / "lab",
        backends_dir=tmp_path / "lab",
        site_dir=tmp_path / "site",
        cpus=(0,),
        backend_cpus=(),
        upstreams=("127.0.0.1:18079",) if made.own.workload.backend else (),
        certificate=make_certificate() if tls else None,
    )
    spec = made.instance("i", made.bound.baseline, made.bound.space, ground, 18080)
    found = json.loads(spec.files["caddy.json"])
    assert isinstance(found, dict)
    return found


def test_the_lab_touches_nothing_of_the_host(tmp_path: Path) -> None:
    """One port of the loopback, no certificates from anywhere, sockets and files of its own."""
    made, notes = adapted(taken(SITES, tmp_path, server_name="shop.example.com"))
    config = served(made, tmp_path)
    (server,) = config["apps"]["http"]["servers"].values()
    assert server["listen"] == ["127.0.0.1:18080"]
    assert server["automatic_https"] == {"disable": True}
    assert set(config["apps"]) == {"http", "tls"}
    assert set(config["apps"]["tls"]) == {"certificates", "disable_ocsp_stapling"}
    assert config["admin"]["listen"] == "unix/run/admin.sock"
    lab = str(tmp_path / "lab" / "i")
    assert config["storage"]["root"].startswith(lab)
    logs = config["logging"]["logs"].values()
    assert all(log["writer"]["filename"].startswith(lab) for log in logs)
    text = json.dumps(config)
    for gone in (
        "10.0.0",
        "192.0.2.1",
        "ops@",
        "http_basic",
        "client_auth",
        "abort",
        "example.com",
    ):
        assert gone not in text
    reported = "\n".join(notes)
    for words in (
        "the workload has no password",
        "the workload has no certificate",
        "the workload comes from another address",
        "is changed in the lab: a file is written",
        "the lab asks nobody for certificates",
        "the workload's backend stands behind 127.0.0.1:3000",
        "requests to shop.example.com use TLS",
        "1 other servers and 1 other sites are not",
    ):
        assert words in reported


def test_the_users_upstreams_are_asked_where_wished(tmp_path: Path) -> None:
    """`keep_upstreams` keeps the user's upstreams and their TLS; else the lab's replaces them."""
    made, _ = adapted(taken(SITES, tmp_path, server_name="blog.example.com", keep_upstreams=True))
    text = json.dumps(served(made, tmp_path))
    assert '"dial": "10.0.0.7:8443"' in text
    made, notes = adapted(taken(SITES, tmp_path, server_name="blog.example.com"))
    text = json.dumps(served(made, tmp_path))
    assert '"dial": "127.0.0.1:18079"' in text
    assert any("asked in cleartext" in note for note in notes)


def test_one_line_of_a_snippet_is_one_setting(tmp_path: Path) -> None:
    """A snippet that is imported twice changes at both places, in the JSON and in the text."""
    made, _ = adapted(taken(SITES, tmp_path, server_name="shop.example.com"))
    bound = made.bound
    assert bound.baseline.values["upstream_keepalive_connections"] == 8
    assert bound.baseline.values["idle_timeout"] == 120
    tuned = bound.space.complete(
        {"upstream_keepalive_connections": 64, "idle_timeout": 300}, bound.baseline
    )
    text = made.export_text(tuned, bound.space)
    wanted = SITES.replace("_per_host 8", "_per_host 64").replace("idle 2m", "idle 300s")
    assert text == wanted
    files = made.export_files(tuned, bound.space, here())
    assert files["own/Caddyfile"] == wanted
    found = json.dumps(change_config(made.own.origin, made.changes(tuned)))
    assert found.count('"max_idle_conns_per_host": 64') == 2


def test_what_only_json_can_say_is_exported_as_json(tmp_path: Path) -> None:
    """With the reason, before anything is measured; here a file that arguments name."""
    (tmp_path / "app.caddy").write_text("reverse_proxy 127.0.0.1:3000\n")
    text = "(from) {\n\timport {args[0]}.caddy\n}\nhttp://app.test {\n\timport from app\n}\n"
    made, notes = adapted(taken(text, tmp_path))
    assert any("exported as JSON (caddy.json), not as a patch" in note for note in notes)
    bound = made.bound
    tuned = bound.space.complete({"upstream_read_buffer": 65536}, bound.baseline)
    files = made.export_files(tuned, bound.space, here())
    assert set(files) == {"caddy.json"}
    assert '"read_buffer_size": 65536' in files["caddy.json"]
    assert made.export_text(tuned, bound.space).startswith("# Only caddy.json can express it: ")


def test_secrets_of_the_environment_are_kept_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The value of an environment variable in a Caddyfile reaches no exported text."""
    monkeypatch.setenv("TOKEN", 'se"cret-9')
    (tmp_path / "app.caddy").write_text(
        "reverse_proxy 127.0.0.1:3000 {\n\theader_up X-Token `{$TOKEN}`\n}\n"
    )
    site = "http://app.test {{\n\timport {}\n}}\n"
    opaque = "(from) {\n\timport {args[0]}.caddy\n}\n" + site.format("from app")
    for text in (site.format("app.caddy"), opaque):
        made, _ = adapted(taken(text + "# {$TOKEN}\n", tmp_path))
        assert "cret-9" in json.dumps(made.own.origin.config)
        tuned = made.bound.space.complete({"upstream_read_buffer": 65536}, made.bound.baseline)
        files = made.export_files(tuned, made.bound.space, here())
        kept = made.export_text(tuned, made.bound.space) + "".join(files.values())
        assert "cret-9" not in kept
        assert "{$TOKEN}" in kept
        assert ("{env.TOKEN}" in kept) == (text == opaque)


def test_an_export_has_its_imports_in_place(tmp_path: Path) -> None:
    """So that a record shows all that may change."""
    (tmp_path / "app.caddy").write_text("# app\nreverse_proxy 127.0.0.1:3000\n")
    made, _ = adapted(taken("http://app.test {\n\timport app.caddy\n}\n", tmp_path))
    text = made.export_text(made.bound.baseline, made.bound.space)
    assert text == "http://app.test {\n\t# app\n\treverse_proxy 127.0.0.1:3000\n}\n"


def test_the_environment_is_that_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file of Caddy's holds it."""
    monkeypatch.setenv("GOGC", "200")
    monkeypatch.setenv("GOMEMLIMIT", "512MiB")
    made, _ = adapted(taken(SITES, tmp_path, server_name="shop.example.com"))
    values = made.bound.baseline.values
    assert (values["gogc"], values["gomemlimit"]) == (200, 512 << 20)


def test_a_file_of_variables_stands_for_the_servers_environment(tmp_path: Path) -> None:
    """`--env-file` gives a Caddyfile its names, and what is empty without it is named in a note."""
    text = "{$DOMAIN} {\n\theader X-A {$EMPTY}\n\treverse_proxy x:1\n}\n"
    config, env = tmp_path / "Caddyfile", tmp_path / "caddy.env"
    config.write_text(text)
    env.write_text("# of the service\nexport DOMAIN='http://app.test'\nGOGC=300 # more\n")
    wishes = OwnOptions(str(config), env_file=str(env))
    mine = reader.read(wishes, load_workload("proxy"), THIS_MACHINE, here().binary)
    assert isinstance(mine, CaddyOwnConfiguration)
    made, notes = adapted(mine)
    assert made.bound.baseline.values["gogc"] == 300
    assert any("{$EMPTY} is empty: EMPTY is not set here" in note for note in notes)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [("A=1\nnonsense\n", 2, "this line is not a variable"), ("1A=secret\n", 1, "'1A' is not")],
)
def test_a_line_of_the_environment_that_is_no_variable_is_named(
    tmp_path: Path, text: str, line: int, words: str
) -> None:
    """With its number, and without its value."""
    path = tmp_path / "caddy.env"
    path.write_text(text)
    with pytest.raises(DefinitionError, match=words) as error:
        read_env_file(str(path))
    assert error.value.line == line
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("reverse_proxy x:1 {\n\ttransport http {\n\t\tkeepalive off\n\t}\n}", "keepalive", "off"),
        (
            "reverse_proxy x:1 {\n\ttransport fastcgi\n}",
            "upstream_read_buffer",
            "speaks fastcgi to what is behind it",
        ),
        (
            "@new query new=*\nreverse_proxy @new y:1 {\n\tflush_interval -1\n}\nreverse_proxy x:1",
            "flush_immediately",
            "different values",
        ),
        ("reverse_proxy x:1 {\n\tlb_policy ip_hash\n}", "lb_policy", "ip_hash"),
    ],
)
def test_what_cannot_be_changed_safely_stays_and_is_said(
    tmp_path: Path, text: str, name: str, values: str
) -> None:
    """With its place in the JSON."""
    made, _ = adapted(taken(f":80 {{\n{text}\n}}\n", tmp_path, keep_upstreams=True))
    reasons = [f"{n} {why}" for n, why in made.bound.space.left_out if name in n]
    assert reasons
    assert all("stays as you have it" in why and values in why for why in reasons)


@pytest.mark.parametrize(
    ("text", "kind", "wishes", "words"),
    [
        (SITES, "proxy", {"server_name": "x.test"}, r"here are: \*\.example\.com, blog"),
        (SITES, "static", {"server_name": "shop.example.com"}, "no site hands /index.html"),
        (":80 {\n\tfile_server\n}\n", "https", {}, "speaks cleartext only"),
        (":80 {\n\tfile_server\n}\n", "proxy", {}, "no site hands /api/orders/b3f1c2a4"),
        (
            "{\n\tservers {\n\t\tprotocols h1\n\t}\n}\nhttps://a.test {\n\treverse_proxy x:1\n}\n",
            "file-100k-h2",
            {},
            "does not have h2",
        ),
        (":80 {\n\tbogus\n}\n", "static", {}, "Caddyfile:2: Caddy refuses it: unrecognized"),
        ("{\n\tadmin off\n}\n", "static", {}, "serves no site"),
        (
            "{$NOT_SET} {\n\tfile_server\n}\n",
            "static",
            {},
            r":2: .*; NOT_SET is not set.*--env-",
        ),
        (
            "a.test {\n\ttls {\n\t\tdns cloudflare x\n\t}\n}\n",
            "static",
            {},
            "lacks the plugin .*: xcaddy build --with github.com/caddy-dns/cloudflare ",
        ),
        (
            "a.test {\n\trate_limit\n}\n",
            "static",
            {},
            ":2: .* lacks the plugin rate_limit: xcaddy build --with github.com/mholt/caddy-rate",
        ),
    ],
)
def test_what_does_not_go_together_is_said(
    tmp_path: Path, text: str, kind: str, wishes: dict[str, str], words: str
) -> None:
    """With the way out."""
    with pytest.raises(DefinitionError, match=words):
        taken(text, tmp_path, kind, **wishes)


def test_what_the_lab_cannot_serve_is_said_in_a_sentence(tmp_path: Path) -> None:
    """A refused configuration raises with the error in Caddy's JSON log, not with its fields."""
    config = taken("http://a.test {\n\treverse_proxy x:1\n}\n", tmp_path)
    wrong = put(config.origin.config, (*config.serving.passed.proxies[0], "bogus"), 1)
    with pytest.raises(DefinitionError) as caught:
        adapted(replace(config, origin=replace(config.origin, config=wrong)))
    assert "unknown field" in str(caught.value)
    assert '"level"' not in str(caught.value)


def test_the_users_own_files_must_be_readable(tmp_path: Path) -> None:
    """A workload with `site: own` serves the user's root, or --root; a missing one is refused."""
    path = tmp_path / "mine.yaml"
    path.write_text(
        "workload: mine\nsite: own\nrequests: [{path: /index.html, expect: {status: 404}}]\n"
    )

    def root(written: str, **wishes: str) -> str:
        mine = taken(
            f":80 {{\n\troot * {written}\n\tfile_server\n}}\n", tmp_path, str(path), **wishes
        )
        return json.dumps(served(adapted(mine)[0], tmp_path))

    assert '"root": "/usr/share"' in root("/usr/share")
    assert '"root": "/usr/lib"' in root("/nowhere/at/all", root="/usr/lib")
    with pytest.raises(DefinitionError, match=r"/nowhere cannot be entered.*--root FOLDER"):
        root("/nowhere")
