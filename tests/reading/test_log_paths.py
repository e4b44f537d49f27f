"""Shapes of targets: what becomes a placeholder, and how rare shapes join."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.reading.log_paths import example, shape, steps, wider
from tuner.reading.log_tally import Sample


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/", "/"),
        ("/about-us/team.html", "/about-us/team.html"),
        ("/v1/orders/1234", "/v1/orders/{id}"),
        ("/7", "/{id}"),
        ("/2024/05/01/a-title", "/{id}/{id}/{id}/a-title"),
        ("/post-2024-05-01", "/post-{id}"),
        ("/app.3f9a8c1b.js", "/app.{hash}.js"),
        ("/watch/dQw4w9WgXcQ", "/watch/{hash}"),
        ("/bootstrap4.min.css", "/bootstrap4.min.css"),
        ("/facade/decade", "/facade/decade"),
        ("/u/123e4567-e89b-12d3-a456-426614174000?tab=3", "/u/UUID?tab="),
        ("/" + "a/" * 40, "/" + "a/" * 11 + "{any}"),
    ],
)
def test_identifiers_become_placeholders_and_words_stay(target: str, expected: str) -> None:
    """Numbers, hashes and random texts; secrets become words before."""
    assert shape(target).target == expected


def test_a_shape_widens_step_by_step_to_anything() -> None:
    """First its query goes, then its last part, then a folder; the ending goes last."""
    seen = ["/a/b/c.js?v="]
    while (further := wider(seen[-1])) is not None:
        seen.append(further)
    assert seen[1:] == ["/a/b/c.js", "/a/b/{any}.js", "/a/{any}.js", "/{any}.js", "/{any}"]


@given(st.from_regex(r"/[a-z0-9./{}?=%]{0,30}", fullmatch=True))
def test_widening_ends(target: str) -> None:
    """Every step makes the number of steps smaller."""
    here: str | None = shape(target).target
    for _ in range(100):
        assert here is not None
        further = wider(here)
        if further is None:
            break
        assert steps(further) < steps(here)
        here = further
    else:
        pytest.fail(f"{target} widens without end")


def test_examples_of_a_shape_differ_and_keep_its_form() -> None:
    """A number stays a number, so a location that asks for digits still matches."""
    assert [example("/p/{id}.jpg?v=", n) for n in (0, 1)] == ["/p/1001.jpg?v=", "/p/1002.jpg?v="]
    assert [example("/u/UUID", n) for n in (0, 1)] == ["/u/UUID", "/u/UUID-2"]
    assert len({example("/x.{hash}.js", n) for n in range(50)}) == 50


def test_a_sample_stays_bounded_and_has_the_quantiles_of_all() -> None:
    """Also if two samples join, in proportion to their counts."""
    draw = random.Random(1)
    low, high = Sample(), Sample()
    for number in range(3_000):
        low.add(number, draw)
    for number in range(1_000):
        high.add(10_000 + number, draw)
    low.join(high, draw)
    assert low.count == 4_000
    assert len(low.values) == 64
    share = sum(value >= 10_000 for value in low.values) / 64
    assert share == pytest.approx(0.25, abs=0.15)
    assert low.quantiles(2)[0] == pytest.approx(1_000, abs=600)
