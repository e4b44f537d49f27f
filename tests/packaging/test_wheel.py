"""The package as a user gets it: built, installed elsewhere, and run without the checkout."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from release.notices import NOTICES

TOP = Path(__file__).resolve().parents[2]
KINDS = ("templates", "spaces", "playbooks", "studies")

# It builds and installs; no server runs, so it need not wait for the real ones.
pytestmark = pytest.mark.integration


@dataclass(frozen=True, slots=True)
class Installation:
    """A clean environment with the wheel in it."""

    wheel: Path
    environment: Path
    elsewhere: Path

    def run(self, *command: str) -> str:
        """Run a program of the environment in a folder that has nothing to do with it."""
        return run([str(self.environment / "bin" / command[0]), *command[1:]], self.elsewhere)


def run(command: list[str], folder: Path, **variables: str) -> str:
    """Run to the end without a trace of the checkout in the environment; return the output."""
    unset = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "TUNER_LOADGEN")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= variables
    # The crates that others wrote are compiled once for the checkout and for the wheel.
    environment["CARGO_TARGET_DIR"] = str(TOP / "loadgen" / "target")
    done = subprocess.run(
        command, cwd=folder, env=environment, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The wheel, built from the source distribution, in a new virtual environment."""
    top = tmp_path_factory.mktemp("wheel")
    elsewhere = top / "elsewhere"
    elsewhere.mkdir()
    # By way of the source distribution: it must hold everything that a build needs.
    run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(top)], TOP)
    (sdist,) = top.glob("servertune-*.tar.gz")
    cargo = {"CARGO": str(cargo_of_the_checkout(top))} if holds_the_generator(sdist) else {}
    pip = [sys.executable, "-m", "pip"]
    build = [*pip, "wheel", "-q", "--no-deps", "--no-build-isolation"]
    run([*build, "-w", str(top), str(sdist)], top, **cargo)
    (wheel,) = top.glob("servertune-*.whl")
    environment = top / "environment"
    run([sys.executable, "-m", "venv", str(environment)], top)
    pip = [str(environment / "bin" / "python"), "-m", "pip"]
    lock = str(TOP / "requirements.lock")
    # Compiling all modules of all packages would take longer than the tests, which import few.
    run([*pip, "install", "-q", "--no-compile", "--require-hashes", "-r", lock], top)
    run([*pip, "install", "-q", "--no-compile", "--no-deps", str(wheel)], top)
    return Installation(wheel=wheel, environment=environment, elsewhere=elsewhere)


def holds_the_generator(sdist: Path) -> bool:
    """Return whether a source distribution has all that the checkout's generator was built from.

    cargo keeps the list of its inputs next to the program (The Cargo Book, "Build Cache").
    """
    crate = TOP / "loadgen"
    kept = crate / "target" / "release" / "tuner-loadgen.d"
    if not kept.is_file():
        return False
    read = shlex.split(kept.read_text().partition(": ")[2])
    inputs = {crate / "Cargo.toml", crate / "Cargo.lock", *map(Path, read)}
    with tarfile.open(sdist) as archive:
        prefix = sdist.name.removesuffix(".tar.gz")
        held = {Path(member.name).relative_to(prefix): member for member in archive}

        def is_held(file: Path) -> bool:
            member = held.get(file.relative_to(TOP))
            found = archive.extractfile(member) if member else None
            return found is not None and found.read() == file.read_bytes()

        return all(file.is_relative_to(TOP) and is_held(file) for file in inputs)


def cargo_of_the_checkout(folder: Path) -> Path:
    """Make a cargo that takes the checkout's crate in place of a copy elsewhere.

    cargo would compile an equal crate again, for a minute: it knows a crate by its path.
    """
    program = folder / "cargo"
    crate = TOP / "loadgen" / "Cargo.toml"
    program.write_text(
        "#!/bin/bash\nPATH=$PATH:$HOME/.cargo/bin exec cargo "
        f'"${{@/#*\\/loadgen\\/Cargo.toml/{crate}}}"\n'
    )
    program.chmod(0o755)
    return program


