"""Baselines by their names: which configurations a study's definition means."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.space.test_kernel import load
from tuner.app.bind import published_notes, read_baselines, read_configuration
from tuner.definition.study import load_study
from tuner.errors import DefinitionError
from tuner.space.space import configuration_yaml

SPACE = load("nginx/static")
STOCK = SPACE.baseline("stock")
THEIRS = SPACE.complete({"keepalive_requests": 100_000, "sendfile": True}, STOCK)


def study(tmp_path: Path, baselines: str) -> Path:
    """Return a study that publishes THEIRS in a file next to it."""
    (tmp_path / "blog.yaml").write_text(configuration_yaml(THEIRS))
    path = tmp_path / "mine.yaml"
    path.write_text(f"workload: static\nbaseline: {baselines}\npublished: blog.yaml\n")
    return path


def test_the_published_configuration_is_the_file_next_to_the_study(tmp_path: Path) -> None:
    """The file is the first baseline, a further one, or an arm of ``tuner compare``."""
    both = load_study(study(tmp_path, "[stock, published]"))
    assert read_baselines(both, SPACE) == [STOCK, THEIRS]
    alone = load_study(study(tmp_path, "published"))
    assert read_baselines(alone, SPACE) == [THEIRS]
    assert read_configuration("published", SPACE, both.published) == THEIRS
    with pytest.raises(DefinitionError, match="names no published configuration"):
        read_configuration("published", SPACE)


def test_what_was_published_and_has_no_parameter_is_reported(tmp_path: Path) -> None:
    """By the file's own list, or as a setting that the space does not know; the rest holds."""
    defined = study(tmp_path, "published")
    lost = "  no_such_setting: 3\nnot_carried:\n  - 'use epoll: what Nginx chooses anyway'\n"
    (tmp_path / "blog.yaml").write_text(configuration_yaml(THEIRS).rstrip() + f"\n{lost}")
    found = load_study(defined)
    assert read_baselines(found, SPACE) == [THEIRS]
    assert published_notes(found, SPACE) == (
        "not carried over from the published configuration: use epoll: what Nginx chooses anyway",
        "not carried over from the published configuration: no_such_setting 3: no such parameter",
    )
    assert published_notes(replace(found, baseline="stock"), SPACE) == ()


def test_two_names_for_one_configuration_are_refused(tmp_path: Path) -> None:
    """A configuration with two names is refused; the message says which name to leave out."""
    path = tmp_path / "same.yaml"
    path.write_text(configuration_yaml(STOCK))
    wanted = load_study(study(tmp_path, f"[stock, hand, {path}]"))
    with pytest.raises(DefinitionError, match=r"stock and .*same\.yaml are the same") as caught:
        read_baselines(wanted, SPACE)
    assert "leave one of them out" in str(caught.value)
