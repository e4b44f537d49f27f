"""The oldest system that a program runs on, read from the program itself."""

from __future__ import annotations

import re
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

# Each Linux with glibc has them: PEP 513 and the policies of auditwheel.
_EVERYWHERE = re.compile(
    r"(?:libc|libm|libdl|librt|libutil|libpthread|libnsl|libresolv|libgcc_s)\.so\.\d+|ld-linux.*\.so\.\d"
)
_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}
# The least that the format of the tag allows for these machines, https://peps.python.org/pep-0600/.
_OLDEST = (2, 17)


def platform_tag(program: Path) -> str | None:
    """Return the wheel tag of a program, such as "manylinux_2_28_x86_64".

    The tag names the newest glibc among the versions of the symbols that the program needs, as
    `auditwheel` does. None if a tag can not be derived: the program needs a library that is not
    on every Linux, or another C library than glibc, or it runs on another kind of machine.
    """
    with program.open("rb") as file:
        elf = ELFFile(file)
        machine = _MACHINES.get(elf["e_machine"])
        libraries = [
            str(tag.needed)  # type: ignore[attr-defined]  # named after the tag
            for section in elf.iter_sections()
            if isinstance(section, DynamicSection)
            for tag in section.iter_tags("DT_NEEDED")
        ]
        versions = [
            version.name
            for section in elf.iter_sections()
            if isinstance(section, GNUVerNeedSection)
            for _, needed in section.iter_versions()
            for version in needed
        ]
    numbers = [_glibc(version) for version in versions if version.startswith("GLIBC_")]
    if machine is None or not numbers or not all(map(_EVERYWHERE.fullmatch, libraries)):
        return None
    major, minor = max([*numbers, _OLDEST])
    return f"manylinux_{major}_{minor}_{machine}"


def _glibc(version: str) -> tuple[int, int]:
    """Return the glibc that has the symbols of a version, such as "GLIBC_2.28"."""
    if version == "GLIBC_ABI_DT_RELR":
        return 2, 36
    major, minor = version.removeprefix("GLIBC_").split(".")[:2]
    return int(major), int(minor)
