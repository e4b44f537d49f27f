"""Configurations as files: written, read again, and answered when wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.spaces import load_space
from tuner.errors import DefinitionError
from tuner.space.space import BASELINES, Space, configuration_yaml, spaces


def bind(name: str) -> Space:
    """Return a built-in space on four cores and Nginx 1.22."""
    return load_space(name, server_cores=4)


@pytest.mark.parametrize("name", spaces())
@pytest.mark.parametrize("baseline", BASELINES)
def test_a_configuration_survives_being_written_and_read(
    tmp_path: Path, name: str, baseline: str
) -> None:
    """A written configuration is read back with the same digest, by tuner and by a YAML parser."""
    space = bind(name)
    configuration = space.baseline(baseline)
    path = tmp_path / "c.yaml"
    text = configuration_yaml(configuration, ["Found by a study.", "two\nlines"])
    path.write_text(text, encoding="utf-8")
    assert text.startswith(f"# Found by a study.\n# two lines\nserver: {space.server}\n")
    assert space.read_configuration(path).digest == configuration.digest
    assert yaml.safe_load(text)["values"] == configuration.values


def read(tmp_path: Path, text: str) -> dict[str, object]:
    """Return values of a configuration's file for the static space."""
    path = tmp_path / "c.yaml"
    path.write_text(text, encoding="utf-8")
    return dict(bind("nginx/static").read_configuration(path).values)


def test_values_are_written_as_in_nginx(tmp_path: Path) -> None:
    """on, 64k, 30s, off; the rest is compiled in."""
    text = (
        "space: nginx/static\nvalues:\n  sendfile: on\n  sendfile_max_chunk: 512k\n"
        "  keepalive_timeout: 30s\n  open_file_cache: off\n"
    )
    values = read(tmp_path, text)
    assert values["sendfile"] is True
    assert values["sendfile_max_chunk"] == 512 << 10
    assert values["keepalive_timeout"] == 30
    assert values["open_file_cache"] == "off"
    assert values["tcp_nopush"] is False


def test_what_a_file_leaves_out_is_as_in_its_baseline(tmp_path: Path) -> None:
    """``stock`` unless the file names another."""
    text = "space: nginx/static\nbaseline: distro\nvalues: {worker_processes: 3}\n"
    values = read(tmp_path, text)
    assert (values["worker_processes"], values["sendfile"], values["gzip"]) == (3, True, True)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("bcklog: 600", "c.yaml:3: unknown parameter 'bcklog'; did you mean 'backlog'?"),
        ("backlog: 5", "c.yaml:3: backlog: 5 is out of range; allowed: 511 to 65535 connections"),
        ("backlog: many", "c.yaml:3: backlog: 'many' is not allowed; allowed: 511 to 65535"),
        ("backlog: [1]", "c.yaml:3: backlog: expected text, found a list"),
        ("sendfile: maybe", "c.yaml:3: sendfile: 'maybe' is not allowed; allowed: on or off"),
        (
            "tcp_nopush: on",
            "c.yaml:3: tcp_nopush: has no effect unless sendfile is on; leave it out",
        ),
        (
            "{worker_processes: 2, reuseport: on, accept_mutex: on}",
            "has no effect unless worker_processes is above 1 and reuseport is off; leave it out",
        ),
        (
            "open_file_cache_valid: 10s",
            "open_file_cache_valid: has no effect unless open_file_cache is not off",
        ),
        ("backlog: 600\n  backlog: 700", "c.yaml:4: 'backlog' is given twice; first in line 3"),
    ],
)
def test_a_wrong_file_is_answered_at_its_line(tmp_path: Path, text: str, answer: str) -> None:
    """With the parameter, the bad value, and what is allowed."""
    with pytest.raises(DefinitionError) as raised:
        read(tmp_path, f"space: nginx/static\nvalues:\n  {text}\n")
    assert answer in str(raised.value)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("space: nginx/proxy\n", "c.yaml:1: space: 'nginx/proxy' is not nginx/static, the study's"),
        ("space: nginx/static\nserver: caddy\n", "c.yaml:2: server: 'caddy' is not allowed"),
        ("values: {}\n", "c.yaml:1: 'space' is missing"),
        ("space: nginx/static\nbaseline: best\n", "baseline: 'best' is not allowed; allowed: sto"),
        ("- 1\n", "c.yaml:1: expected a mapping, found a list"),
        ("", "c.yaml:1: expected a mapping, found nothing"),
    ],
)
def test_a_file_for_something_else_is_refused(tmp_path: Path, text: str, answer: str) -> None:
    """Another space, another server, no mapping."""
    with pytest.raises(DefinitionError) as raised:
        read(tmp_path, text)
    assert answer in str(raised.value)
