"""Tests of redaction: personal data of a log does not reach a workload."""

from __future__ import annotations

import base64
import json
import string
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.reading.redaction import redact, redaction_summary
from tuner.workload.workload_keys import SITE_PATH, TARGET

WORDS = st.text(string.ascii_lowercase, min_size=1, max_size=9)
PATHS = st.lists(WORDS, max_size=4).map(lambda words: "/" + "/".join(words))


def base64url(content: bytes) -> str:
    """Without padding, as tokens are written."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


JWTS = st.tuples(
    st.dictionaries(WORDS, WORDS, min_size=1), st.binary(min_size=32, max_size=32)
).map(
    lambda parts: ".".join(
        base64url(part)
        for part in (
            b'{"alg":"HS256"}',
            json.dumps(parts[0], separators=(",", ":")).encode(),
            parts[1],
        )
    )
)
HEX = st.binary(min_size=16, max_size=40).map(bytes.hex)
EMAILS = st.tuples(WORDS, WORDS, st.sampled_from(["org", "de", "example"])).map(
    lambda parts: "{}.x@{}.{}".format(*parts)
)
SECRETS = st.one_of(JWTS, HEX, HEX.map(str.upper), st.uuids().map(str), EMAILS)


@given(PATHS, SECRETS, PATHS, st.sampled_from(["{}", "x-{}.js", "reset;token={}", "{}.tar.gz"]))
def test_a_secret_in_a_path_is_replaced(before: str, secret: str, after: str, form: str) -> None:
    """Alone, as part of a file's name, or as a parameter; the rest stays, and can be asked for."""
    target = f"{before}/{form.format(secret)}{after}"
    found = redact(target)
    assert secret not in found.target
    assert len(found.kinds) == 1
    assert found.target.startswith(before)
    assert found.target.endswith(after)
    assert TARGET.fullmatch(found.target)


@given(PATHS, st.lists(st.tuples(WORDS, st.text(string.printable.strip(), max_size=30))))
def test_no_value_of_a_query_is_kept(path: str, pairs: list[tuple[str, str]]) -> None:
    """Their names are, in their order."""
    kept = [(name, value.replace("&", "").replace(";", "")) for name, value in pairs]
    target = f"{path}?" + "&".join(f"{name}={value}" for name, value in kept)
    found = redact(target)
    assert found.target == f"{path}?" + "&".join(f"{name}=" for name, _ in kept)
    assert len(found.kinds) == sum(bool(value) for _, value in kept)


@given(PATHS, WORDS, SECRETS, WORDS)
def test_kept_values_hold_no_likely_secret(path: str, name: str, secret: str, word: str) -> None:
    """With --keep-query what looks like one is replaced all the same."""
    found = redact(f"{path}?{name}={secret}&page={word}", keep_query=True)
    assert secret not in found.target
    assert found.target.endswith(f"&page={word}")


@given(st.text(string.printable.strip(), max_size=80).map(lambda text: "/" + text))
def test_what_was_redacted_stays_as_it_is(target: str) -> None:
    """A second time nothing is found, and it is a target still."""
    once = redact(target).target
    assert redact(once) == redact(once, keep_query=True)
    assert redact(once).target == once
    assert redact(once).kinds == ()
    assert TARGET.fullmatch(once)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/index.html",
        "/blog/2024/how-to-configure-nginx-for-high-traffic-in-2024.html",
        "/Articles/How-To-Configure-Nginx-In-2024-Properly",
        "/api/v1/getUserAccountDetailsByIdentifier",
        "/img/logo@2x.png",
        "/img/hero@1.5x.webp",
        "/video/trailer-1080p-h264-aac-2ch.mp4",
        "/npm/@scope/package-1.2.3.tgz",
        "/commit/8f0cb16",
        "/orders/123456789",
        "/caf%C3%A9/menu",
    ],
)
def test_what_is_no_secret_stays(path: str) -> None:
    """Words, dates, numbers of versions and short hashes are asked for as they were."""
    assert redact(path) == redact(path, keep_query=True)
    assert redact(path).target == path


@pytest.mark.parametrize(
    ("target", "redacted", "kind"),
    [
        ("/u/kim%40example.org/cart", "/u/EMAIL/cart", "e-mail addresses"),
        ("/reset/aB3dE5gH7iJ9kL1mN3pQ", "/reset/TOKEN", "texts that look random"),
        ("/app-0123456789abcdef0123456789abcdef.js", "/app-HEX.js", "long hexadecimal numbers"),
        ("/a;jsessionid=1A2B", "/a;jsessionid=", "values of path parameters"),
        ("/unsubscribe?kim@example.org", "/unsubscribe?", "values of queries"),
        ("/x?token", "/x?", "values of queries"),
    ],
)
def test_the_kinds_of_what_is_left_out(target: str, redacted: str, kind: str) -> None:
    """Each is counted by its kind."""
    found = redact(target)
    assert (found.target, found.kinds) == (redacted, (kind,))


def test_what_is_replaced_in_a_path_is_a_file_of_a_site() -> None:
    """The lab can set it up."""
    for word in ("JWT", "EMAIL", "UUID", "HEX", "TOKEN"):
        assert SITE_PATH.fullmatch(f"/reset/{word}/index.html")


def test_the_kinds_in_words() -> None:
    """The most frequent first."""
    assert redaction_summary(Counter({"UUIDs": 2, "values of queries": 1200})) == (
        "1,200 values of queries, 2 UUIDs"
    )
