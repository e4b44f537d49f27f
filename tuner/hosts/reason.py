"""The most telling words of a failed Ansible task."""

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
"""Messages of Ansible's that name no cause; what the program wrote does."""
_WRAPPERS = re.compile(r"^(?:Task failed: |Action failed: |Module failed: )+")
"""Ansible-core 2.19 begins messages so, one for each layer that the error came through."""
_STREAMS = ("module_stderr", "stderr", "module_stdout", "stdout")
_UNAVAILABLE = "(traceback unavailable)"


def reason(result: Mapping[str, Any]) -> str:
    """Return why a task failed, in one line or a few, never empty.

    Args:
        result: the task's result as Ansible's callbacks get it.
    """
    items = [item for item in result.get("results", ()) if _failed(item)]
    if items:
        return "; ".join(dict.fromkeys(map(reason, items)))
    if "censored" in result:
        return "its result is hidden (no_log)"
    message = _WRAPPERS.sub("", str(result.get("msg", "")).strip())
    if not _EMPTY_WORDS.fullmatch(message):
        return message
    words = [word for word in (_what(result), _exit(result), _said(result)) if word]
    return ": ".join(words) or message or "Ansible gave no reason; its result was empty or too long"


def _failed(item: object) -> bool:
    return isinstance(item, Mapping) and bool(item.get("failed") or item.get("unreachable"))


def _said(result: Mapping[str, Any]) -> str:
    """Return the last line that the program or module wrote, errors before output."""
    for stream in _STREAMS:
        last = _last_line(result.get(stream))
        if last:
            return last
    last = _last_line(result.get("exception"))
    return "" if last == _UNAVAILABLE else last


def _last_line(text: object) -> str:
    return str(text or "").strip().rpartition("\n")[2].strip()


def _what(result: Mapping[str, Any]) -> str:
    """Return what failed, where the result names it."""
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
    # As a shell tells it (sh(1)), and as Python does (subprocess).
    number = code - 128 if code > 128 else -code
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(number).name}"
    return f"exit code {code}"
