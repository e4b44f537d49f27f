"""Apache's template and quotes: text in its own language with any values."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.render.placed import LAB
from tests.servers.labs import here
from tests.spaces import load_space
from tuner.errors import DefinitionError
from tuner.reading.apache_text import lines, statements
from tuner.render.render import EXPORT, Placement, render
from tuner.servers import apache
from tuner.space.configuration import Configuration

MODULES = ("deflate", "filter", "http2", "socache_shmcb", "ssl", "status")
SPACE = load_space("apache/proxy", server_version=(2, 4, 62), modules=MODULES)
HAND = SPACE.baseline("hand")
PLACEMENT = replace(LAB, upstreams=("127.0.0.1:18081",))
HOSTILE = st.text(st.sampled_from("ab{}$<>\\\"'#%*|~ \n\r\t\x00é/"), max_size=12)


def written(placement: Placement = PLACEMENT, configuration: Configuration = HAND) -> str:
    """Return the file of a configuration."""
    return render("apache/proxy", configuration, SPACE, placement, apache.syntax)


def shape(text: str) -> list[tuple[str, str, int]]:
    """Return the kind and the first word of each line with the number of its words."""
    return [(line.kind, line.words[0], len(line.words)) for line in lines(text)]


def directives(text: str) -> dict[str, tuple[str, ...]]:
    """Return the arguments of each directive by name; the last one of a name."""
    return {line.words[0]: line.words[1:] for line in lines(text)}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"threads_per_child": 25}, {"MaxRequestWorkers": ("1025",), "ServerLimit": ("41",)}),
        ({"threads_per_child": 64}, {"MaxRequestWorkers": ("1024",)}),
        ({"threads_per_child": 128}, {"MaxRequestWorkers": ("1024",), "ThreadLimit": ("128",)}),
    ],
)
def test_the_processes_suffice_for_the_requests(
    values: dict[str, int], expected: dict[str, tuple[str, ...]]
) -> None:
    """They are whole, and limits that Apache has by itself are raised where they are exceeded."""
    found = directives(written(configuration=SPACE.complete(values, HAND)))
    limits = {"MaxRequestWorkers", "ServerLimit", "ThreadLimit"} & set(found)
    assert {name: found[name] for name in limits} == expected


@pytest.mark.parametrize(
    ("values", "started", "spare"),
    [
        ({"threads_per_child": 64, "start_threads": 123}, "2", "256"),
        ({"threads_per_child": 128, "start_threads": 400}, "4", "512"),
    ],
)
def test_all_processes_are_there_from_the_start(
    values: dict[str, int], started: str, spare: str
) -> None:
    """They are whole, and Apache ends none of them for having idle threads."""
    found = directives(written(configuration=SPACE.complete(values, HAND)))
    assert (found["StartServers"], found["MaxSpareThreads"]) == ((started,), (spare,))


def test_fewer_threads_than_the_load_and_the_spare_ones_are_refused() -> None:
    """Apache would start processes during a window."""
    with pytest.raises(DefinitionError, match="min_spare_threads"):
        SPACE.complete({"min_spare_threads": 200}, HAND)


def test_a_setting_that_is_left_to_apache_is_not_written() -> None:
    """`auto` and `none` stand for a key's absence, and no ratio of sockets can be 0."""
    stock = SPACE.baseline("stock")
    found = directives(written(configuration=stock))
    assert "ListenCoresBucketsRatio" not in found
    assert found["ProxyPass"] == ("/", "http://127.0.0.1:18081/", "disablereuse=off")
    values = {"proxy_max": 8, "proxy_ttl": 5, "listen_cores_buckets_ratio": 1}
    found = directives(written(configuration=SPACE.complete(values, stock)))
    assert found["ListenCoresBucketsRatio"] == ("1",)
    assert found["ProxyPass"][2:] == ("max=8", "ttl=5", "disablereuse=off")


