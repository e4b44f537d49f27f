"""Latency distributions: exact quantiles, and the HdrHistogram form for the record.

Quantiles are order statistics of the samples themselves: the q-quantile of n values is the
smallest value that at least q·n of them do not exceed (Hyndman and Fan 1996, type 1). The
histogram is for pictures, merging and other tools; its values carry 3 significant digits.

The layout and the "V2 compressed" encoding follow the HdrHistogram reference implementation
(https://github.com/HdrHistogram/HdrHistogram, AbstractHistogram.encodeIntoCompressedByteBuffer),
so that every HdrHistogram tool reads them.
"""

from __future__ import annotations

import base64
import functools
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Nanoseconds = NDArray[np.int64]

_V2_COOKIE = 0x1C849303 | 0x10
_V2_COMPRESSED_COOKIE = 0x1C849304 | 0x10
_SIGNIFICANT_DIGITS = 3
_SUB_BITS = 11
"""2^11 sub-buckets hold 3 significant digits: the smallest power of two above 2·10³."""
_HALF = 1 << (_SUB_BITS - 1)
_HIGHEST_NS = 3_600_000_000_000
_SLOTS = 33 << (_SUB_BITS - 1)
"""More than the slots of all values up to ``_HIGHEST_NS``, which are below 2^42 ns."""
_MOST_COUNTED = 2**53
_HEADER = 40
_LONGEST_WORD = 8
_LONGEST = _HEADER + 2 * _LONGEST_WORD * _SLOTS
"""Bytes of a histogram in which every other slot is occupied."""


