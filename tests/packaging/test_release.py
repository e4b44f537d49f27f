"""Tests of a release: tags, the bill of materials, notices, and the script of the charts."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from pathlib import Path

import pytest

from release.build import GLIBC, check_wheel
from release.charts import PACKAGES, SCRIPT, heads
from release.components import CHARTS, TARGETS, Component, crates, scripts
from release.elf import platform_tag
from release.notices import NOTICES, listed, render
from release.sbom import write_sbom
from tuner.paths import loadgen_binary

X86 = TARGETS[0]


@pytest.fixture(scope="module")
def linked() -> list[Component]:
    """The crates in the generator of each machine."""
    return crates()


def wheel(folder: Path, platform: str, *names: str) -> Path:
    """Return a wheel with empty files of these names."""
    path = folder / f"servertune-1.0-py3-none-{platform}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "")
    return path


def test_a_tag_names_the_newest_glibc_that_a_program_needs() -> None:
    """The generator of this environment needs glibc alone."""
    tag = platform_tag(loadgen_binary())
    assert re.fullmatch(r"manylinux_2_\d\d_(x86_64|aarch64)", tag or "")


def test_a_program_with_libraries_of_its_system_has_no_tag() -> None:
    """Nginx needs PCRE and more, which another Linux may lack."""
    program = shutil.which("nginx")
    assert program is not None
    assert platform_tag(Path(program)) is None


@pytest.mark.parametrize(
    ("platform", "message"),
    [
        ("manylinux_2_34_x86_64", "not for glibc 2.28 on x86_64"),
        ("manylinux_2_28_aarch64", "not for glibc 2.28 on x86_64"),
        ("manylinux_2_17_x86_64", "has no bill of materials"),
    ],
)
def test_a_wheel_that_others_cannot_use_stops_a_release(
    tmp_path: Path, platform: str, message: str
) -> None:
    """A newer glibc, another machine, and a wheel without its bill of materials are refused."""
    with pytest.raises(SystemExit, match=message):
        check_wheel(wheel(tmp_path, platform), X86)


def test_a_wheel_for_the_oldest_glibc_or_an_older_one_is_published(tmp_path: Path) -> None:
    """Any glibc up to the oldest one that a release supports is accepted."""
    for oldest in (GLIBC, "2.17"):
        tag = f"manylinux_{oldest.replace('.', '_')}_x86_64"
        check_wheel(wheel(tmp_path, tag, "servertune-1.0.dist-info/sboms/x.cdx.json"), X86)


def test_notices_list_every_crate_and_script_of_the_locks(linked: list[Component]) -> None:
    """`make notices` is due after a change to a lock."""
    wanted = {(part.name, part.version) for part in [*linked, *scripts()]}
    assert listed(NOTICES.read_text(encoding="utf-8")) == wanted


def test_notices_repeat_no_text_and_require_one_of_each(tmp_path: Path) -> None:
    """Packages with the same licence refer to one text; a package without any stops the release."""
    parts = [Component(name, "1.0", "MIT", "cargo", ("SHA-256", "00")) for name in "abc"]
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "LICENSE").write_text(f"Permission is\ngranted{' ' * ord(name)}\n")
    text = render([("Crates", [(part, tmp_path / part.name) for part in parts[:2]])])
    assert text.count("Permission is") == 1
    assert "a 1.0  (MIT): 1\nb 1.0  (MIT): 1\n" in text
    (tmp_path / "c").mkdir()
    with pytest.raises(SystemExit, match=r"^pkg:cargo/c@1\.0: .* has no licence file"):
        render([("Crates", [(parts[2], tmp_path / "c")])])


def test_the_bill_of_materials_has_package_urls_licences_and_digests(
    tmp_path: Path, linked: list[Component]
) -> None:
    """Scanners match components by package URL and digest; equal wheels have equal bills."""
    groups = {"tuner-loadgen": linked, "charts": scripts()}
    for name in ("one", "two"):
        write_sbom(tmp_path / name, "servertune", "1.0", groups)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    bill = json.loads((tmp_path / "one").read_text(encoding="utf-8"))
    found = [entry for part in bill["components"] for entry in part["components"]]
    assert {entry["purl"] for entry in found} >= {
        f"pkg:npm/vega@{json.loads((CHARTS / 'package.json').read_text())['dependencies']['vega']}",
        *(f"pkg:cargo/{crate.name}@{crate.version}" for crate in linked),
    }
    assert all(re.fullmatch(r"[0-9a-f]{64,128}", entry["hashes"][0]["content"]) for entry in found)
    assert all(entry["licenses"][0]["expression"] for entry in found)
    references = {bill["metadata"]["component"]["bom-ref"], *groups} | {e["bom-ref"] for e in found}
    assert {entry["ref"] for entry in bill["dependencies"]} <= references


def test_the_script_of_the_charts_is_the_one_that_package_json_names() -> None:
    """`make charts` is due after a change to release/vega/package.json."""
    script = SCRIPT.read_text(encoding="utf-8")
    assert re.findall(r"^// .*, see THIRD-PARTY-NOTICES\.txt$", script, re.MULTILINE) == heads()
    locked = json.loads((CHARTS / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    for name, head in zip(PACKAGES, heads(), strict=True):
        assert head.startswith(f"// {name} {locked[f'node_modules/{name}']['version']},")
