"""Tests of quoting: no value can end a directive and begin another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.render.placed import PLACEMENT
from tests.spaces import load_space
from tuner.errors import DefinitionError
from tuner.reading.nginx_text import Clause, parse
from tuner.render.render import render, render_backend
from tuner.render.syntax import quote_nginx
from tuner.space.configuration import Configuration
from tuner.space.space import Space
from tuner.workload.workload import Backend, load_workload

# Mostly characters that are special to Nginx's reader, and any other text.
HOSTILE = st.one_of(
    st.text(alphabet=" ;{}\"'\\#$\n\t/ax", max_size=12),
    st.text(max_size=12),
    st.sampled_from(["off; user root", '"; }', "a\\", "$uri", "${x}", "#", "a\nb", "\ud800", ""]),
)


def structure(text: str) -> Any:
    """Return names of the directives, how many arguments each has, and what stands in its block."""

    def shape(block: Sequence[Clause]) -> list[Any]:
        return [(one.name, len(one.words) - 1, shape(one.block or ())) for one in block]

    return shape(parse(text))


def bind(name: str) -> Space:
    """Return a built-in space."""
    return load_space(name, server_cores=4)


PROXY = bind("nginx/proxy")
HAND = PROXY.baseline("hand")
REFERENCE = structure(render("nginx/proxy", HAND, PROXY, PLACEMENT))


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (True, "on"),
        (False, "off"),
        (0, "0"),
        (-7, "-7"),
        (0.5, "0.5"),
        ("plain", "plain"),
        ("/srv/a-b_c.d:80", "/srv/a-b_c.d:80"),
        ("", '""'),
        ("a b", '"a b"'),
        ("a;b", '"a;b"'),
        ("{a}", '"{a}"'),
        ("#a", '"#a"'),
        ("it's", '"it\'s"'),
        ('say "a"', '"say \\"a\\""'),
        ("back\\slash", '"back\\\\slash"'),
        ("ä", '"ä"'),
    ],
)
def test_how_values_are_written(value: object, written: str) -> None:
    """Bare if they are plain, between double quotes otherwise."""
    assert quote_nginx(value) == written


@pytest.mark.parametrize(
    "value", ["$uri", "a\nb", "a\x00", "\x7f", "\u2028", float("nan"), float("inf"), None, [1]]
)
def test_what_cannot_be_written_is_refused(value: object) -> None:
    """Variables have no escape, and control characters no business here."""
    with pytest.raises(DefinitionError):
        quote_nginx(value)


@given(HOSTILE)
@pytest.mark.parametrize(
    "field", ["listen", "server_name", "root", "run_dir", "log_dir", "digest", "live_path", "user"]
)
def test_no_placement_adds_a_directive(field: str, value: str) -> None:
    """The file has the same structure as with harmless paths, or is refused."""
    if field in ("live_path", "user") and not value:
        return  # empty means that there is none
    try:
        text = render("nginx/proxy", HAND, PROXY, replace(PLACEMENT, **{field: value}))  # type: ignore[arg-type]
    except DefinitionError:
        return
    assert structure(text) == REFERENCE


@given(HOSTILE)
def test_no_upstream_adds_a_directive(value: str) -> None:
    """Nor does an address."""
    try:
        text = render("nginx/proxy", HAND, PROXY, replace(PLACEMENT, upstreams=(value,)))
    except DefinitionError:
        return
    assert structure(text) == REFERENCE


@given(st.sampled_from(sorted(HAND.values)), HOSTILE)
@settings(max_examples=400)
def test_no_value_adds_a_directive(name: str, value: str) -> None:
    """Even one that no space would allow, as from a record that somebody edited."""
    try:
        text = render(
            "nginx/proxy",
            Configuration.of(PROXY.name, {**HAND.values, name: value}),
            PROXY,
            PLACEMENT,
        )
    except DefinitionError:
        return
    # A word in place of a switch or a number may leave its directive out, or write it; what it
    # may not do is write anything that no value of the space could.
    known = {directive for directive, *_ in flatten(REFERENCE)}
    assert {directive for directive, *_ in flatten(structure(text))} <= known
    assert len(flatten(structure(text))) <= len(flatten(REFERENCE)) + 1


def flatten(block: list[Any]) -> list[Any]:
    """Return all directives, at any depth."""
    return [item for entry in block for item in (entry, *flatten(entry[2]))]


BODIES = st.text(
    alphabet=st.characters(exclude_categories=["Cs", "Cc"], include_characters="\t\n\r"),
    max_size=40,
)


@given(st.one_of(BODIES, st.text(alphabet=" ;{}\"\\$\n\t'#a", max_size=30)))
def test_no_body_adds_a_directive(body: str) -> None:
    """A backend answers any text, dollar signs and line ends included."""
    workload = replace(load_workload("proxy"), backend=Backend(body.encode(), "application/json"))
    found = structure(render_backend(workload, PLACEMENT))
    plain = structure(render_backend(load_workload("proxy"), PLACEMENT))
    geo: Any = ("geo", 1, [("default", 1, [])])
    found = [
        (name, count, [entry for entry in block if entry != geo]) for name, count, block in found
    ]
    assert found == plain
