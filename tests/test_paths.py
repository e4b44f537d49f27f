"""The search for the definitions and the load generator."""

from __future__ import annotations

import os
from pathlib import Path
from typing import get_args

import pytest

from tuner import paths
from tuner.errors import DefinitionError, InstrumentError


def program(path: Path) -> Path:
    """Make an executable file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package, alone in the world: no checkout, no generator anywhere."""
    package = tmp_path / "site-packages" / "tuner"
    package.mkdir(parents=True)
    monkeypatch.setattr(paths, "_PACKAGE", package)
    monkeypatch.setattr(paths, "_installed", list)
    monkeypatch.setattr("sysconfig.get_path", lambda _name: str(tmp_path / "scripts"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv(paths.LOADGEN_VARIABLE, raising=False)
    return tmp_path


@pytest.fixture
def checked_out(nowhere: Path) -> Path:
    """The same, with a crate next to the package: a checkout."""
    crate = nowhere / "site-packages" / "loadgen"
    crate.mkdir()
    (crate / "Cargo.toml").touch()
    return nowhere / "site-packages"


@pytest.mark.parametrize("kind", get_args(paths.DataKind))
def test_a_checkout_holds_its_definitions_at_the_top(
    checked_out: Path, kind: paths.DataKind
) -> None:
    """A checkout's own folder of definitions is used, not the packaged copy."""
    (checked_out / kind).mkdir()
    (checked_out / "tuner" / "_data" / kind).mkdir(parents=True)
    assert paths.data_dir(kind) == checked_out / kind


@pytest.mark.parametrize("kind", get_args(paths.DataKind))
def test_an_installed_package_holds_its_definitions_inside(
    nowhere: Path, kind: paths.DataKind
) -> None:
    """Folders of these names next to the package belong to somebody else."""
    inside = nowhere / "site-packages" / "tuner" / "_data" / kind
    inside.mkdir(parents=True)
    (nowhere / "site-packages" / kind).mkdir()
    assert paths.data_dir(kind) == inside


def test_missing_definitions_are_named(nowhere: Path) -> None:
    """An incomplete installation is said with the folder that is missing."""
    folder = nowhere / "site-packages" / "tuner" / "_data" / "spaces"
    with pytest.raises(DefinitionError, match=f"^{folder}: missing"):
        paths.data_dir("spaces")


def test_the_generator_is_looked_for_from_the_nearest_to_the_farthest(
    checked_out: Path, nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment variable, the installation, the scripts, the PATH, the checkout."""
    built = program(checked_out / "loadgen" / "target" / "release" / paths.LOADGEN)
    assert paths.loadgen_binary() == built
    on_path = program(nowhere / "bin" / paths.LOADGEN)
    assert paths.loadgen_binary() == on_path
    script = program(nowhere / "scripts" / paths.LOADGEN)
    assert paths.loadgen_binary() == script
    installed = program(nowhere / "installed" / paths.LOADGEN)
    monkeypatch.setattr(paths, "_installed", lambda: [installed])
    assert paths.loadgen_binary() == installed
    named = program(nowhere / "mine")
    monkeypatch.setenv(paths.LOADGEN_VARIABLE, str(named))
    assert paths.loadgen_binary() == named


def test_a_named_generator_that_does_not_run_is_refused(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A generator named by the user must be executable; no other takes its place."""
    program(nowhere / "scripts" / paths.LOADGEN)
    (nowhere / "plain").touch(mode=0o644)
    monkeypatch.setenv(paths.LOADGEN_VARIABLE, str(nowhere / "plain"))
    with pytest.raises(InstrumentError, match="plain is not an executable file"):
        paths.loadgen_binary()


@pytest.mark.usefixtures("nowhere")
def test_a_missing_generator_in_an_installation_says_to_install_again() -> None:
    """The remedy fits how tuner was installed."""
    with pytest.raises(InstrumentError, match=r"not found; install tuner again .*TUNER_LOADGEN"):
        paths.loadgen_binary()


def test_a_missing_generator_in_a_checkout_says_how_to_build_it(checked_out: Path) -> None:
    """The line to run is there to be copied."""
    with pytest.raises(InstrumentError, match=rf"cargo build .* {checked_out}/loadgen/Cargo\.toml"):
        paths.loadgen_binary()


def test_a_replaced_file_has_its_content_before_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power failure between the two leaves the old file, never an empty one."""
    path = tmp_path / "claim.json"
    paths.replace_file(path, b"old")
    flushed = []

    def flush(handle: int) -> None:
        flushed.append((Path(f"/proc/self/fd/{handle}").read_bytes(), path.read_bytes()))

    monkeypatch.setattr(os, "fsync", flush)
    paths.replace_file(path, b"new")
    assert flushed == [(b"new", b"old")]
    assert path.read_bytes() == b"new"
    assert [*tmp_path.iterdir()] == [path]
