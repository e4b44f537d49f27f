"""A search of one parameter: it, those that it needs, and no other."""

from __future__ import annotations

import pytest

from tests.spaces import load_space
from tuner.errors import DefinitionError
from tuner.space.only import only

PROXY = load_space("nginx/proxy")


def searched(*names: str, allow: tuple[str, ...] = ()) -> list[str]:
    """Return the searched parameters of a proxy."""
    return [parameter.name for parameter in only(PROXY, names, allow).searched(allow)]


def test_a_parameter_is_searched_alone() -> None:
    """The others keep the baseline's values."""
    assert searched("proxy_buffer_size") == ["proxy_buffer_size"]
    fixed = only(PROXY, ["proxy_buffer_size"])
    assert fixed.baseline("hand") == PROXY.baseline("hand")


def test_what_a_parameter_needs_is_searched_with_it() -> None:
    """Upstream connections are kept with HTTP/1.1 only."""
    assert searched("upstream_keepalive") == ["proxy_http_version", "upstream_keepalive"]


def test_a_trade_needs_consent() -> None:
    """The message has the trade-off and the option."""
    with pytest.raises(DefinitionError, match=r"buffer has a trade-off .*--allow access_log"):
        searched("access_log_buffer")
    assert searched("access_log_buffer", allow=("access_log_buffer",)) == ["access_log_buffer"]


@pytest.mark.parametrize(
    ("name", "words"),
    [("gzip", "has a single value here; searched: "), ("reuse_port", "did you mean 'reuseport'")],
)
def test_what_cannot_be_searched_is_refused(name: str, words: str) -> None:
    """With the reason and the parameters that can be."""
    with pytest.raises(DefinitionError, match=words):
        searched(name)


def test_without_names_the_space_stays() -> None:
    """No name means all."""
    assert only(PROXY, ()) is PROXY
