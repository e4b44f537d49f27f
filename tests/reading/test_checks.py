"""Every reader of foreign texts with changed seeds, and with all that once failed."""

from __future__ import annotations

import random

import pytest

from tests.reading.checks import CHECKS, failed, seeds

_INPUTS = {"record": 20, "configuration": 600, "definition": 200, "log": 600, "ansible": 600}
_TOKENS = (b"{", b"}", b'"', b"'", b"\\", b"\n", b"\x00", b"\xff", b"null", b"-1", b"1e999", b"#")


def changed(seed: bytes, rng: random.Random) -> bytes:
    """Return a seed with a few bytes flipped, dropped, doubled or inserted."""
    data = bytearray(seed)
    for _ in range(rng.randrange(1, 6)):
        at, to = rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)
        match rng.randrange(4):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                del data[at : at + rng.randrange(20)]
            case 2:
                data[to:to] = data[at : at + rng.randrange(40)]
            case _:
                data[at:at] = rng.choice(_TOKENS)
    return bytes(data)


@pytest.mark.parametrize("reader", CHECKS)
def test_a_reader_reads_or_refuses_anything(reader: str) -> None:
    """A changed seed is read or refused in words; nothing else is raised."""
    rng = random.Random(reader)
    known = seeds(reader)
    for seed in known:
        CHECKS[reader](seed)
    for _ in range(_INPUTS[reader]):
        CHECKS[reader](changed(rng.choice(known), rng))


@pytest.mark.parametrize("reader", CHECKS)
def test_what_once_failed_passes(reader: str) -> None:
    """Every failure that a fuzzer found is repeated."""
    for data in failed(reader):
        CHECKS[reader](data)
