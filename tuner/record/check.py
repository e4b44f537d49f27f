"""Rules for records: every record passes them before anything uses it.

Records are exchanged, so one may be damaged or malicious. The classes of ``tuner.record.model``
define the types; this module checks ranges, lengths, names and references. A name that becomes part
of a path must be one component, or a relative path that stays in its folder.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tuner.errors import DefinitionError, Interrupted, StoreError, TunerError
from tuner.goals.goals import goals_of
from tuner.machine.facts import HostFacts, ServerFacts
from tuner.measurement.gates import Gates
from tuner.measurement.latency import Latency, unpack
from tuner.measurement.stalls import StallRule
from tuner.measurement.window import Measurement
from tuner.record.contenders import Contender, Contest, Ladder
from tuner.record.model import (
    AblationProtocol,
    Applied,
    Block,
    BlockInstance,
    Calibration,
    ConfigurationRecord,
    Contrast,
    Original,
    Protocol,
    Record,
    RecordSignatures,
    StudyHost,
    StudyStart,
    Trial,
)

Rule = Callable[[Any], None]
"""Raises ValueError for a value that no study writes."""

LONGEST_FILE = 4 << 20
"""Characters of a configuration file."""
LONGEST_TEXT = 100_000
LONGEST_NAME = 200
LONGEST_PATH = 1_000
MOST_DEPTH = 16
_AT_ONCE = 1_000
"""Windows that are checked together: as many as fit into a processor's cache."""
LARGEST = 1e18
"""Limit of any number; bytes, and nanoseconds of 30 years, stay below."""


@contextlib.contextmanager
def reading(where: str) -> Iterator[None]:
    """Turn exceptions of libraries about damaged data into a `StoreError` with the record.

    Args:
        where: the record.

    Raises:
        StoreError: the record cannot be read.
    """
    try:
        yield
    except (StoreError, Interrupted, MemoryError):
        raise
    except Exception as error:
        # The database's message, without the statement and its values.
        cause = getattr(error, "orig", None) or getattr(error.__cause__, "orig", None) or error
        text = cause.message if isinstance(cause, DefinitionError) else str(cause)
        words = " ".join(text.split())[:300] or type(cause).__name__
        if isinstance(cause, KeyError):
            words = f"{words} is missing"
        words = "".join(c if c.isprintable() else "?" for c in words)
        raise StoreError(f"{where}: not a readable record: {words}") from error


def check_record(record: Record) -> None:
    """Raise ValueError for a record that no study writes.

    Raises:
        ValueError: a field is wrong; the message names it.
    """
    # Parts of it come from attributes of a storage, without a check of types. The windows, most of
    # a long record, are always converted by themselves.
    bare = replace(record, blocks=tuple(replace(block, windows=()) for block in record.blocks))
    msgspec.convert(msgspec.to_builtins(bare), Record, str_keys=True)
    try:
        # A walk through all windows takes much longer, and is needed for the path alone.
        _check(bare if _windows_obey(record) else record, 0)
    except ValueError as error:
        raise ValueError(str(error).removeprefix(".")) from None
    _check_references(record)
    try:
        goals_of(record.definition)
    except TunerError as error:
        raise ValueError(f"definition: {error}") from error


def values_in(text: str | bytes) -> int:
    """Return an upper limit for the number of values in JSON, each of some 100 bytes of memory."""
    if isinstance(text, str):
        return 1 + sum(map(text.count, ",[{"))
    return 1 + sum(map(text.count, (b",", b"[", b"{")))


# --- rules for single values ------------------------------------------------------------------


def _text(most: int = LONGEST_TEXT, least: int = 0) -> Rule:
    def rule(value: str) -> None:
        if not least <= len(value) <= most:
            raise ValueError(f"a text of {len(value)} characters, {least} to {most} are allowed")
        if "\0" in value:
            raise ValueError("a text with a NUL character")

    return rule


def _line(value: str) -> None:
    """Require one line of printable characters, which may be empty."""
    if len(value) > LONGEST_PATH or not value.isprintable():
        raise ValueError(f"{_brief(value)} is not a line of text")


def component(value: str) -> None:
    """Raise ValueError unless the text is a single component of a path.

    Raises:
        ValueError: it is empty, too long, ``.`` or ``..``, or has a separator or control character.
    """
    if (
        not 0 < len(value) <= LONGEST_NAME
        or not value.isprintable()
        or value in {".", ".."}
        or "/" in value
        or "\\" in value
    ):
        raise ValueError(f"{_brief(value)} is not a name; it must be one component of a path")


