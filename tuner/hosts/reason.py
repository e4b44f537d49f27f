"""The reason of a failed Ansible task, in its most specific words."""

from __future__ import annotations

import contextlib
import re
import shlex
import signal
from collections.abc import Mapping
from typing import Any

_EMPTY_WORDS = re.compile(
    r"""(?ix) ( failed | module\ failure\b.* | non-zero\ return\ code | error\ executing\ command\.?
    | one\ or\ more\ items\ failed | assertion\ failed | .*module\ result\ deserialization\ failed.*
    | )""",
    re.DOTALL,
)
"""Messages of Ansible without a cause; the program's output has it."""
_WRAPPERS = re.compile(r"^(?:Task failed: |Action failed: |Module failed: )+")
"""Prefixes of ansible-core 2.19, one for each layer above the error."""
_STREAMS = ("module_stderr", "stderr", "module_stdout", "stdout")
_UNAVAILABLE = "(traceback unavailable)"


def reason(result: Mapping[str, Any]) -> str:
    """Return why a task failed, in one line or a few, never empty.

    Args:
        result: the task's result in Ansible's callbacks.
    """
    results = result.get("results")
    items = [item for item in results if _failed(item)] if isinstance(results, list) else []
    if items:
        return "; ".join(dict.fromkeys(map(reason, items)))
    if "censored" in result:
        return "its result is hidden (no_log)"
    message = _WRAPPERS.sub("", str(result.get("msg") or "").strip())
    if not _EMPTY_WORDS.fullmatch(message):
        return message
    words = [word for word in (_subject(result), _exit(result), _output(result)) if word]
    return ": ".join(words) or message or "Ansible gave no reason; its result was empty or too long"


def _failed(item: object) -> bool:
    return isinstance(item, Mapping) and bool(item.get("failed") or item.get("unreachable"))


def _output(result: Mapping[str, Any]) -> str:
    """Return the last line of the program's errors, or else of its output."""
    for stream in _STREAMS:
        last = _last_line(result.get(stream))
        if last:
            return last
    last = _last_line(result.get("exception"))
    return "" if last == _UNAVAILABLE else last


def _last_line(text: object) -> str:
    return str(text or "").strip().rpartition("\n")[2].strip()


def _subject(result: Mapping[str, Any]) -> str:
    """Return what failed, if the result names it."""
    if "assertion" in result:
        return f"this does not hold: {result['assertion']}"
    command = result.get("cmd")
    if isinstance(command, str):
        return command
    return shlex.join(map(str, command)) if isinstance(command, list) else ""


def _exit(result: Mapping[str, Any]) -> str:
    code = result.get("rc")
    if not isinstance(code, int) or not code:
        return ""
    # The conventions of the shell (sh(1)) and of Python (subprocess).
    number = code - 128 if code > 128 else -code
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(number).name}"
    return f"exit code {code}"