@dataclass(frozen=True, slots=True)
class HistogramCounts:
    """A distribution from a histogram: ``counts[i]`` values of ``values_ns[i]``, ascending.

    It is as exact as the histogram.
    """

    values_ns: Nanoseconds
    counts: NDArray[np.int64]

    @classmethod
    def empty(cls) -> HistogramCounts:
        """Return counts without any value."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))


QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999))


@dataclass(frozen=True, slots=True)
class Latency:
    """One distribution: exact quantiles in µs, and the histogram in ns as base64 (or empty)."""

    count: int
    p50_us: float
    p90_us: float
    p99_us: float
    p999_us: float
    max_us: float
    mean_us: float
    hdr: str

    def value_us(self, name: str) -> float:
        """The quantile called ``p50``, ``p99.9``, or any other, in µs; ``max`` is the largest.

        ``QUANTILES`` are exact; others are read from the histogram, to its 3 significant digits.
        NaN where there is no histogram.
        """
        if name == "max":
            return self.max_us
        figures = (self.p50_us, self.p90_us, self.p99_us, self.p999_us)
        exact = dict(zip((key for key, _ in QUANTILES), figures, strict=True))
        if name in exact:
            return exact[name]
        return _from_histogram(self.hdr, float(name[1:]) / 100) if self.hdr else math.nan


def summarise(
    values_ns: Nanoseconds,
    weights: NDArray[np.float64] | None = None,
    *,
    histogram: bool = True,
) -> Latency:
    """Summarise samples in ns. An empty sample gives NaN, never a made-up figure.

    Without ``histogram`` the ``hdr`` text is empty, which keeps the record small. With ``weights``
    the q-quantile is the smallest value that at least the share q of the weight does not exceed;
    the histogram has the weights, rounded, as its counts.
    """
    count = len(values_ns)
    if weights is not None and count and (weights != 1.0).any():
        return _weighted(values_ns, weights, histogram=histogram)
    hdr = encode(values_ns) if histogram else ""
    if count == 0:
        nan = math.nan
        return Latency(0, nan, nan, nan, nan, nan, nan, hdr)
    ranks = [min(count - 1, math.ceil(q * count) - 1) for _, q in QUANTILES]
    parted = np.partition(values_ns, [*ranks, count - 1])
    p50, p90, p99, p999, highest = (float(parted[rank]) / 1e3 for rank in (*ranks, count - 1))
    return Latency(count, p50, p90, p99, p999, highest, float(values_ns.mean()) / 1e3, hdr)


def _weighted(values_ns: Nanoseconds, weights: NDArray[np.float64], *, histogram: bool) -> Latency:
    order = np.argsort(values_ns)
    values, weight = values_ns[order], weights[order]
    below = np.cumsum(weight)
    # Sums of weights carry rounding errors.
    levels = np.array([q for _, q in QUANTILES]) * below[-1] * (1 - 1e-12)
    places = np.minimum(np.searchsorted(below, levels, "left"), len(values) - 1)
    p50, p90, p99, p999 = (float(value) / 1e3 for value in values[places])
    return Latency(
        count=len(values),
        p50_us=p50,
        p90_us=p90,
        p99_us=p99,
        p999_us=p999,
        max_us=float(values[-1]) / 1e3,
        mean_us=float(values @ weight / below[-1]) / 1e3,
        hdr=_encode(values, weight) if histogram else "",
    )


def summarise_counts(seen: HistogramCounts) -> Latency:
    """Summarise a histogram, by the same definition of a quantile."""
    count = int(seen.counts.sum())
    hdr = _encode(seen.values_ns, seen.counts)
    if count == 0:
        nan = math.nan
        return Latency(0, nan, nan, nan, nan, nan, nan, hdr)
    below = np.cumsum(seen.counts)
    places = np.searchsorted(below, [math.ceil(q * count) for _, q in QUANTILES])
    p50, p90, p99, p999 = (float(value) / 1e3 for value in seen.values_ns[places])
    mean_us = float(seen.values_ns @ seen.counts) / count / 1e3
    return Latency(count, p50, p90, p99, p999, float(seen.values_ns[-1]) / 1e3, mean_us, hdr)


def encode(values_ns: Nanoseconds) -> str:
    """Encode samples as an HdrHistogram V2 compressed histogram, base64 (starts ``HISTFAAA``)."""
    return _encode(values_ns, None)


def _encode(values_ns: Nanoseconds, weights: NDArray[np.int64] | NDArray[np.float64] | None) -> str:
    slots = _index(np.clip(values_ns, 0, _HIGHEST_NS))
    # Tens of thousands of slots come before the first of usual latencies.
    first = int(slots.min(initial=_SLOTS))
    counts = np.rint(np.bincount(slots - first, weights)).astype(np.int64)
    occupied = np.flatnonzero(counts)
    empty = np.diff(occupied + first, prepend=-1) - 1
    # A word for the empty slots before an occupied one, if there are any, then one for its count.
    pairs = np.stack([-empty, counts[occupied]], axis=1).reshape(-1)
    words = _bytes_of(pairs[pairs != 0])
    header = struct.pack(
        ">IIIIQQd", _V2_COOKIE, len(words), 0, _SIGNIFICANT_DIGITS, 1, _HIGHEST_NS, 1.0
    )
    packed = zlib.compress(header + words, 6)
    envelope = struct.pack(">II", _V2_COMPRESSED_COOKIE, len(packed))
    return base64.b64encode(envelope + packed).decode()


def decode(text: str) -> tuple[Nanoseconds, NDArray[np.int64]]:
    """Read such a histogram: (highest value of each occupied slot in ns, its count), sorted.

    Raises:
        ValueError: the text is not a V2 compressed histogram with 3 significant digits.
    """
    words = _words(unpack(text))
    # A positive word is the count of one slot; a negative one skips that many empty slots.
    steps = np.where(words < 0, -words, 1)
    if (steps > _SLOTS).any() or steps.sum() > _SLOTS:
        raise ValueError("histogram has values beyond an hour")
    occupied = words > 0
    if words[occupied].sum(dtype=np.float64) > _MOST_COUNTED:
        raise ValueError("histogram has impossibly high counts")
    return _highest((np.cumsum(steps) - steps)[occupied]), words[occupied]


def unpack(text: str) -> bytes:
    """Return the counts of a histogram, still encoded as words, after a check of its header.

    A record may come from anywhere, so no more is unpacked than a histogram can hold: zlib packs
    a thousand bytes into one.

    Raises:
        ValueError: as ``decode``.
    """
    try:
        raw = base64.b64decode(text, validate=True)
        cookie, length = struct.unpack_from(">II", raw)
        if cookie & ~0xF0 != _V2_COMPRESSED_COOKIE & ~0xF0:
            raise ValueError(f"not a V2 compressed HdrHistogram (cookie {cookie:#x})")
        reader = zlib.decompressobj()
        body = reader.decompress(raw[8 : 8 + length], _LONGEST)
        _, payload, _, digits, _, _, _ = struct.unpack_from(">IIIIQQd", body)
    except (struct.error, zlib.error) as error:
        raise ValueError(f"not a V2 compressed HdrHistogram ({error})") from error
    if digits != _SIGNIFICANT_DIGITS:
        raise ValueError(f"histogram has {digits} significant digits, expected 3")
    if not reader.eof or payload > len(body) - _HEADER:
        raise ValueError("histogram is cut off, or longer than one can be")
    return body[_HEADER : _HEADER + payload]


def _words(payload: bytes) -> NDArray[np.int64]:
    """The ZigZag LEB128 words; none has 9 bytes, which only counts from 2^55 on would take."""
    bytes_ = np.frombuffer(payload, np.uint8)
    ends = np.flatnonzero(bytes_ < 0x80)
    if not len(bytes_):
        return np.empty(0, np.int64)
    starts = np.concatenate([[0], ends[:-1] + 1])
    if not len(ends) or ends[-1] != len(bytes_) - 1 or (ends - starts).max() >= _LONGEST_WORD:
        raise ValueError("histogram holds a count that is cut off or too large")
    places = np.arange(len(bytes_)) - np.repeat(starts, ends - starts + 1)
    parts = (bytes_ & 0x7F).astype(np.int64) << (7 * places)
    coded = np.add.reduceat(parts, starts)
    words: NDArray[np.int64] = (coded >> 1) ^ -(coded & 1)
    return words


def merge(texts: list[str]) -> tuple[Nanoseconds, NDArray[np.int64]]:
    """Merge histograms, in the form of ``decode``."""
    return merge_decoded([decode(text) for text in texts])


def merge_decoded(
    parts: Sequence[tuple[Nanoseconds, NDArray[np.int64]]],
) -> tuple[Nanoseconds, NDArray[np.int64]]:
    """Merge histograms that are in the form of ``decode``."""
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    values, inverse = np.unique(np.concatenate([v for v, _ in parts]), return_inverse=True)
    counts = np.bincount(inverse, weights=np.concatenate([c for _, c in parts]))
    return values, counts.astype(np.int64)


def _index(values_ns: Nanoseconds) -> NDArray[np.int64]:
    """Return the slot of each value: bucket by magnitude, then 1024 equal steps within it."""
    magnitude = np.maximum(np.frexp(values_ns.astype(np.float64))[1] - _SUB_BITS, 0)
    slots: NDArray[np.int64] = (magnitude.astype(np.int64) << (_SUB_BITS - 1)) + (
        values_ns >> magnitude
    )
    return slots


def _highest(slots: NDArray[np.int64]) -> Nanoseconds:
    """Return the highest value of each slot: the inverse of ``_index``."""
    magnitude = np.maximum((slots >> (_SUB_BITS - 1)) - 1, 0)
    low = (slots - (magnitude << (_SUB_BITS - 1))) << magnitude
    highest: Nanoseconds = low + (np.int64(1) << magnitude) - 1
    return highest


def slot_midpoints(highest_ns: Nanoseconds) -> Nanoseconds:
    """Return the middle of each slot from its highest value, which HdrHistogram's means use."""
    magnitude = np.maximum(np.frexp(highest_ns.astype(np.float64))[1] - _SUB_BITS, 0)
    width = np.int64(1) << magnitude.astype(np.int64)
    middle: Nanoseconds = highest_ns - width + 1 + (width >> 1)
    return middle