def relative_path(value: str) -> None:
    """Raise ValueError unless the text is a relative path inside its folder.

    Raises:
        ValueError: it is absolute, too long, or one of its components is not a name.
    """
    if len(value) > LONGEST_PATH:
        raise ValueError(f"{_brief(value)} is too long for a path")
    try:
        for part in value.split("/"):
            component(part)
    except ValueError:
        raise ValueError(
            f"{_brief(value)} is not a relative path that stays in its folder"
        ) from None


def _or_empty(rule: Rule) -> Rule:
    def either(value: str) -> None:
        if value:
            rule(value)

    return either


def _matches(pattern: str, what: str) -> Rule:
    form = re.compile(pattern)

    def rule(value: str) -> None:
        if not form.fullmatch(value):
            raise ValueError(f"{_brief(value)} is not a {what}")

    return rule


@dataclass(frozen=True, slots=True)
class _Range:
    """The rule for a number in a range; with ``unknown``, NaN is allowed."""

    low: float
    high: float
    unknown: bool = False

    def __call__(self, value: float) -> None:
        if not (self.low <= value <= self.high or (self.unknown and math.isnan(value))):
            raise ValueError(f"{value!r} is not within {self.low:g} to {self.high:g}")

    def hold(self, values: npt.NDArray[np.float64]) -> bool:
        """Return whether all values are in the range."""
        inside = (values >= self.low) & (values <= self.high)
        return bool(np.all(inside | np.isnan(values) if self.unknown else inside))


def _each(rule: Rule) -> Rule:
    """Return a rule for every item of a sequence, or every key of a mapping."""

    def every(values: Any) -> None:
        for value in values:
            rule(value)

    return every


def _settings(values: Mapping[str, str]) -> None:
    """Require kernel settings of the network, because root loads them from a file."""
    for name, value in values.items():
        _kernel_name(name)
        _line(value)


def _files(values: Mapping[str, str]) -> None:
    """Require SHA-256 by path."""
    for path, digest in values.items():
        _line(path)
        _sha256(digest)


def _definition(values: Mapping[str, Any]) -> None:
    for value in values.values():
        for item in value if isinstance(value, list | tuple) else (value,):
            if not isinstance(item, str | int | float | None):
                words = f"{_brief(repr(item))} is not a value of an option"
                raise ValueError(words)  # noqa: TRY004 - every rule has one kind of error
            if isinstance(item, str):
                _line(item)
    for name in ("objective", "slo", "constraint", "choose"):
        # These texts are parsed; real ones are not longer.
        _text(LONGEST_PATH)(str(values.get(name)))


def _histogram(value: str) -> None:
    if value:
        unpack(value)


_ANY_NUMBER = _Range(-LARGEST, LARGEST, unknown=True)
_plain_text = _text(LONGEST_FILE)
_key_text = _text(LONGEST_PATH)
_digest = _matches("[0-9a-f]{12}", "digest")
_sha256 = _matches("[0-9a-f]{64}", "SHA-256")
_kernel_name = _matches(r"(?:net(?:\.[a-z0-9_]+)+|limits\.nofile)", "setting of the network")
_window = _matches(r"[0-9]{1,9}-[^/\\]{1,200}", "name of a window")
_version = _text(LONGEST_NAME)
_instant = _Range(0, 1e11)
_count = _Range(0, LARGEST)
_duration_s = _Range(0, 1e9)
_positive_s = _Range(1e-6, 1e9)
_rate = _Range(0, 1e12)
_share = _Range(0, 1)
_margin = _Range(0, 0.999)
_level = _Range(1e-9, 1)
_figure = _Range(0, LARGEST, unknown=True)
_repeats = _Range(0, 1e6)
_cpus = _each(_Range(0, 1e6))

