"""Kinds of Caddyfiles: each is bound and answers, or is refused at once and a way out works."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.own.test_caddy_sites import adapted, taken
from tuner.errors import DefinitionError
from tuner.own.caddy.server import read
from tuner.own.home import LocalHome
from tuner.own.server import OwnOptions
from tuner.servers import caddy
from tuner.workload.below import moved_below
from tuner.workload.workload import load_workload

PHP = "a.test {\n\troot * /srv\n\tphp_fastcgi unix//run/php.sock\n\tfile_server\n}\n"
EVERY_PATH = "a.test {\n\treverse_proxy unix//run/php.sock {\n\t\ttransport fastcgi\n\t}\n}\n"
OTHER = "b.test {\n\treverse_proxy x:1\n}\n"
REFUSED = {
    "files with a proxy below a path": (
        "a.test {\n\thandle_path /back/* {\n\t\treverse_proxy x:1\n\t}\n\tfile_server\n}\n",
        "proxy",
        "a.test answers it with a file (/apps/http/servers/srv0/routes/0",
        "--location /back/",
    ),
    "PHP, asked for the files of a backend": (
        EVERY_PATH + OTHER,
        "file-100k-h1",
        "a.test passes it to fastcgi",
        "--server-name b.test",
    ),
    "a proxy, asked for files": (
        "a.test {\n\treverse_proxy x:1\n}\n",
        "static",
        "to a file_server: a.test passes it to a reverse_proxy",
        "--workload proxy",
    ),
    "files below a path only": (
        "a.test {\n\thandle_path /files/* {\n\t\troot * /srv\n\t\tfile_server\n\t}\n}\n",
        "proxy",
        "a.test has no handler for it",
        "--workload static --location /files/",
    ),
    "an API that is gone": (
        "a.test {\n\trespond /api/* 410\n\treverse_proxy x:1\n}\n",
        "proxy",
        "answers it by itself: static_response 410",
        "--location /app/",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_what_answers_and_what_works_instead(name: str, tmp_path: Path) -> None:
    """Its options lead to a configuration that answers."""
    text, kind, words, way_out = REFUSED[name]
    site = "a.test" if "b.test" in text else ""
    with pytest.raises(DefinitionError) as error:
        taken(text, tmp_path, kind, server_name=site)
    assert words in error.value.message
    assert way_out in error.value.message
    options = dict(zip(way_out.split()[::2], way_out.split()[1::2], strict=True))
    workload = moved_below(
        options.get("--location", "/"), load_workload(options.get("--workload", kind))
    )
    wishes = OwnOptions(str(tmp_path / "Caddyfile"), options.get("--server-name", site))
    adapted(read(wishes, workload, LocalHome(caddy.detect().binary)))


APPLICATIONS = {
    "a path without a file": (PHP, "/about"),
    "a script": (PHP, "/wp-login.php?action=x"),
    "a path below a script": (PHP, "/remote.php/dav/files"),
    "every path": (EVERY_PATH, "/x"),
    "a path of the site": (PHP.replace("php_fastcgi", "php_fastcgi /blog/*"), "/blog/x"),
    "its own files and index": (
        PHP.replace(
            "sock\n", "sock {\n\t\ttry_files {path} /app.php =404\n\t\tindex app.php\n\t}\n"
        ),
        "/x",
    ),
}


@pytest.mark.parametrize("name", APPLICATIONS)
def test_an_application_stands_behind_fastcgi(name: str, tmp_path: Path) -> None:
    """Each request is sent to a real Caddy, with the lab's backend behind it over FastCGI."""
    text, path = APPLICATIONS[name]
    asked = load_workload("proxy")
    workload = replace(asked, requests=(replace(asked.requests[0], path=path),))
    (tmp_path / "Caddyfile").write_text(f"http://{text}")
    wishes = OwnOptions(str(tmp_path / "Caddyfile"))
    made, notes = adapted(read(wishes, workload, LocalHome(caddy.detect().binary)))
    assert made.own.workload.backend is not None
    assert made.own.workload.backend.protocols == ("fastcgi",)
    assert any("backend stands behind unix//run/php.sock" in note for note in notes), notes


