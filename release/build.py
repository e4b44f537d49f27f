"""Build a release: the source distribution, a wheel for each machine, and its symbols.

    python -m release.build [--only MACHINE] [FOLDER]

`make release` runs it. MACHINE is x86_64 or aarch64; FOLDER is `dist` unless named. Each wheel runs
with glibc 2.28 or newer, which cargo-zigbuild links against, whatever this machine has.
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from release.components import TARGETS, TOP

GLIBC = "2.28"
"""The oldest glibc that the wheels run with: Debian 10, RHEL 8, Ubuntu 20.04."""
_HATCHLING = (sys.executable, "-m", "hatchling", "build")


def environment(target: str) -> dict[str, str]:
    """Return the variables of a build for a target."""
    # No path of this machine in the program: panics print those of sources.
    homes = {Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")): "cargo", TOP: "tuner"}
    flags = [f"--remap-path-prefix={path}=/{name}" for path, name in homes.items()]
    return {
        # The jobs of cargo are no children of the make that runs this.
        **{name: value for name, value in os.environ.items() if name != "MAKEFLAGS"},
        "CARGO_BUILD_TARGET": target,
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
        "TUNER_GLIBC": GLIBC,
        # cargo-zigbuild looks for zig and Python there.
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }


def build(folder: Path, targets: Sequence[str]) -> None:
    """Build everything into a folder, in place of an earlier release there."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("servertune-*"):
        file.unlink()
    subprocess.run([*_HATCHLING, "-t", "sdist", "-d", str(folder)], cwd=TOP, check=True)
    for target in targets:
        variables = environment(target)
        # Nobody else's folder of builds: the symbols are looked for in this one.
        variables["CARGO_TARGET_DIR"] = str(TOP / "loadgen" / "target")
        before = set(folder.glob("*.whl"))
        subprocess.run(
            [*_HATCHLING, "-t", "wheel", "-d", str(folder)], cwd=TOP, env=variables, check=True
        )
        (wheel,) = set(folder.glob("*.whl")) - before
        check_wheel(wheel, target)
        check_sbom(wheel)
        stripped = TOP / "loadgen" / "target" / target / "release" / "stripped"
        with gzip.GzipFile(folder / f"{wheel.stem}.debug.gz", "wb", mtime=0) as packed:
            packed.write((stripped / "tuner-loadgen.debug").read_bytes())
    for file in sorted(folder.iterdir()):
        print(f"{file.stat().st_size:>12,}  {file.name}")


def check_wheel(wheel: Path, target: str) -> None:
    """Raise SystemExit if a wheel is for a newer system than it should be, or another machine."""
    major, minor = GLIBC.split(".")
    machine = target.partition("-")[0]
    name, version, python, abi, platform = wheel.stem.split("-")
    _, found_major, found_minor, found_machine = platform.split("_", 3)
    tag = f"{python}-{abi}-{platform}"
    if found_machine != machine or (int(found_major), int(found_minor)) > (int(major), int(minor)):
        raise SystemExit(f"{name} {version} is for {tag}, not for glibc {GLIBC} on {machine}")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    if not any(".dist-info/sboms/" in name for name in names):
        raise SystemExit(f"{wheel.name} has no bill of materials")


def check_sbom(wheel: Path) -> None:
    """Raise SystemExit if a wheel's bill of materials is not what CycloneDX prescribes."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".cdx.json"))
        text = archive.read(name).decode()
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise SystemExit(f"{name} in {wheel.name}: {error}")


def main() -> None:
    """Read the command line and build."""
    parser = argparse.ArgumentParser(description="Build what a release publishes.")
    machines = {target.partition("-")[0]: target for target in TARGETS}
    parser.add_argument("--only", choices=machines, help="build for this machine alone")
    parser.add_argument("folder", nargs="?", type=Path, default=TOP / "dist")
    options = parser.parse_args()
    build(options.folder.resolve(), [machines[options.only]] if options.only else TARGETS)


if __name__ == "__main__":
    main()
