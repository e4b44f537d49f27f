"""Virtual machines for the tests here; where there can be none, they are skipped, and say why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.vm.machine import ACCELERATOR, BOOT_S, Ended, refusal, run

VM = Path(__file__).parent
Boot = Callable[..., Ended]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests in virtual machines: minutes long."""
    for item in items:
        if item.path.is_relative_to(VM):
            item.add_marker(pytest.mark.vm)


@pytest.fixture(scope="session")
def usable(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skip the tests unless a machine boots here within a minute."""
    reason = refusal()
    if not reason and ACCELERATOR == "kvm":
        try:
            run("true", tmp_path_factory.mktemp("vm"), smp="1", limit_s=BOOT_S)
        except RuntimeError as error:
            # A KVM without the processor's own virtualisation emulates the kernel's instructions.
            line = str(error).partition("\n")[0]
            reason = f"/dev/kvm is of no use here: a machine of one CPU has {line}"
    if reason:
        pytest.skip(f"{reason}: nothing was tested in virtual machines")


@pytest.fixture
def boot(usable: None, tmp_path: Path) -> Boot:  # noqa: ARG001 - it skips
    """Return the function that runs a script in a machine; see ``tests.vm.machine.run``."""

    def booted(script: str, smp: str, *options: str, arguments: str = "") -> Ended:
        return run(script, tmp_path / "vm", smp=smp, options=options, arguments=arguments)

    return booted
