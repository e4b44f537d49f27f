"""The sampler in the layout of OptunaHub's registry."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
import types
from pathlib import Path

import optuna
import pytest
import yaml

from tuner.search.sampler import TunerSampler

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "hub" / "package" / "samplers" / "tuner"


def test_the_front_matter_has_what_the_registry_asks_for() -> None:
    """All values are strings or lists of strings, and the tags name the category."""
    _, front, body = (PACKAGE / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    found = yaml.safe_load(front)
    assert list(found) == ["author", "title", "description", "tags", "optuna_versions", "license"]
    assert "sampler" in found["tags"]
    assert found["license"] == "MIT License"
    assert all(isinstance(text, str) for text in (*found["tags"], *found["optuna_versions"]))
    for title in ("Abstract", "Class or Function Names", "Installation", "Example"):
        assert f"\n## {title}\n" in body


def test_its_files_are_those_of_the_template() -> None:
    """One folder with a licence, a module, and an example."""
    assert {path.name for path in PACKAGE.iterdir() if path.is_file()} == {
        *("LICENSE", "README.md", "__init__.py", "example.py", "requirements.txt")
    }


def test_it_names_the_project() -> None:
    """Its requirement and its address are those of the distribution."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (PACKAGE / "requirements.txt").read_text().split() == [project["name"]]
    readme = (PACKAGE / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"\((https://github.com/[^)]+)\)", readme) == [project["urls"]["Source"]]


def test_the_module_loads_as_the_registry_loads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example gets its sampler from the package and runs."""
    spec = importlib.util.spec_from_file_location("hub_tuner", PACKAGE / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.TunerSampler is TunerSampler
    hub = types.ModuleType("optunahub")
    monkeypatch.setattr(hub, "load_module", lambda **_: module, raising=False)
    monkeypatch.setitem(sys.modules, "optunahub", hub)
    scope: dict[str, object] = {"__name__": "example"}
    exec((PACKAGE / "example.py").read_text(encoding="utf-8"), scope)  # noqa: S102 - ours
    study = optuna.create_study(sampler=module.TunerSampler(seed=1))
    study.optimize(scope["objective"], n_trials=12)  # type: ignore[arg-type]
    assert module.TunerSampler.recommended(study).looks >= 1
