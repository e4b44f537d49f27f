"""Tests of a record's signature: begun and measured here, changed since, or from elsewhere."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.phases.rig import Rig, rig
from tuner.record.file import read_record, write_record
from tuner.record.model import Record
from tuner.store.signature import _content, key_file, made_here, read_key, sign, sign_beginning
from tuner.store.store import Store
from tuner.testing.sample_record import sample_record


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This user's own state."""
    folder = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


@pytest.fixture(scope="module")
def unsigned(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """A whole study, of nobody."""
    path = tmp_path_factory.mktemp("unsigned") / "record.json.gz"
    write_record(sample_record("better", trials=6), path)
    return read_record(path)


@pytest.fixture
def record(unsigned: Record) -> Record:
    """The same study, made here."""
    begun = replace(unsigned, signed=sign_beginning(unsigned))
    return replace(begun, signed=sign(begun))


def test_a_record_of_this_user_is_known_again(record: Record, tmp_path: Path) -> None:
    """Also from a file, which leaves out what no report needs."""
    assert made_here(record) == "here"
    path = tmp_path / "record.json.gz"
    write_record(record, path)
    assert made_here(read_record(path)) == "here"


def test_a_key_is_on_the_disk_before_it_signs(
    unsigned: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power failure after the first signature leaves the key: its content, then its name."""
    synchronised: list[str] = []

    def noted(number: int) -> None:
        synchronised.append(str(Path(f"/proc/self/fd/{number}").readlink()))

    monkeypatch.setattr(os, "fsync", noted)
    sign_beginning(unsigned)
    content, name = synchronised
    assert content.startswith(f"{key_file()}.")
    assert name == str(key_file().parent)


def test_a_record_from_before_slots_keeps_its_signature(unsigned: Record) -> None:
    """A record from before slots keeps its signature; a slot added later breaks it."""
    blocks = tuple(
        replace(block, instances=tuple(replace(i, slot=None) for i in block.instances))
        for block in unsigned.blocks
    )
    old = replace(unsigned, blocks=blocks)
    content = _content(old)
    assert not any("slot" in i for block in content["blocks"] for i in block["instances"])
    signed = replace(unsigned, signed=sign_beginning(unsigned))
    signed = replace(signed, signed=sign(signed))
    assert made_here(replace(signed, blocks=blocks)) == "changed"


def test_a_record_from_before_products_keeps_its_signature(unsigned: Record) -> None:
    """A server without a product of its own has the content that older versions signed."""
    assert "product" not in _content(unsigned)["server"]
    server = replace(unsigned.server, product="OpenResty 1.25.3.1 (nginx 1.25.3)")
    assert "product" in _content(replace(unsigned, server=server))["server"]


def test_a_record_of_another_user_is_not(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another key, or none; nor is one without hashes, as earlier versions wrote them."""
    assert made_here(replace(record, signed=type(record.signed)())) == "elsewhere"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    assert made_here(record) == "elsewhere"
    sign_beginning(record)
    assert made_here(record) == "elsewhere"


def test_what_decides_what_is_applied_cannot_be_changed_unseen(record: Record) -> None:
    """Texts, values, further files, windows, the frozen protocol; what was applied may grow."""
    assert record.protocol is not None
    digest = record.protocol.candidate
    chosen = record.configurations[digest]
    others = [
        replace(chosen, text=chosen.text + "\n# more"),
        replace(chosen, more={"own/conf.d/evil.conf": ""}),
        replace(chosen, file_name="other.conf"),
    ]
    changed = [
        replace(record, configurations={**record.configurations, digest: other}) for other in others
    ]
    block = record.blocks[-1]
    window = replace(block.windows[0], completed=1)
    blocks = (*record.blocks[:-1], replace(block, windows=(window, *block.windows[1:])))
    changed += [
        replace(record, blocks=blocks),
        replace(record, protocol=replace(record.protocol, margin=0.5)),
        replace(record, server=replace(record.server, binary="/tmp/nginx")),  # noqa: S108
    ]
    assert [made_here(other) for other in changed] == ["changed"] * len(changed)
    other = replace(record, definition={**record.definition, "config": "/etc/shadow"})
    assert made_here(other) == "elsewhere"


def test_what_was_begun_elsewhere_is_never_signed_here(record: Record) -> None:
    """Measuring more for a foreign record does not make it one's own."""
    foreign = replace(record, name="theirs")
    assert sign(foreign) == foreign.signed
    assert made_here(foreign) == "elsewhere"


def test_a_study_is_known_again_when_it_was_signed_at_its_end(tmp_path: Path) -> None:
    """Through its storage, in which a killed command leaves it begun here and changed since."""
    made: Rig = rig(storage=f"sqlite:///{tmp_path / 'record.db'}", time_s=10.0, trials=1)
    store = made.store()
    store.set_signed(sign_beginning(store.record()))
    made.run()
    record = made.record()
    assert made_here(record) == "changed"
    Store.open(made.storage, record.name).set_signed(sign(record))
    assert made_here(made.record()) == "here"


def test_the_key_is_made_once_and_only_for_this_user(unsigned: Record) -> None:
    """Concurrent first uses create one key, which only this user can read."""
    assert read_key() is None
    assert made_here(unsigned) == "elsewhere"
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: sign_beginning(unsigned), range(16)))
    assert len(set(found)) == 1
    assert stat.S_IMODE(key_file().stat().st_mode) == 0o600
    assert [path.name for path in key_file().parent.iterdir()] == ["key"]


@pytest.mark.parametrize("damage", ["open to others", "cut off"])
def test_a_key_that_is_none_proves_nothing(record: Record, damage: str) -> None:
    """A key that others can read, or that was cut off, is refused by its path."""
    if damage == "cut off":
        os.truncate(key_file(), 3)
    else:
        key_file().chmod(0o644)
    assert made_here(record) == "elsewhere"
    with pytest.raises(OSError, match=str(key_file())):
        sign(replace(record, signed=sign_beginning(record)))


def test_the_hashes_are_not_the_key(record: Record) -> None:
    """The signatures in a record do not contain the key."""
    key = read_key()
    assert key is not None
    assert key.hex() not in json.dumps([record.signed.begun, record.signed.whole])
