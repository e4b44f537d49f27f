"""No value can end a directive of a Caddyfile and begin another, or become a placeholder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.render.placed import PLACEMENT
from tests.servers.labs import here
from tests.spaces import load_space
from tuner.errors import DefinitionError, HostError
from tuner.render.render import Placement, render
from tuner.servers import caddy
from tuner.space.configuration import Configuration

SPACE = load_space("caddy/proxy", server_cores=4, server_version=(2, 11, 4))
HAND = SPACE.baseline("hand")
HOSTILE = st.one_of(
    st.text(alphabet=' {}"`\\#$<\n\t/ax,', max_size=12),
    st.text(max_size=12),
    st.sampled_from(
        [
            "{$HOME}",
            "{env.HOME}",
            "} import /etc/passwd",
            "a\nadmin off",
            "<<X",
            "#",
            '"',
            "`\\",
            "",
        ]
    ),
)


def tokens(text: str) -> Iterator[tuple[int, str]]:  # noqa: C901 - one loop there, one loop here
    """Yield line and text of every token, by the rules of caddyconfig/caddyfile/lexer.go."""
    value, line, started = "", 1, 1
    quote, comment, escaped = "", False, False
    for char in text:
        if not escaped and quote != "`" and char == "\\":
            escaped = True
            continue
        if quote:
            if quote == '"' and escaped:
                value += "" if char == '"' else "\\"
            elif char == quote:
                yield started, value
                value, quote = "", ""
                continue
            escaped = False
            line += char == "\n"
            value += char
            continue
        if char.isspace():
            if char == "\n":
                line += not escaped
                comment = escaped = False
            if value:
                yield started, value
                value = ""
            continue
        comment = comment or (char == "#" and not value)
        if comment:
            continue
        if not value:
            started = line
            if char in '"`':
                quote = char
                continue
        value += "\\" if escaped else ""
        escaped = False
        value += char
    if value:
        yield started, value


def shape(text: str) -> list[tuple[int, bool]]:
    """Return the line of each token, and whether it is a brace: what no value may change."""
    return [(line, token in {"{", "}"}) for line, token in tokens(text)]


def written(placement: Placement = PLACEMENT) -> str:
    """Return the proxy's file."""
    return render("caddy/proxy", HAND, SPACE, placement, caddy.syntax)


REFERENCE = shape(written())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "on"),
        (0, "0"),
        ("/srv/a-b_c.d:80", "/srv/a-b_c.d:80"),
        ("", '""'),
        ("a b", "`a b`"),
        ("#a", "`#a`"),
        ('say "a"', '`say "a"`'),
        ("back\\slash", "`back\\slash`"),
        ("tick`", '"tick`"'),
        ('tick` "a"', '"tick` \\"a\\""'),
    ],
)
def test_how_values_are_written(value: object, text: str) -> None:
    """Bare if they are plain; between backticks, or double quotes where it holds one."""
    assert caddy.quote_caddyfile(value) == text
    if value and isinstance(value, str):
        assert [token for _, token in tokens(text)] == [value]


@pytest.mark.parametrize(
    "value", ["{$HOME}", "{env.HOME}", "}", "<<EOF", "`\\", "a\nb", "\x00", None, float("nan")]
)
def test_what_cannot_be_written_is_refused(value: object) -> None:
    """Variables, placeholders, blocks, heredocs and line ends have no escape."""
    with pytest.raises(DefinitionError):
        caddy.quote_caddyfile(value)


@given(HOSTILE)
@example("{$HOME}")
def test_every_value_is_read_as_it_was_meant(value: str) -> None:
    """One token of the same text, or a refusal."""
    try:
        text = caddy.quote_caddyfile(value)
    except DefinitionError:
        return
    assert [token for _, token in tokens(text)] == [value]
    assert "{" not in text


@given(HOSTILE)
@pytest.mark.parametrize("field", ["root", "run_dir", "log_dir", "digest", "live_path"])
def test_no_placement_adds_a_directive(field: str, value: str) -> None:
    """The file has the same structure as with harmless paths, or is refused."""
    if field == "live_path" and not value:
        return  # empty means that there is none
    try:
        text = written(replace(PLACEMENT, **{field: value}))  # type: ignore[arg-type]
    except DefinitionError:
        return
    assert shape(text) == REFERENCE
    assert "{$" not in text


@given(st.sampled_from(sorted(HAND.values)), HOSTILE)
def test_no_value_adds_a_directive(name: str, value: str) -> None:
    """Even one that no space would allow, as from a record that somebody edited."""
    edited = Configuration.of(SPACE.name, {**HAND.values, name: value})
    try:
        text = render("caddy/proxy", edited, SPACE, PLACEMENT, caddy.syntax)
    except DefinitionError:
        return
    # A word in place of a switch or a number may leave its directive out, or write it; what it
    # may not do is write anything that no value of the space could.
    known = {token for _, token in tokens(written())} | {value}
    known |= {"flush_interval", "-1", "encode", "zstd", "gzip", "/srv/logs/access.log"}
    assert {token for _, token in tokens(text)} <= known


@pytest.mark.integration
@pytest.mark.parametrize(
    "path", ["/srv/a b", '/srv/"a"', "/srv/`a`", "/srv/#a", "/srv/a\\b", "/srv/é;,"]
)
def test_a_real_caddy_reads_a_value_as_it_was_meant(path: str) -> None:
    """The root of the site, as the JSON has it that Caddy makes of the file."""
    facts = here("caddy")
    space = load_space("caddy/static", server_version=facts.version_tuple, modules=facts.modules)
    text = caddy.export_text(
        space.baseline("stock"), space, replace(PLACEMENT, root=path, upstreams=())
    )
    assert json.dumps(path) in json.dumps(json.loads(caddy.adapt(text, facts.binary)))


@pytest.mark.integration
def test_what_caddy_refuses_is_said_in_its_words() -> None:
    """Not a traceback."""
    facts = here("caddy")
    with pytest.raises(HostError, match="bogus"):
        caddy.adapt(":80 {\n\tbogus\n}\n", facts.binary)


def test_the_labs_cores_are_no_advice() -> None:
    """Threads are exported where they were chosen, and not where Go itself takes as many."""
    fewer = SPACE.complete({"gomaxprocs": 2}, HAND)
    assert "GOMAXPROCS=2" in caddy.export_text(fewer, SPACE)
    same = caddy.export_text(HAND, SPACE)
    assert "GOGC=400" in same
    assert "GOMAXPROCS" not in same
