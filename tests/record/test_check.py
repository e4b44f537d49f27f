"""Tests of the checks on a foreign record: names, ranges, references and sizes."""

from __future__ import annotations

import base64
import gzip
import json
import struct
import time
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tuner.errors import StoreError
from tuner.record.check import check_record
from tuner.record.file import read_record
from tuner.record.model import Record
from tuner.testing.sample_record import sample_record


@pytest.fixture(scope="module")
def record() -> Record:
    """A whole study."""
    return sample_record("better", trials=6)


@pytest.fixture
def refusal(record: Record, tmp_path: Path) -> Callable[[Callable[[Any], None]], str]:
    """Return a function that gives the message for the record after a change of its JSON."""

    def reported(change: Callable[[Any], None]) -> str:
        data = json.loads(json.dumps(msgspec.to_builtins(record)))
        change(data)
        path = tmp_path / "record.json"
        path.write_text(json.dumps(data), encoding="utf-8")
        with pytest.raises(StoreError) as refused:
            read_record(path)
        assert refused.value.exit_code == 3
        words = str(refused.value)
        assert words.startswith(f"{path}: ")
        assert words.isprintable()
        assert len(words) < 800
        return words.removeprefix(f"{path}: ")

    return reported


def first(data: Any, key: str) -> Any:
    """Return the first of a record's parts."""
    found = data[key]
    return next(iter(found.values())) if isinstance(found, dict) else found[0]


def placed(*way: Any, value: Any) -> Callable[[Any], None]:
    """Put a value where these keys lead; ``...`` is the first of several."""

    def change(data: Any) -> None:
        *steps, last = way
        for step in steps:
            data = first({"x": data}, "x") if step is ... else data[step]
        data[last] = value

    return change


def chosen(key: str, value: Any) -> Callable[[Any], None]:
    """Set something of the first configuration."""

    def change(data: Any) -> None:
        first(data, "configurations")[key] = value

    return change


BAD_NAMES = ["", ".", "..", "/etc/cron.d/evil", "../evil", "a/../../b", "a\x00b", "a\nb", "a\\b"]
BAD_NAMES += ["\x1b[31m", "x" * 5_000, "a//b", "./a", "a/", "\u202eevil"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_is_none_is_refused(refusal: Callable[..., str], name: str) -> None:
    """An invalid name of a file, study, space, host or instance is refused."""
    assert "file_name" in refusal(chosen("file_name", name))
    assert "more" in refusal(chosen("more", {name: "text"}))
    assert "name" in refusal(placed("name", value=name))
    assert "space" in refusal(chosen("space", name))
    if name:
        assert "host" in refusal(placed("blocks", ..., "host", value=name))
    assert "instance" in refusal(placed("blocks", ..., "instances", ..., "instance", value=name))


@pytest.mark.parametrize("name", ["own//etc/cron.d/evil", "own/../../etc/passwd", "/own/x"])
def test_no_further_file_leaves_its_folder(refusal: Callable[..., str], name: str) -> None:
    """A further file whose path leaves the folder is refused."""
    assert "not a relative path" in refusal(chosen("more", {name: "evil"}))


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ({"kernel.core_pattern": "|/tmp/evil"}, "setting of the network"),
        ({"net.core.somaxconn": "1\nkernel.core_pattern = |/tmp/evil"}, "not a line"),
    ],
)
def test_no_setting_but_the_networks_reaches_the_kernel(
    refusal: Callable[..., str], kernel: dict[str, str], words: str
) -> None:
    """A file of settings is loaded by root."""
    assert words in refusal(chosen("kernel", kernel))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (placed("blocks", ..., "windows", ..., "rate_per_s", value=1e300), "rate_per_s"),
        (placed("blocks", ..., "windows", ..., "raw", "p99_us", value=-1.0), "p99_us"),
        (placed("blocks", ..., "windows", ..., "window_id", value="x"), "window_id"),
        (
            placed("blocks", ..., "windows", ..., "instance", value="nobody"),
            "windows of unknown instances",
        ),
        (placed("blocks", ..., "number", value=3), "same number"),
        (placed("blocks", ..., "number", value=-3), "number"),
        (placed("protocol", "alpha", value=0), "alpha"),
        (placed("protocol", "blocks", value=10**30), "blocks"),
        (placed("protocol", "candidate", value="nothing hex"), "not a digest"),
        (placed("started_unix_s", value=1e12), "started_unix_s"),
        (placed("definition", "objective", value="p9" * 2_000), "definition"),
        (placed("definition", "objective", value="no such figure"), "unknown objective"),
        (placed("definition", "constraint", value=["p99 <= " + " " * 5_000]), "definition"),
        (placed("definition", "workload", value={"a": []}), "definition"),
        (chosen("values", {"worker_processes": 9}), "its digest"),
    ],
)
def test_what_no_study_writes_is_refused(
    refusal: Callable[..., str], change: Callable[[Any], None], words: str
) -> None:
    """Numbers out of range, references to nothing, and a configuration that is not its digest's."""
    assert words in refusal(change)


def test_a_record_that_a_study_wrote_passes(record: Record) -> None:
    """Also before it has come to its end."""
    check_record(record)
    check_record(sample_record("better", stage="searching", trials=6))
    check_record(replace(record, ended_unix_s=None))


def _peak_and_time(read: Callable[[], None]) -> tuple[float, float]:
    """Most memory that reading took, MiB, and its CPU time, s."""
    tracemalloc.start()
    began = time.process_time()
    try:
        read()
        return tracemalloc.get_traced_memory()[1] / 2**20, time.process_time() - began
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b" " * (80 << 20), "larger than 64 MiB"),
        (b"[" + b"[]," * 4_000_000 + b"[]]", "more than 2,000,000 values"),
        (b"[" * 100_000 + b"]" * 100_000, "recursion"),
        (b'{"schema_version": 1' + b"0" * 5_000 + b"}", "digits"),
    ],
)
def test_a_bomb_is_refused_before_it_takes_memory(tmp_path: Path, text: bytes, words: str) -> None:
    """80 MiB in 80 KiB, millions of empty lists, a deep nest, a number without end."""
    path = tmp_path / "record.json.gz"
    path.write_bytes(gzip.compress(text, 6))

    def read() -> None:
        with pytest.raises(StoreError, match=words):
            read_record(path)

    memory_mib, cpu_s = _peak_and_time(read)
    assert memory_mib < 250
    assert cpu_s < 10


def test_a_histogram_that_unpacks_to_gigabytes_is_refused(refusal: Callable[..., str]) -> None:
    """No more is unpacked than a histogram can hold."""
    body = struct.pack(">IIIIQQd", 0x1C849313, 1 << 30, 0, 3, 1, 3_600_000_000_000, 1.0)
    packer = zlib.compressobj(9)
    packed = packer.compress(body)
    packed += b"".join(packer.compress(bytes(1 << 20)) for _ in range(128)) + packer.flush()
    text = base64.b64encode(struct.pack(">II", 0x1C849314, len(packed)) + packed).decode()
    change = placed("blocks", ..., "windows", ..., "raw", "hdr", value=text)
    reported = ""

    def read() -> None:
        nonlocal reported
        reported = refusal(change)

    memory_mib, _ = _peak_and_time(read)
    assert "longer than one can be" in reported
    assert memory_mib < 250


@pytest.mark.parametrize("path", ["/dev/zero", "/proc/self/mem", "."])
def test_only_a_regular_file_is_a_record(path: str) -> None:
    """A device without end is not read at all."""
    with pytest.raises(StoreError, match="not a readable record"):
        read_record(Path(path))
