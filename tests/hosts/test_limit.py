"""``--limit``: the hosts of an inventory that a command acts on."""

from __future__ import annotations

import pytest

from tuner.errors import DefinitionError
from tuner.hosts.inventory import Host, limited

HOSTS = [Host(name, {}) for name in ("a", "b", "c")]


@pytest.mark.parametrize(
    ("limit", "names"),
    [(None, "abc"), ("c,a", "ac"), (" b ", "b"), ("!b", "ac"), ("!a,!c", "b")],
)
def test_hosts_are_named_or_left_out(limit: str | None, names: str) -> None:
    """In the order of the inventory."""
    assert "".join(host.name for host in limited(HOSTS, limit)) == names


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("d", "no host 'd'; hosts: a, b, c"),
        ("!a,d", "no host 'd'"),
        ("a,!b", "both names hosts and leaves some out"),
        ("!a,!b,!c", "leaves no host"),
        ("", "leaves no host"),
    ],
)
def test_a_limit_that_selects_nothing_certain_is_refused(limit: str, words: str) -> None:
    """Nothing is changed on a host that was not meant."""
    with pytest.raises(DefinitionError, match=f"--limit: .*{words}"):
        limited(HOSTS, limit)
