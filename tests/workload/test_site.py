"""The generated site: the same bytes everywhere, of the size asked for."""

from __future__ import annotations

import hashlib
import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.workload.site import FILE_KINDS, SiteFile, content

KINDS = st.sampled_from(FILE_KINDS)


@given(st.integers(0, 20_000), KINDS)
def test_a_file_has_exactly_its_size(size: int, kind: str) -> None:
    """A file of any kind has exactly its size, even if too small to be well-formed."""
    assert len(content(SiteFile("/f", size, kind))) == size  # type: ignore[arg-type]


def test_the_bytes_never_change() -> None:
    """Records of different machines and versions can be compared."""
    page = content(SiteFile("/index.html", 1024, "html"))
    assert hashlib.sha256(page).hexdigest() == (
        "0a4a52bc6de1a6f663778e65cf84bc21f1ba2f569217c0e61c9563d4dd3aa946"
    )


def test_two_paths_have_different_bytes() -> None:
    """A server that mixes files up is found out."""
    assert content(SiteFile("/a", 999, "text")) != content(SiteFile("/b", 999, "text"))


@pytest.mark.parametrize(("kind", "least", "most"), [("html", 2, 8), ("binary", 0.9, 1.1)])
def test_text_compresses_as_text_does(kind: str, least: float, most: float) -> None:
    """So gzip has about as much to do as on a real page, and none to gain on binaries."""
    data = content(SiteFile("/f", 50_000, kind))  # type: ignore[arg-type]
    assert least < len(data) / len(zlib.compress(data)) < most


def test_json_is_json() -> None:
    """A generated document can be parsed."""
    assert json.loads(content(SiteFile("/f.json", 500, "json")))["text"]