@functools.lru_cache(maxsize=1024)
def _from_histogram(text: str, quantile: float) -> float:
    """Return the smallest slot that holds the quantile, µs; NaN if the histogram is empty."""
    values_ns, counts = decode(text)
    total = int(counts.sum())
    if not total:
        return math.nan
    # A product such as 0.995 * 1000 may exceed its whole number by rounding.
    rank = max(1, math.ceil(quantile * total - 1e-9))
    return float(values_ns[int(np.cumsum(counts).searchsorted(rank))]) / 1e3


def _bytes_of(words: NDArray[np.int64]) -> bytes:
    """Return the ZigZag LEB128 words as HdrHistogram's ZigZagEncoding writes them.

    No word reaches the ninth byte, which has another form: counts are below 2^53.
    """
    coded = ((words << 1) ^ (words >> 63)).astype(np.uint64)
    longest = max(1, -(-int(coded.max(initial=0)).bit_length() // 7))
    septets = coded[:, None] >> (7 * np.arange(longest, dtype=np.uint64))
    # A word ends with its highest septet that is not zero, and has at least one.
    wanted = septets > 0
    wanted[:, 0] = True
    further = np.zeros_like(wanted)
    further[:, :-1] = wanted[:, 1:]
    parts = (septets & np.uint64(0x7F)).astype(np.uint8) | (further.astype(np.uint8) << 7)
    return parts[wanted].tobytes()