_COUNTED = (
    *("connections", "offered", "completed", "timeouts", "unsent", "in_flight", "reconnects"),
    *("bytes_in", "server_rss_bytes"),
)
_LATENCY: dict[str, Rule] = {
    "count": _count,
    "hdr": _histogram,
    **dict.fromkeys(("p50_us", "p90_us", "p99_us", "p999_us", "max_us", "mean_us"), _figure),
}
_BEGINNING: dict[str, Rule] = {
    "name": component,
    "definition": _definition,
    "tuner_version": _version,
    "started_unix_s": _instant,
    "baseline": _digest,
}
RULES: Mapping[type, Mapping[str, Rule]] = {
    Latency: _LATENCY,
    RecordSignatures: dict.fromkeys(("begun", "whole"), _or_empty(_sha256)),
    StudyStart: _BEGINNING,
    Record: {
        **_BEGINNING,
        "ended_unix_s": _instant,
        "here": _or_empty(component),
        "hosts": _each(component),
        "chosen": _each(_digest),
        "code": _files,
    },
    ConfigurationRecord: {
        "space": relative_path,
        "digest": _digest,
        "text": _text(LONGEST_FILE),
        "file_name": component,
        "more": _each(relative_path),
        "kernel": _settings,
    },
    BlockInstance: {"instance": component, "digest": _digest, "trial": _count, "slot": _count},
    Block: {
        "number": _count,
        "index": _count,
        "started_unix_s": _instant,
        "ended_unix_s": _instant,
        "host": _or_empty(component),
    },
    Trial: {"number": _count, "digest": _digest, "host": _or_empty(component)},
    Calibration: {
        "capacity_per_s": _rate,
        "rate_per_s": _rate,
        "degrees_of_freedom": _count,
        "busy_share": _Range(0, 1e3),
    },
    Gates: {"samples_needed": _count},
    StallRule: {name: _Range(0, 1e9) for name in ("gap_us", "before_us", "after_us", "recovery")},
    Protocol: {
        "frozen_unix_s": _instant,
        "digest": _digest,
        "baseline": _digest,
        "candidate": _digest,
        "rivals": _each(_digest),
        "beside": _each(_digest),
        "rate_per_s": _rate,
        "blocks": _repeats,
        "rounds": _repeats,
        "window_s": _positive_s,
        "alpha": _level,
        "margin": _margin,
        "second_margin": _margin,
        "sequential_rho": _Range(1e-9, 1e9),
        "sequential_sigma_d": _Range(1e-6, 1e3),
        "looks_level": _level,
        "precision": _margin,
    },
    Contrast: {"reverted": _digest, "added": _digest, "names": _each(_line)},
    AblationProtocol: {
        "frozen_unix_s": _instant,
        "digest": _digest,
        "confirmation": _digest,
        "blocks": _repeats,
        "rounds": _repeats,
        "window_s": _positive_s,
        "alpha": _level,
        "margin": _margin,
    },
    Original: {
        "study": component,
        "protocol": _digest,
        "started_unix_s": _instant,
        "ratio": _Range(0, LARGEST),
        "low": _Range(0, LARGEST),
        "high": _Range(0, LARGEST),
    },
    StudyHost: {
        "name": component,
        "joined_unix_s": _instant,
        "ended_unix_s": _instant,
        "code": _files,
    },
    Applied: {"host": component, "unix_s": _instant, "files": _each(_line), "owner": _line},
    HostFacts: {"hostname": _line, "cpus": _cpus, "kernel": _version, "memory_bytes": _count},
    ServerFacts: {
        "name": _matches("[a-z][a-z0-9_-]{0,63}", "server"),
        "binary": _line,
        "version": _version,
        "product": _line,
    },
    Contest: {
        "mode": _matches("open|closed", "mode"),
        "rate_per_s": _rate,
        "blocks": _repeats,
        "rounds": _repeats,
        "window_s": _positive_s,
        "within_s": _Range(0, LARGEST),
        "limit": _line,
        "busy_share": _Range(0, 1e3),
        "margin": _margin,
        "capacities_per_s": _each(component),
        "results": _each(_line),
    },
    Contender: {
        "label": component,
        "server": component,
        "digest": _digest,
        "program": _line,
    },
    Ladder: {"passes": _repeats, "window_s": _positive_s, "rates_per_s": _each(_rate)},
    Measurement: {
        "window_id": _window,
        "instance": component,
        "mode": _matches("open|closed", "mode"),
        "rate_per_s": _rate,
        "duration_s": _duration_s,
        "started_unix_s": _instant,
        "completed_per_s": _rate,
        "excluded_share": _Range(0, 1, unknown=True),
        "errors": _each(_line),
        **dict.fromkeys(_COUNTED, _count),
    },
}
"""Rules by class and field; None checks only the type. Other fields have the general rule."""


# --- the walk through a record ----------------------------------------------------------------


