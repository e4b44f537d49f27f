"""A target's kernel settings are read without a change; a refusal names a way out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tuner.errors import DefinitionError
from tuner.hosts.kernel import look, names_to_look_at, seen
from tuner.space.kernel import ALGORITHMS, OPEN_FILES, KernelState

SOMAXCONN, CORKING = "net.core.somaxconn", "net.ipv4.tcp_autocorking"
FOUND: dict[str, Any] = {
    "texts": {SOMAXCONN: "4096", CORKING: "1", ALGORITHMS: "reno cubic"},
    "missing": {"net.core.busy_poll": "is not there", ALGORITHMS: "cannot be changed"},
    "root": True,
    "open_files": 20_000,
}


def test_what_can_be_changed_and_what_cannot() -> None:
    """The list of algorithms is read-only by nature, which is nobody's loss."""
    assert seen(FOUND) == KernelState(
        {**FOUND["texts"], OPEN_FILES: "20000"}, {"net.core.busy_poll": "is not there"}
    )
    assert seen({**FOUND, "open_files": -1}).texts[OPEN_FILES] == "1048576"
    assert names_to_look_at([OPEN_FILES, SOMAXCONN]) == [SOMAXCONN, ALGORITHMS]


def test_without_root_nothing_can() -> None:
    """Without root the settings are refused, with the reason and a way out."""
    with pytest.raises(DefinitionError, match=r"need root: .*\(sudo; ansible_become"):
        seen({**FOUND, "root": False})


def test_a_container_that_may_change_nothing() -> None:
    """A container without changeable settings is refused with the reason."""
    missing = dict.fromkeys((SOMAXCONN, CORKING), "cannot be changed here: a container")
    with pytest.raises(DefinitionError, match=r"can be changed here \(cannot be changed here: a"):
        seen({**FOUND, "missing": missing})


@pytest.mark.root
@pytest.mark.skipif(
    os.geteuid() != 0 or not os.access("/proc/sys/net/core/somaxconn", os.W_OK),
    reason="no setting of this kernel can be changed: nothing real was looked at",
)
def test_this_machine_is_looked_at_and_not_changed() -> None:
    """A setting has the kernel's own text; a missing one has a reason."""
    path = Path("/proc/sys/net/core/somaxconn")
    before = path.read_text()
    found = look([SOMAXCONN, "net.ipv4.tcp_no_such"])
    assert found.texts[SOMAXCONN] == before.strip()
    assert "is not there" in found.missing["net.ipv4.tcp_no_such"]
    assert path.read_text() == before
