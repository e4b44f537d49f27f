"""A record for publication has no paths of its user's own programs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tuner.export.private_paths import without_private_paths
from tuner.export.results import write_results
from tuner.judge.results import evaluate
from tuner.record.file import read_record
from tuner.record.model import Record
from tuner.store.signature import made_here, sign, sign_beginning
from tuner.testing.sample_record import sample_record

HOME = "/home/someone/builds"
OWN = f"{HOME}/new/sbin/nginx"


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Record:
    """A signed study of a program in a home folder, which many texts of the record name."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    found = sample_record("better")
    unsigned = replace(
        found,
        command=f"tuner optimize --server-binary {OWN}",
        definition={**found.definition, "server_binary": OWN},
        server=replace(found.server, binary=OWN, build=f"built as {OWN}"),
        code={OWN: "0" * 64, "/usr/lib/libc.so.6": "1" * 64, f"{HOME}/libown.so": "2" * 64},
    )
    begun = replace(unsigned, signed=sign_beginning(unsigned))
    return replace(begun, signed=sign(begun))


def text_of(record: Record) -> str:
    """Return the whole record as JSON."""
    return json.dumps(msgspec.to_builtins(record))


def test_private_paths_become_names(record: Record) -> None:
    """Wherever they are; the system's own paths stay."""
    found = without_private_paths(record)
    assert HOME not in text_of(found)
    assert found.command == "tuner optimize --server-binary nginx"
    assert found.server.binary == "nginx"
    assert found.server.build == "built as nginx"
    assert list(found.code) == ["nginx", "/usr/lib/libc.so.6", "libown.so"]
    assert evaluate(found).sentence == evaluate(record).sentence


def test_programs_of_one_name_keep_what_differs(record: Record) -> None:
    """As much of the path stays as differs."""
    two = replace(record, code={OWN: "0" * 64, f"{HOME}/old/sbin/nginx": "1" * 64})
    assert list(without_private_paths(two).code) == ["new/sbin/nginx", "old/sbin/nginx"]
    assert without_private_paths(two).server.binary == "new/sbin/nginx"


def test_a_record_of_system_programs_is_published_as_it_is() -> None:
    """Nothing in it is private."""
    found = sample_record("better")
    assert without_private_paths(found) is found


def test_a_record_made_here_is_still_known_as_such(record: Record, tmp_path: Path) -> None:
    """And one from elsewhere, or a changed one, is not signed."""
    folder = tmp_path / "results"
    write_results([evaluate(record)], folder)
    assert HOME not in (folder / "report.md").read_text(encoding="utf-8")
    kept = read_record(folder / "record.json.gz")
    assert kept.server.binary == "nginx"
    assert made_here(kept) == "here"
    changed = replace(record, blocks=record.blocks[:-1])
    assert made_here(without_private_paths(changed)) != "here"
