"""``tuner doctor`` draws the processors of a host, and names what disturbs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.machine.machines import machine
from tuner.cli import doctor
from tuner.hosts import local


def rows_on(name: str, monkeypatch: pytest.MonkeyPatch) -> list[doctor.DoctorRow]:
    """Return the host's rows on a real machine of another kind."""
    here, there = local.facts(), machine(name).topology
    facts = replace(here, cpus=there.allowed, topology=there)
    monkeypatch.setattr(local, "facts", lambda: facts)
    return doctor._host()


def test_the_topology_is_drawn_with_who_runs_where(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line about the host, one per used node, and notes with remedies."""
    rows = rows_on("epyc-2-sockets-16-caches", monkeypatch)
    first = next(i for i, row in enumerate(rows) if row.what == "topology")
    texts = [row.text for row in rows[first : first + 4]]
    assert texts == [
        "96 CPUs, 48 cores of up to 2 threads, 2 sockets, 8 memory nodes, 16 last-level caches",
        "node 0: generator 0, server 1-5,49-53, idle 48",
        "7 others: idle 6-47,54-95",
        "frequency: governor performance, turbo on",
    ]
    notes = [row.text for row in rows[first + 4 :] if row.state == "warning"]
    assert any("--server-cpus" in note for note in notes)
    assert "generator on core 0, server on cores 1-5,49-53" in [row.text for row in rows]


def test_json_has_the_topology_as_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each CPU with its core, and the placement."""
    rows = rows_on("laptop-2-cores", monkeypatch)
    data = next(row for row in rows if row.what == "topology").as_dict()
    assert [cpu["core"] for cpu in data["topology"]["cpus"]] == [0, 1, 0, 1]  # type: ignore[index]
    assert data["placement"]["server"] == (1, 3)  # type: ignore[index]


def test_two_threads_of_one_core_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest machine of a cloud: it says what that means."""
    warned = [r.text for r in rows_on("one-core-two-threads", monkeypatch) if r.state == "warning"]
    assert any("two threads of one core" in text for text in warned)