def test_several_backends_are_balanced_with_the_same_pools() -> None:
    """Each is a member with the keys that one alone has."""
    tuned = SPACE.complete({"proxy_ttl": 5}, HAND)
    text = written(replace(PLACEMENT, upstreams=("127.0.0.1:1", "127.0.0.1:2")), tuned)
    members = [line.words[1:] for line in lines(text) if line.name == "balancermember"]
    assert members == [(f"http://127.0.0.1:{port}", "ttl=5", "disablereuse=off") for port in (1, 2)]
    assert "mod_lbmethod_byrequests.so" in text
    assert "mod_lbmethod_byrequests.so" not in written()


def test_only_modules_that_are_needed_are_loaded() -> None:
    """TLS and HTTP/2 bring theirs, and so does what a baseline ships."""
    https = written(replace(PLACEMENT, tls_dir="/srv/tls", protocol="http2"))
    assert {"mod_ssl.so", "mod_http2.so"} <= {Path(w).name for w in _loaded(https)}
    plain = {Path(word).name for word in _loaded(written())}
    assert plain.isdisjoint({"mod_ssl.so", "mod_http2.so", "mod_deflate.so", "mod_status.so"})
    distro = {Path(w).name for w in _loaded(written(configuration=SPACE.baseline("distro")))}
    assert distro - plain == {"mod_filter.so", "mod_deflate.so", "mod_status.so"}


def _loaded(text: str) -> list[str]:
    return [line.words[2] for line in lines(text) if line.name == "loadmodule"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "on"),
        (0, "0"),
        ("/srv/a-b_c.d:80", "/srv/a-b_c.d:80"),
        ("", '""'),
        ("a b", '"a b"'),
        ("$HOME", '"$HOME"'),
        ("50%", '"50%"'),
        ('a"b', '"a\\"b"'),
        ("back\\", '"back\\\\"'),
    ],
)
def test_how_values_are_written(value: object, text: str) -> None:
    """Bare if they are plain, else between double quotes."""
    assert apache.quote_apache(value) == text


@pytest.mark.parametrize(
    "value", ["${HOME}", "a%{REQUEST_URI}", "/srv/*", "/srv/[ab]", "|/bin/sh", "~", "a\nb", "a\\\n"]
)
def test_what_apache_would_take_for_something_else_is_refused(value: str) -> None:
    """Variables, expressions, patterns, programs and the ends of lines."""
    with pytest.raises(DefinitionError):
        apache.quote_apache(value)


@given(HOSTILE)
@example("a\\")
def test_every_value_is_read_as_it_was_meant(value: str) -> None:
    """One word of the same text, or a refusal."""
    try:
        text = apache.quote_apache(value)
    except DefinitionError:
        return
    assert [line.words for line in lines(f"Name {text}\nNext")] == [("Name", value), ("Next",)]


@settings(max_examples=25)
@given(HOSTILE)
@pytest.mark.parametrize("field", ["run_dir", "log_dir", "digest", "live_path", "server_name"])
def test_no_placement_adds_a_directive(field: str, value: str) -> None:
    """The file has the same structure as with harmless paths, or is refused."""
    if field == "live_path" and not value:
        return  # empty means that there is none
    try:
        text = written(replace(PLACEMENT, **{field: value}))  # type: ignore[arg-type]
    except DefinitionError:
        return
    assert shape(text) == shape(written())


@settings(max_examples=60)
@given(st.sampled_from(sorted(HAND.values)), HOSTILE)
def test_no_value_adds_a_section_or_a_directive(name: str, value: str) -> None:
    """Even one that no space would allow, as from a record that somebody edited."""
    edited = Configuration.of(SPACE.name, {**HAND.values, name: value})
    try:
        text = written(PLACEMENT, edited)
    except DefinitionError:
        return
    optional = {"ListenCoresBucketsRatio", "DeflateCompressionLevel", "AddOutputFilterByType"}
    optional |= {"LoadModule", "IfModule", "CustomLog"}
    known = {line.words[0] for line in lines(written())} | optional
    assert {statement.name for statement in statements(text)} <= known