def definitions(kind: str) -> set[str]:
    """Return the definition files of one kind in the checkout; results of studies are none."""
    folder = TOP / kind
    if kind == "studies":
        patterns = ("*.yaml", "workloads/*.yaml", "experiments/*.yaml", "published/*/*.yaml")
        files = {file for pattern in patterns for file in folder.glob(pattern)}
    else:
        files = {file for file in folder.rglob("*") if file.is_file()}
    return {str(file.relative_to(TOP)) for file in files if "__pycache__" not in file.parts}


def test_the_wheel_is_for_any_python_3_on_this_kind_of_machine(installation: Installation) -> None:
    """One wheel per architecture: the generator is the only compiled part."""
    tag = r"py3-none-manylinux_2_\d+_(x86_64|aarch64)"
    assert re.fullmatch(rf"servertune-[\d.]+-{tag}\.whl", installation.wheel.name)


def test_the_wheel_contains_nothing_that_only_developers_need(installation: Installation) -> None:
    """The package, its metadata, and a generator without symbols."""
    with zipfile.ZipFile(installation.wheel) as wheel:
        sizes = {entry.filename: entry.file_size for entry in wheel.infolist()}
    assert {name.partition("/")[0].rpartition(".")[2] for name in sizes} == {
        *("tuner", "dist-info", "data")
    }
    assert not [name for name in sizes if name.endswith((".rs", ".lock", ".debug", ".pyc"))]
    (generator,) = (size for name, size in sizes.items() if name.endswith("/tuner-loadgen"))
    assert generator < 8_000_000


def test_the_wheel_names_the_software_of_others(installation: Installation) -> None:
    """Notices, and a bill of materials where PEP 770 puts it, of the crates of this machine."""
    with zipfile.ZipFile(installation.wheel) as wheel:
        (notices,) = (name for name in wheel.namelist() if "THIRD-PARTY-NOTICES" in name)
        assert wheel.read(notices).decode() == NOTICES.read_text(encoding="utf-8")
        (bill,) = (name for name in wheel.namelist() if ".dist-info/sboms/" in name)
        parts = {
            part["name"]: part["components"] for part in json.loads(wheel.read(bill))["components"]
        }
    assert "rustls" in {crate["name"] for crate in parts["tuner-loadgen"]}
    assert "vega" in {script["name"] for script in parts["charts"]}


def test_a_chart_as_a_file_needs_an_extra_that_the_message_names(
    installation: Installation,
) -> None:
    """The engine that draws files is large, and the charts of report.html do without it."""
    program = "from tuner.report.pictures import require_engine; require_engine()"
    done = subprocess.run(
        [str(installation.environment / "bin" / "python"), "-c", program],
        cwd=installation.elsewhere, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "pip install 'servertune[png]'" in done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_every_definition_of_the_checkout_is_in_the_wheel(
    installation: Installation, kind: str
) -> None:
    """No more and no less: results of studies are not definitions."""
    with zipfile.ZipFile(installation.wheel) as wheel:
        prefix = f"tuner/_data/{kind}/"
        packed = {name for name in wheel.namelist() if name.startswith(prefix)}
    assert packed == {f"tuner/_data/{file}" for file in definitions(kind)}
    assert packed


def test_the_installed_package_finds_its_own_definitions(installation: Installation) -> None:
    """Paths lead into the environment, not into the checkout."""
    program = f"import tuner.paths as p; print(*map(p.data_dir, {KINDS}), p.loadgen_binary())"
    found = installation.run("python", "-c", program).split()
    assert len(found) == len(KINDS) + 1
    assert all(Path(path).is_relative_to(installation.environment) for path in found)


def test_every_dependency_is_satisfied_by_the_lock(installation: Installation) -> None:
    """`pip check` finds every requirement of the wheel satisfied by the lock."""
    assert "No broken requirements found" in installation.run("python", "-m", "pip", "check")


def test_the_generator_runs_from_the_environment(installation: Installation) -> None:
    """`tuner-loadgen` is installed next to `tuner` and is executable."""
    assert re.match(r"tuner-loadgen \d+\.\d+\.\d+", installation.run("tuner-loadgen", "--version"))


def test_doctor_finds_the_server_and_the_generator(installation: Installation) -> None:
    """A fresh installation on a machine with Nginx is ready for a study."""
    answer = installation.run("tuner", "doctor", "--quick")
    assert "nginx" in answer.lower()
    assert str(installation.environment / "bin" / "tuner-loadgen") in answer
