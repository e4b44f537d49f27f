"""The keys that name CPUs: in a study file, as options, and in the record."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.definition.study import BASE_STUDY, load_study
from tuner.errors import DefinitionError
from tuner.machine.placement import BY_RULES, WantedCpus


def test_without_them_the_rules_choose() -> None:
    """Neither the definition nor its record names CPUs."""
    found = load_study()
    assert found.cpus == BY_RULES
    assert found.as_dict()["server_cpus"] is None


def test_named_cpus_survive_the_record() -> None:
    """They are written as ranges and read again."""
    given = {"generator_cpus": "0", "server_cpus": "2-5,8", "backend_cpus": "6"}
    found = load_study(overrides=given)
    assert found.cpus == WantedCpus((0,), (2, 3, 4, 5, 8), (6,))
    assert load_study(BASE_STUDY, found.as_dict()).cpus == found.cpus


def test_a_wrong_list_is_refused_at_its_line(tmp_path: Path) -> None:
    """With the file, the line, the value and an example."""
    path = tmp_path / "mine.yaml"
    path.write_text("workload: static\nserver_cpus: 5-2\n", encoding="utf-8")
    with pytest.raises(DefinitionError) as refused:
        load_study(path)
    assert str(refused.value).startswith(f"{path}:2: server_cpus: '5-2' is not a list of CPUs; ")
    assert "0-3,8" in str(refused.value)
