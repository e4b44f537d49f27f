"""Idle CPUs in a study: what the user asks for, and what the host allows."""

from __future__ import annotations

import pytest

from tuner.app.notes import halting_note
from tuner.app.preflight import Preflight, preflight
from tuner.definition.study import BASE_STUDY, load_study, recorded_choices
from tuner.errors import DefinitionError
from tuner.hosts import idle_polling
from tuner.machine import idle

REFUSAL = "/dev/cpu_dma_latency: Permission denied; run as root"


def found(**options: str) -> Preflight:
    """Return the preflight of a study on this machine, as on a virtual one."""
    return preflight(load_study(BASE_STUDY, options), watch=False)


@pytest.fixture(autouse=True)
def virtual(monkeypatch: pytest.MonkeyPatch) -> None:
    """A virtual host that allows it."""
    monkeypatch.setattr(idle, "should_poll", lambda wanted, _host: wanted in {"auto", "poll"})
    monkeypatch.setattr(idle_polling, "refusal", lambda _cpus: "")


def test_they_poll_unless_the_user_wants_them_to_halt() -> None:
    """Nothing is said of it before the study; the report has it."""
    assert found().polls
    assert found(idle_cpus="poll").polls
    assert not found(idle_cpus="halt").polls
    assert not any("idle CPUs" in note for note in found().notes)


def test_where_the_host_does_not_allow_it_they_halt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A note names the reason. A user who demands it gets an error, with a way out."""
    monkeypatch.setattr(idle_polling, "refusal", lambda _cpus: REFUSAL)
    refused = found()
    assert not refused.polls
    assert halting_note(REFUSAL) in refused.notes
    assert halting_note(REFUSAL) not in found(idle_cpus="halt").notes
    with pytest.raises(DefinitionError, match="run as root; leave it out") as raised:
        found(idle_cpus="poll")
    assert raised.value.path == "--idle-cpus"


def test_a_study_of_an_older_version_halted() -> None:
    """Its record has no such choice, and its replication is measured likewise."""
    assert not found(**{key: str(value) for key, value in recorded_choices({}).items()}).polls
