"""Bodies of requests: content of a type, exactly as long as asked."""

from __future__ import annotations

import json
from urllib.parse import parse_qsl

import pytest

from tuner.workload.bodies import BODY_KINDS, BodyKind, kind_of_type, make_body


@pytest.mark.parametrize("kind", BODY_KINDS)
def test_a_body_has_exactly_the_asked_length(kind: BodyKind) -> None:
    """From nothing to a large one, and the same in every run."""
    for size in (*range(40), 100, 999, 50_000):
        body = make_body(kind, size)
        assert len(body) == size
        assert body == make_body(kind, size)


def test_json_and_forms_are_well_formed_and_no_padding() -> None:
    """A parser reads many fields with text in them."""
    data = json.loads(make_body("json", 2_000))
    assert len(data) > 20
    assert json.loads(make_body("json", 30))
    fields = parse_qsl(make_body("form", 2_000).decode(), strict_parsing=True)
    assert len(fields) > 20
    assert len({value for _, value in fields}) > 20


def test_uploads_have_a_part_between_boundaries() -> None:
    """The bytes inside are random, as a picture's are."""
    body = make_body("multipart", 5_000)
    assert body.startswith(b"--tuner-")
    assert body.endswith(b"--\r\n")
    assert b'filename="photo.jpg"' in body


@pytest.mark.parametrize(
    ("media_type", "kind"),
    [
        ("application/json", "json"),
        ("application/ld+json", "json"),
        ("application/x-www-form-urlencoded", "form"),
        ("multipart/form-data", "multipart"),
        ("image/png", None),
    ],
)
def test_the_kind_follows_from_the_media_type(media_type: str, kind: BodyKind | None) -> None:
    """Types with a suffix count as their suffix."""
    assert kind_of_type(media_type) == kind