@functools.cache
def _fields(kind: type) -> tuple[tuple[str, Rule | None], ...]:
    rules = RULES.get(kind, {})
    names = [field.name for field in dataclasses.fields(kind)]
    unknown = rules.keys() - set(names)
    assert not unknown, f"{kind.__name__} has no {unknown}"  # noqa: S101 - a slip of ours
    return tuple((name, rules.get(name)) for name in names)


def _windows_obey(record: Record) -> bool:
    """Return whether all windows obey the rules of their fields."""
    windows = [window for block in record.blocks for window in block.windows]
    parts = (windows[place : place + _AT_ONCE] for place in range(0, len(windows), _AT_ONCE))
    return all(map(_obey, parts))


def _obey(values: Sequence[Any]) -> bool:
    """Return whether values of one class obey the rules of all their fields, field by field."""
    kind: Any = type(values[0])
    try:
        return all(
            _column_obeys(list(map(operator.attrgetter(name), values)), rule)
            for name, rule in _fields(kind)
        )
    except (ValueError, OverflowError):
        return False


def _column_obeys(column: Sequence[Any], rule: Rule | None) -> bool:
    """Return whether values of a field obey the general rules and its own, or raise ValueError."""
    kinds = set(map(type, column))
    for kind in kinds - {bool, type(None)}:
        found = column if len(kinds) == 1 else [value for value in column if type(value) is kind]
        if kind in {int, float}:
            numbers = np.array(found, dtype=np.float64)
            if not (rule if isinstance(rule, _Range) else _ANY_NUMBER).hold(numbers):
                return False
        elif dataclasses.is_dataclass(kind):
            if not _obey(found):
                return False
        else:
            for value in set(found) if kind is str else filter(None, found):
                if rule is not None:
                    rule(value)
                _check(value, 0)
    return True


def _check(value: object, depth: int) -> None:
    """Check a value recursively; the error has the path to the wrong part."""
    if isinstance(value, str):
        _plain_text(value)
    elif isinstance(value, bool) or value is None:
        pass
    elif isinstance(value, int | float):
        # NaN means unknown.
        if abs(value) > LARGEST and not math.isinf(value):
            raise ValueError(f"the number {value:.3g} is out of range")
    elif depth > MOST_DEPTH:
        raise ValueError("it is nested too deeply")
    else:
        for step, rule, item in _items(value):
            try:
                if rule is not None and item is not None:
                    rule(item)
                # Nearly all of a long record's millions of values.
                if item.__class__ is not float or not -LARGEST <= item <= LARGEST:
                    _check(item, depth + 1)
            except ValueError as error:
                words = str(error)
                joint = "" if words.startswith((".", "[")) else ": "
                raise ValueError(f"{_path_of(value, step)}{joint}{words}") from None


def _items(value: Any) -> Iterable[tuple[str | int, Rule | None, Any]]:
    """Return the parts of a value, each with its key, index or field, and its rule."""
    if isinstance(value, Mapping):
        for key in value:
            _key_text(str(key))
        return [(key, None, item) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [(place, None, item) for place, item in enumerate(value)]
    kind: Any = type(value)
    return [(name, rule, getattr(value, name)) for name, rule in _fields(kind)]


def _path_of(value: object, step: str | int) -> str:
    """Return the step from a value to one of its parts, for a message."""
    if isinstance(value, Mapping):
        return f"[{_brief(str(step))}]"
    return f"[{step}]" if isinstance(step, int) else f".{step}"


def _check_references(record: Record) -> None:
    """Raise ValueError for a record with inconsistent parts."""
    known = record.configurations
    for digest, kept in known.items():
        if not digest == kept.digest == kept.configuration.digest:
            raise ValueError(f"configuration {digest} has other values than its digest says")
    numbers = [block.number for block in record.blocks]
    if len(set(numbers)) < len(numbers):
        raise ValueError("two blocks have the same number")
    trials = [trial.number for trial in record.trials]
    if len(set(trials)) < len(trials):
        raise ValueError("two trials have the same number")
    for block in record.blocks:
        labels = [instance.instance for instance in block.instances]
        if len(set(labels)) < len(labels):
            raise ValueError(f"block {block.number} has two instances of one name")
        strays = {window.instance for window in block.windows} - set(labels)
        if strays:
            raise ValueError(f"block {block.number} has windows of unknown instances")


def _brief(text: str) -> str:
    return ascii(text[:60]) + ("…" if len(text) > 60 else "")