def test_a_site_of_files_and_php_still_serves_its_files(tmp_path: Path) -> None:
    """The file is found before the script that answers everything else."""
    made, _ = adapted(taken(f"http://{PHP}", tmp_path, "static"))
    assert made.own.workload.backend is None
    assert not made.own.serving.passed.proxies


def test_a_setting_of_php_fastcgi_is_changed_in_its_line(tmp_path: Path) -> None:
    """As in the `reverse_proxy` that it stands for; what only HTTP has is left out."""
    made, _ = adapted(taken(f"http://{PHP}", tmp_path))
    bound = made.bound
    assert "upstream_read_buffer" in dict(bound.space.left_out)
    tuned = bound.space.complete({"flush_immediately": True}, bound.baseline)
    wanted = PHP.replace("sock\n", "sock {\n\t\tflush_interval -1\n\t}\n")
    assert made.export_text(tuned, bound.space) == f"http://{wanted}"


@pytest.mark.parametrize(
    ("routes", "place"),
    [
        ("@other not method POST\n\trespond @other 405", "routes/0"),
        ("@none header !User-Agent\n\terror @none 403", "routes/0"),
        ('@in `{http.request.cookie.session} == ""`\n\tredir @in /login', "routes/0"),
        ("@http protocol http\n\tredir @http https://a.test{uri}", "routes/0"),
    ],
)
def test_a_route_that_turns_the_workload_away_is_left_out(
    tmp_path: Path, routes: str, place: str
) -> None:
    """By the method, by headers, by an expression that only a request decides, by the protocol."""
    text = f"http://a.test {{\n\t{routes}\n\treverse_proxy x:1\n}}\n"
    _, notes = adapted(taken(text, tmp_path))
    why = "is not carried over: it turns the requests of the workload away"
    assert any(f"{place} {why}" in note for note in notes), notes


def test_an_answer_with_another_status_is_refused(tmp_path: Path) -> None:
    """Before a study starts, with the status."""
    text = "http://a.test {\n\tmap {path} {to} {\n\t\tdefault 503\n\t}\n\treverse_proxy x:1 {\n\t\t"
    text += "@all status 2xx\n\t\treplace_status @all {to}\n\t}\n}\n"
    with pytest.raises(DefinitionError, match=r"is answered with 503 .*expects 200"):
        adapted(taken(text, tmp_path))


def test_a_directive_of_caddy_1_is_named_as_one(tmp_path: Path) -> None:
    """With the directive of Caddy 2."""
    with pytest.raises(DefinitionError, match="proxy is of Caddy 1, and Caddy 2 has reverse_proxy"):
        taken("a.test {\n\tproxy / x:1\n}\n", tmp_path)


def test_the_application_itself_is_asked_whatever_it_is(tmp_path: Path) -> None:
    """With `site: own` and the upstreams of the files, PHP may answer as well as a proxy."""
    mine = tmp_path / "mine.yaml"
    mine.write_text("workload: mine\nsite: own\nrequests: [{path: /x.php}]\n")
    found = taken(PHP, tmp_path, str(mine), keep_upstreams=True)
    assert len(found.serving.passed.proxies) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import sites/*.caddy\n", "no file matches {}/sites/*.caddy: put the sites there"),
        ("import shared.caddy\n", "File to import not found: shared.caddy; put it there"),
    ],
)
def test_files_that_an_import_lacks_are_named(tmp_path: Path, text: str, words: str) -> None:
    """A mask without files is ignored by Caddy, so that nothing is served."""
    with pytest.raises(DefinitionError) as error:
        taken(text, tmp_path)
    assert words.format(tmp_path) in error.value.message
