"""Build hook: compiles the load generator and puts the definition folders into the wheel.

The generator is installed as a script, so `tuner-loadgen` stands beside `tuner` on the PATH of
the environment. An editable install gets the generator too; its definitions stay in the checkout.

A wheel contains the generator without its symbols, which stay next to the binary as
`stripped/tuner-loadgen.debug`, and a bill of materials. Its tag names the oldest glibc that the
generator runs with.

Environment:
    CARGO_BUILD_TARGET: the machine to build for, as Rust names it [this one].
    TUNER_GLIBC: the oldest glibc to build for, such as 2.28; needs cargo-zigbuild [this machine's].
    OBJCOPY: the program that takes the symbols out [one for the machine, if there is one].
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

GENERATOR = "tuner-loadgen"
RUSTUP_URL = "https://rustup.rs"

# `studies/` also holds the results of studies, which are nobody else's: only definitions travel.
DATA_PATTERNS = {
    "templates": ("**/*",),
    "spaces": ("**/*",),
    "playbooks": ("**/*",),
    "studies": ("*.yaml", "workloads/*.yaml", "experiments/*.yaml", "published/*/*.yaml"),
}

MACHINES = ("x86_64", "aarch64")
"""Machines that a release has wheels for, as tags name them."""
Release = tuple[int, int]  # major, minor


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]  # parameter is the builder's configuration, unused here
    """Adds the generator and the definitions to every wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile and collect; called by hatchling before a wheel is written.

        Args:
            version: "standard", or "editable" for a development install.
            build_data: what hatchling will put into the wheel; extended in place.
        """
        if not sys.platform.startswith("linux"):
            raise self.failure(f"tuner runs on Linux only; this is {sys.platform}.")
        root = Path(self.root)
        # The modules of a release lie in the checkout, which is on no path.
        sys.path.insert(0, self.root)
        from release.elf import platform_tag

        manifest = root / "loadgen" / "Cargo.toml"
        cargo = self.find_cargo(minimum_rust(manifest))
        generator = self.build_generator(cargo, manifest)
        platform = platform_tag(generator) or re.sub(r"[-.]", "_", sysconfig.get_platform())
        build_data["pure_python"] = False
        # No extension module, so any Python 3 will do; the generator fixes the platform.
        build_data["tag"] = f"py3-none-{platform}"
        if version != "editable":
            generator = self.without_symbols(generator, platform)
            build_data["sbom_files"].append(self.bill_of_materials(cargo, generator, platform))
        build_data["shared_scripts"][str(generator)] = GENERATOR
        if version != "editable":
            for kind, patterns in DATA_PATTERNS.items():
                files = list(data_files(root / kind, patterns))
                if not files:
                    raise self.failure(
                        f"{root / kind} holds no definitions; the checkout is incomplete."
                    )
                for file in files:
                    relative = file.relative_to(root)
                    build_data["force_include"][str(file)] = f"tuner/_data/{relative}"

    def build_generator(self, cargo: str, manifest: Path) -> Path:
        """Compile the generator in release mode and return the path of the binary."""
        self.app.display_info(f"Building {GENERATOR} with {cargo}")
        command = [cargo, "build", "--release", "--locked", "--manifest-path", str(manifest)]
        if oldest := os.environ.get("TUNER_GLIBC"):
            target = os.environ.get("CARGO_BUILD_TARGET") or host_target(cargo)
            command[1:2] = ["zigbuild", "--target", f"{target}.{oldest}"]
        build = subprocess.run(
            # cargo itself says where the binary lies, whatever the user's target directory is.
            [*command, "--message-format", "json-render-diagnostics"],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if build.returncode != 0:
            raise self.failure(f"cargo could not build {manifest}: see its messages above.")
        for line in build.stdout.splitlines():
            message = json.loads(line)
            if message.get("executable") and message["target"]["name"] == GENERATOR:
                return Path(message["executable"])
        raise self.failure(f"cargo built {manifest} but no program named {GENERATOR}.")

    def without_symbols(self, generator: Path, platform: str) -> Path:
        """Return a copy of the generator without symbols, and write these next to it."""
        folder = generator.parent / "stripped"
        folder.mkdir(exist_ok=True)
        stripped, symbols = folder / GENERATOR, folder / f"{GENERATOR}.debug"
        objcopy = find_objcopy(platform)
        if objcopy is None:
            self.app.display_warning("No objcopy was found: the generator keeps its symbols.")
            shutil.copy2(generator, stripped)
            return stripped
        commands: tuple[list[str | Path], ...] = (
            [objcopy, "--only-keep-debug", "--compress-debug-sections", generator, symbols],
            # The name of the file with the symbols is stored, so that debuggers find it.
            [objcopy, "--strip-all", f"--add-gnu-debuglink={symbols}", generator, stripped],
        )
        for command in commands:
            if subprocess.run(command, check=False).returncode != 0:
                raise self.failure(f"{objcopy} could not take the symbols out of {generator}.")
        return stripped

    def bill_of_materials(self, cargo: str, generator: Path, platform: str) -> str:
        """Write the bill of materials of the wheel next to the generator and return its path."""
        from release.components import TARGETS, crates, scripts
        from release.sbom import write_sbom

        # On a machine that no release is for, the crates of all that releases are for.
        targets = tuple(name for name in TARGETS if platform.endswith(name.partition("-")[0]))
        name = self.metadata.core.name
        path = generator.with_name(f"{name}.cdx.json")
        groups = {GENERATOR: crates(cargo, targets or TARGETS), "charts": scripts()}
        write_sbom(path, name, self.metadata.version, groups)
        return str(path)

    def find_cargo(self, needed: Release) -> str:
        """Return a cargo that is new enough, or stop with what to do."""
        # rustup's default folder comes last: a fresh install is not on the PATH of this shell.
        candidates = (os.environ.get("CARGO"), "cargo", str(Path.home() / ".cargo/bin/cargo"))
        how = (
            f"The load generator is written in Rust and needs cargo {needed[0]}.{needed[1]} or "
            f"newer: install it with rustup ({RUSTUP_URL}) or from your system's packages, "
            "then install tuner again."
        )
        too_old = []
        for candidate in candidates:
            cargo = shutil.which(candidate) if candidate else None
            if cargo is None:
                continue
            words = subprocess.run(
                [cargo, "--version"], capture_output=True, text=True, check=False
            ).stdout
            found = re.match(r"cargo (\d+)\.(\d+)", words)
            if found and (int(found[1]), int(found[2])) >= needed:
                return cargo
            too_old.append(f"{cargo} is {words.strip() or 'not working'}.")
        raise self.failure(" ".join([*too_old, how]) if too_old else f"cargo was not found. {how}")

    def failure(self, message: str) -> SystemExit:
        """Say why the build stops; raising what is returned ends it without a traceback."""
        self.app.display_error(message)
        return SystemExit(1)


def data_files(folder: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    """Yield the files of `folder` that match, in a stable order, without caches and hidden ones."""
    found = {file for pattern in patterns for file in folder.glob(pattern) if file.is_file()}
    for file in sorted(found):
        parts = file.relative_to(folder).parts
        if not any(part.startswith(".") or part == "__pycache__" for part in parts):
            yield file


def host_target(cargo: str) -> str:
    """Return this machine as Rust names it."""
    words = subprocess.run([cargo, "-vV"], capture_output=True, text=True, check=True).stdout
    return words.partition("host: ")[2].split()[0]


def find_objcopy(platform: str) -> str | None:
    """Return a program that can take the symbols out of a program for the platform."""
    here = sysconfig.get_platform().removeprefix("linux-")
    machine = next((name for name in MACHINES if platform.endswith(name)), here)
    named = "objcopy" if machine == here else f"{machine}-linux-gnu-objcopy"
    candidates = (os.environ.get("OBJCOPY"), named, "llvm-objcopy")
    return next((found for name in candidates if name and (found := shutil.which(name))), None)


def minimum_rust(manifest: Path) -> Release:
    """Return the oldest Rust that the crate says it builds with, as (major, minor)."""
    package = tomllib.loads(manifest.read_text(encoding="utf-8"))["package"]
    major, minor, *_ = package["rust-version"].split(".")
    return int(major), int(minor)
