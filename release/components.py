"""Software of others that a wheel contains: crates in the generator, JavaScript in reports."""

from __future__ import annotations

import base64
import json
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[1]
CRATE = TOP / "loadgen"
CHARTS = TOP / "release" / "vega"
TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
"""Machines that a release has wheels for, as Rust names them."""

_COMMANDS = frozenset({"commander", "iconv-lite", "rw", "yargs"})
"""Packages that only the command-line programs of Vega's packages use, which no page contains."""
_TYPES = ("@types/", "vega-typings")
"""Packages of type declarations only, which leave nothing in the page."""


@dataclass(frozen=True, slots=True)
class Component:
    """A package of others in one version."""

    name: str
    version: str
    licence: str
    """SPDX expression that the package states."""
    kind: str
    """Type of its package URL: cargo or npm."""
    digest: tuple[str, str]
    """Algorithm as CycloneDX names it, and the hexadecimal digest of the package's archive."""

    @property
    def purl(self) -> str:
        """The package URL, https://github.com/package-url/purl-spec."""
        name = self.name.replace("@", "%40")
        return f"pkg:{self.kind}/{name}@{self.version}"


def crates(cargo: str = "cargo", targets: tuple[str, ...] = TARGETS) -> list[Component]:
    """Return the crates that are linked into the generator, without those of builds and tests."""
    lock = tomllib.loads((CRATE / "Cargo.lock").read_text(encoding="utf-8"))
    digests = {(p["name"], p["version"]): p.get("checksum", "") for p in lock["package"]}
    # `cargo metadata` would also list what only build scripts, macros and tests pull in.
    command = [cargo, "tree", "--locked", "--edges", "normal,no-proc-macro", "--prefix", "none"]
    command += ["--format", "{p}|{l}", "--manifest-path", str(CRATE / "Cargo.toml")]
    lines = {
        line.removesuffix(" (*)")
        for target in targets
        for line in _output([*command, "--target", target]).splitlines()
    }
    found = []
    for line in sorted(lines):
        package, _, licence = line.partition("|")
        name, version = package.split()[:2]
        if digest := digests[name, version.removeprefix("v")]:
            # "/" is cargo's old way to write OR.
            expression = licence.replace("/", " OR ")
            version = version.removeprefix("v")
            found.append(Component(name, version, expression, "cargo", ("SHA-256", digest)))
    return found


def scripts() -> list[Component]:
    """Return the JavaScript packages that the script of a report's charts is made of."""
    packages = _locked_scripts()
    return [_script(name, packages[f"node_modules/{name}"]) for name in sorted(_reached(packages))]


def _script(name: str, package: dict[str, Any]) -> Component:
    algorithm, _, digest = package["integrity"].partition("-")
    hexadecimal = base64.b64decode(digest).hex()
    named = {"sha512": "SHA-512", "sha1": "SHA-1"}[algorithm]
    return Component(name, package["version"], package["license"], "npm", (named, hexadecimal))


def _locked_scripts() -> dict[str, dict[str, Any]]:
    lock = json.loads((CHARTS / "package-lock.json").read_text(encoding="utf-8"))
    packages: dict[str, dict[str, Any]] = lock["packages"]
    return packages


def _reached(packages: dict[str, dict[str, Any]]) -> set[str]:
    reached: set[str] = set()
    rest = list(packages[""]["dependencies"])
    while rest:
        name = rest.pop()
        if name in reached or name in _COMMANDS or name.startswith(_TYPES):
            continue
        reached.add(name)
        rest.extend(packages[f"node_modules/{name}"].get("dependencies", ()))
    return reached


def crate_folders(cargo: str = "cargo") -> Iterator[tuple[tuple[str, str], Path]]:
    """Yield name and version of each crate for the targets, with the folder of its source."""
    command = [cargo, "metadata", "--locked", "--format-version", "1"]
    command += [word for target in TARGETS for word in ("--filter-platform", target)]
    metadata = json.loads(_output([*command, "--manifest-path", str(CRATE / "Cargo.toml")]))
    for package in metadata["packages"]:
        yield (package["name"], package["version"]), Path(package["manifest_path"]).parent


def _output(command: list[str]) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
