"""Settings of a study of the lab in Apache's own files on a host, as ``tuner apply`` sets them."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.app.services import FakeHost, no_home
from tests.app.services import host as a_host
from tests.servers.labs import here
from tuner.errors import DefinitionError
from tuner.hosts import local
from tuner.machine.facts import ServerFacts
from tuner.own.apache.service import place, read_service
from tuner.own.files import HERE
from tuner.servers import apache
from tuner.space.configuration import Value
from tuner.space.facts import space_facts
from tuner.space.space import Space, bind_space
from tuner.testing.draw import draw_configuration
from tuner.workload.site import SiteFile
from tuner.workload.wire import Wire
from tuner.workload.workload import load_workload

MAIN = "/etc/apache2/apache2.conf"
MPM = "/etc/apache2/mods-enabled/mpm_event.conf"
SITE = "/etc/apache2/sites-enabled/shop.conf"
TEXTS = {
    MAIN: """\
# As Debian has it.
DefaultRuntimeDir ${APACHE_RUN_DIR}
KeepAlive On
MaxKeepAliveRequests 100
IncludeOptional mods-enabled/*.load
IncludeOptional mods-enabled/*.conf
IncludeOptional sites-enabled/*.conf
""",
    "/etc/apache2/mods-enabled/http2.load": "LoadModule http2_module modules/mod_http2.so\n",
    MPM: """\
<IfModule mpm_event_module>
    StartServers 2
    ThreadLimit  64
    ThreadsPerChild  25
    MaxRequestWorkers 150
</IfModule>
""",
    "/etc/apache2/mods-enabled/mpm_event.load": "LoadModule mpm_event_module m/mod_mpm_event.so\n",
    SITE: """\
<VirtualHost *:80>
\tDocumentRoot /srv/shop
</VirtualHost>
""",
}


@pytest.fixture(scope="module")
def space() -> Space:
    """The space of large files over HTTP/2 and cleartext, with 64 connections."""
    static = load_workload("static")
    workload = replace(
        static,
        connections=64,
        wire=Wire("http2", streams=64),
        site=(SiteFile("/index.html", 1 << 20, "html"),),
        requests=(replace(static.requests[0], expect_length=1 << 20),),
    )
    server = ServerFacts("apache", "/usr/sbin/apache2", "2.4.62", ("http2", "mpm_event"), "")
    return bind_space("apache/static", space_facts(local.facts(), server, workload, 2))


def changed(
    space: Space, wanted: Mapping[str, Value], texts: Mapping[str, str] = TEXTS
) -> dict[str, str]:
    """Return the files that become others with these values, by path."""
    found = read_service(MAIN, FakeHost(dict(texts)), lambda: no_home(a_host(), ""))
    placed = place(found, space, server_name="", tls=False, proxied=False)
    bound = placed.bound
    missing = wanted.keys() - {each.name for each in bound.space.parameters}
    if missing:
        raise DefinitionError(dict(bound.space.left_out)[missing.pop()], path=MAIN)
    return placed.texts(bound.space.complete(wanted, bound.baseline))


def test_a_directive_is_changed_where_it_stands(space: Space) -> None:
    """In the included file that has it; everything else stays, byte by byte."""
    assert changed(space, {"max_keep_alive_requests": 5000}) == {
        MAIN: TEXTS[MAIN].replace("Requests 100", "Requests 5000")
    }


def test_a_missing_directive_is_added_to_the_main_file(space: Space) -> None:
    """At its end, where it counts for all virtual hosts, also after a line without an end."""
    texts = {**TEXTS, MAIN: TEXTS[MAIN].rstrip("\n")}
    assert changed(space, {"enable_mmap": False}, texts) == {MAIN: f"{TEXTS[MAIN]}EnableMMAP off\n"}


def test_sizes_and_times_are_written_as_numbers(space: Space) -> None:
    """Apache's directives take no units."""
    made = changed(space, {"keep_alive_timeout": 7, "flush_max_threshold": 1 << 20})
    assert made[MAIN].endswith("KeepAliveTimeout 7\nFlushMaxThreshold 1048576\n")


def test_processes_stay_whole_and_within_their_limits(space: Space) -> None:
    """More threads per process: fewer processes for the same number, and a higher limit."""
    assert changed(space, {"threads_per_child": 96}) == {
        MPM: """\
<IfModule mpm_event_module>
    StartServers 1
    ThreadLimit 96
    ThreadsPerChild 96
    MaxRequestWorkers 192
</IfModule>
"""
    }


def test_processes_that_start_are_not_ended_at_once(space: Space) -> None:
    """More of them at the start need more spare threads, which Debian's files limit to 75."""
    texts = {**TEXTS, MPM: TEXTS[MPM].replace("    ThreadL", "    MaxSpareThreads 75\n    ThreadL")}
    made = changed(space, {"start_threads": 500}, texts)
    assert "StartServers 20\n" in made[MPM]
    assert "MaxSpareThreads 500\n" in made[MPM]
    assert "MaxRequestWorkers 500\n" in made[MPM]
    assert made[MAIN].endswith("ServerLimit 20\n")


@pytest.mark.parametrize(
    ("path", "old", "new", "said"),
    [
        (SITE, "\tDoc", "\tMaxKeepAliveRequests 7\n\tDoc",
         f"{SITE}:2 sets it for <VirtualHost *:80>"),
        (MAIN, "Requests 100", "Requests \\\n 100", f"{MAIN}:4 continues on the next line"),
        (MAIN, "Requests 100", "Requests many", "which the space cannot express"),
    ],
)  # fmt: skip
def test_a_line_that_would_win_keeps_the_setting(
    space: Space, path: str, old: str, new: str, said: str
) -> None:
    """The refusal names it."""
    texts = {**TEXTS, path: TEXTS[path].replace(old, new)}
    with pytest.raises(DefinitionError) as refused:
        changed(space, {"max_keep_alive_requests": 5000}, texts)
    assert said in str(refused.value)


def test_a_module_that_is_not_loaded_has_no_settings(space: Space) -> None:
    """Apache would refuse the directive."""
    texts = {path: text for path, text in TEXTS.items() if "http2" not in path}
    with pytest.raises(DefinitionError, match="no LoadModule of http2_module"):
        changed(space, {"h2_copy_files": True}, texts)


@pytest.mark.parametrize(
    ("old", "new", "options", "said"),
    [
        ("mpm_event_module", "mpm_prefork_module", {}, "study measured mpm_event_module"),
        ("", "", {"tls": True}, "has no LoadModule of ssl_module"),
        ("", "", {"proxied": True}, "has no LoadModule of proxy_http_module"),
        ("", "", {"server_name": "shop"}, "--server-name: the settings of Apache count for all"),
    ],
)
def test_another_kind_of_service_is_refused(
    space: Space, old: str, new: str, options: Mapping[str, str | bool], said: str
) -> None:
    """The study measured something else than this service does."""
    texts = {path: text.replace(old, new) for path, text in TEXTS.items()}
    found = read_service(MAIN, FakeHost(texts), lambda: no_home(a_host(), ""))
    name, tls, proxied = (options.get(key) for key in ("server_name", "tls", "proxied"))
    with pytest.raises(DefinitionError) as refused:
        place(found, space, server_name=str(name or ""), tls=bool(tls), proxied=bool(proxied))
    assert said in str(refused.value)


@pytest.mark.integration
def test_a_real_apache_accepts_what_is_set(tmp_path: Path) -> None:
    """Ten random configurations are accepted, without a warning that it takes other values."""
    server = here(apache.name)
    workload = load_workload("https")
    space = bind_space("apache/static", space_facts(local.facts(), server, workload, 2))
    modules = Path("/usr/lib/apache2/modules")
    if not modules.is_dir():
        pytest.skip("no modules where Debian has them: no changed files were tried")
    loads = "".join(
        f"LoadModule {name}_module {modules}/mod_{name}.so\n"
        for name in ("mpm_event", "authz_core", "http2", "socache_shmcb", "ssl")
    )
    main = tmp_path / "apache2.conf"
    main.write_text(
        f"ServerName x\nDefaultRuntimeDir {tmp_path}\nErrorLog {tmp_path}/log\nListen 127.0.0.1:1\n"
        f"{loads}StartServers 2\nThreadsPerChild 25\nMaxRequestWorkers 150\nMaxSpareThreads 75\n"
        "SSLSessionCache shmcb:cache(512000)\n"
    )
    own = main.read_text()
    rng = random.Random(3)
    for _ in range(10):
        found = read_service(str(main), HERE, lambda: no_home(a_host(), ""))
        placed = place(found, space, server_name="", tls=True, proxied=False)
        drawn = draw_configuration(rng, placed.bound.space, placed.bound.baseline)
        (text,) = placed.texts(drawn).values()
        main.write_text(text)
        command = (server.binary, "-d", str(tmp_path), "-t", "-f", str(main))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        main.write_text(own)
        assert (done.returncode, done.stderr.strip()) == (0, "Syntax OK"), text