def test_an_export_fits_packages_and_the_image() -> None:
    """Modules and logs are found by where they are, and the server gives up its rights."""
    text = apache.export_text(HAND, SPACE, EXPORT)
    found = directives(text)
    assert found["User"] == ("${ACCOUNT}",)
    assert found["ServerName"] == ("localhost",)
    assert found["CustomLog"][0] == "${LOGS}/access.log"
    assert {"/usr/lib/apache2/modules", "modules"} <= {
        line.words[2]
        for line in lines(text)
        if line.name == "define" and line.words[1] == "MODULES"
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('Name "a b" \'c"d\' e\\\\f # g', [("Name", "a b", 'c"d', "e\\f", "#", "g")]),
        ("# Name a\n  \nNext b", [("Next", "b")]),
        ("Name a \\\n  b\nNext", [("Name", "a", "b"), ("Next",)]),
        ("# a \\\nName b\nNext", [("Next",)]),
        ("Name a\\\\", [("Name", "a\\")]),
        ('<Name "a>b">\n</Name>', [("Name", "a>b"), ("Name",)]),
    ],
)
def test_how_lines_are_read(text: str, expected: list[tuple[str, ...]]) -> None:
    """A comment is continued too, and no comment begins after a directive."""
    assert [line.words for line in lines(text)] == expected


@pytest.mark.parametrize("text", ["<A>\n<B>\n</A>", "<A>", "</A>"])
def test_sections_that_are_not_nested_are_refused(text: str) -> None:
    """As by Apache itself."""
    with pytest.raises(DefinitionError, match=r"line \d"):
        list(statements(text))


@pytest.mark.integration
@pytest.mark.parametrize("packaged", [True, False])
def test_a_real_apache_takes_an_export(tmp_path: Path, packaged: bool) -> None:
    """In the folders of Debian's package, and in those below the server's root."""
    binary = here("apache").binary
    script = f'{apache.FIND_MODULES}; echo "$MODULES"'
    found = subprocess.run(["sh", "-c", script, "find", binary], capture_output=True, check=True)
    (tmp_path / "logs").mkdir()
    (tmp_path / "modules").symlink_to(found.stdout.decode().strip())
    text = apache.export_text(SPACE.baseline("distro"), SPACE, EXPORT)
    debian = tmp_path if packaged else tmp_path / "none"
    for folder, here_is in [("/usr/lib/apache2", debian), ("/var/log/apache2", debian / "logs"),
                            ("/run/apache2", debian)]:  # fmt: skip
        text = text.replace(folder, str(here_is))
    (tmp_path / "httpd.conf").write_text(text, encoding="utf-8")
    command = [binary, "-t", "-d", str(tmp_path), "-f", str(tmp_path / "httpd.conf")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "Syntax OK"


@pytest.mark.integration
def test_a_real_apache_reads_a_value_as_it_was_meant(tmp_path: Path) -> None:
    """Each value is the name of a folder, which Apache looks for."""
    binary = here("apache").binary
    names = ["a b", "$HOME", "it's", 'a"b', "\\", "\\n", 'c\\"d', "é;,%<>"]
    roots = ""
    for number, name in enumerate(names):
        (tmp_path / name).mkdir()
        root = apache.quote_apache(str(tmp_path / name))
        roots += f"<VirtualHost 127.0.0.1:{number + 1}>\nDocumentRoot {root}\n</VirtualHost>\n"
    assert _checked(binary, tmp_path, roots) == "Syntax OK"
    (tmp_path / 'c\\"d').rmdir()
    assert "does not exist" in _checked(binary, tmp_path, roots)


def _checked(binary: str, folder: Path, text: str) -> str:
    """Return what Apache says of a configuration."""
    mpm = (
        '<IfModule !mpm_event_module>\nLoadModule mpm_event_module "${MODULES}/mod_mpm_event.so"\n'
    )
    file = folder / "httpd.conf"
    file.write_text(f"{mpm}</IfModule>\nErrorLog /dev/null\nServerName a\n{text}", encoding="utf-8")
    run = f'{apache.FIND_MODULES}; "$@" -C "Define MODULES $MODULES"'
    command = ["sh", "-c", run, "check", binary, "-t", "-d", str(folder), "-f", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr.strip()
