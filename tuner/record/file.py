"""A study's record as one small file for a report: compressed JSON.

It has all data for a report (see `tuner.record.small`), and ``tuner report FILE`` recreates the
report from it.
"""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path

import msgspec

from tuner.errors import StoreError
from tuner.reading.inputs import read_input
from tuner.record.check import check_record, reading, values_in
from tuner.record.model import SCHEMA_VERSION, Record
from tuner.record.small import small

MOST_BYTES = 64 << 20
"""Size limit of a record, compressed or not; ten hours of windows need half of it."""
MOST_VALUES = 2_000_000
_GZIP = b"\x1f\x8b"


def write_record(record: Record, path: Path) -> None:
    """Write a record; the same record gives the same bytes.

    Raises:
        StoreError: it is larger than `read_record` accepts.
    """
    # Not strict JSON: unknown values are NaN, which must survive.
    text = json.dumps(msgspec.to_builtins(small(record)), separators=(",", ":")).encode()
    if len(text) > MOST_BYTES or values_in(text) > MOST_VALUES:
        raise StoreError(
            f"the record of {record.name!r} is too long for an exported file, which may have"
            f" {MOST_VALUES:,} values and {MOST_BYTES >> 20} MiB; keep the study's folder instead:"
            " its record.db may be longer"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text, compresslevel=9, mtime=0))


def read_record(path: Path) -> Record:
    """Read a file of ``write_record``, from here or elsewhere.

    Raises:
        StoreError: it is missing, damaged, too large, of another version, or has invalid content.
    """
    where = str(path)
    with reading(where):
        return record_of(read_input(path, MOST_BYTES), where)


def record_of(content: bytes, where: str) -> Record:
    """Return the record in the content of a file.

    Raises:
        StoreError: it is damaged, too large, of another version, or has invalid content.
    """
    with reading(where):
        data = json.loads(_text_of(content))
        found = data.get("schema_version") if isinstance(data, dict) else None
        if found != SCHEMA_VERSION and isinstance(found, int):
            raise StoreError(
                f"{where}: a record of version {found}; this tuner reads {SCHEMA_VERSION}"
            )
        record = msgspec.convert(data, Record, str_keys=True)
        check_record(record)
    return record


def _text_of(content: bytes) -> bytes:
    """Return the JSON of a record, which may be compressed.

    Unpacking stops at the limit, because a file of 3 MB may expand to gigabytes. Values are counted
    before parsing, because each takes some 100 bytes of memory.

    Raises:
        ValueError: it is damaged, or larger than any record.
    """
    text = content
    if content.startswith(_GZIP):
        reader = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        try:
            text = reader.decompress(content, MOST_BYTES + 1)
        except zlib.error as error:
            raise ValueError(str(error)) from error
        if len(text) > MOST_BYTES:
            raise ValueError(f"larger than {MOST_BYTES >> 20} MiB, which no record is")
        if not reader.eof:
            raise ValueError("it is truncated")
    if values_in(text) > MOST_VALUES:
        raise ValueError(f"more than {MOST_VALUES:,} values, which no record has")
    return text
