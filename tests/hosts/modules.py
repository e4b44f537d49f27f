"""Ansible's modules by themselves, called as functions."""

from __future__ import annotations

import runpy
from typing import Any

import pytest
from ansible import module_utils

from tuner.paths import data_dir

PLAYBOOKS = data_dir("playbooks")
LIBRARY = PLAYBOOKS / "library"


def functions_of(module: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return a module's definitions by name; it finds shared code as on a target."""
    path = [*module_utils.__path__, str(PLAYBOOKS / "module_utils")]
    monkeypatch.setattr(module_utils, "__path__", path)
    return runpy.run_path(str(LIBRARY / f"{module}.py"))
